import { expect, test } from 'vitest';
import {
  always,
  checkDaysOff,
  checkHours,
  daysOffColumn,
  daysOffText,
  describeDaysOff,
  describeHours,
  endsNextDay,
  hoursColumn,
  hoursText,
  nextDayOf,
  sameEveryDay,
  writeDaysOff,
  writeSpans,
} from './hours-values.ts';

const span = (day: number, from: string, to: string) => ({ day, from, to });

test('no stored hours mean always, and back', () => {
  expect(hoursText([])).toBe(always);
  expect(hoursColumn(always)).toEqual([]);
  expect(checkHours(always)).toBeNull();
  expect(describeHours(always)).toBe('Always');
});

test('hours are stored by day and time, with midnight as 24:00, and read as they were', () => {
  const text = writeSpans([span(2, '18:00', '02:00'), span(1, '14:00', '00:00'), span(1, '08:00', '12:00')]);
  const column = [span(1, '08:00', '12:00'), span(1, '14:00', '24:00'), span(2, '18:00', '02:00')];
  expect(hoursColumn(text)).toEqual(column);
  expect(hoursColumn(hoursText(column))).toEqual(column);
  expect(hoursText([...column].reverse())).toBe(hoursText(column));
});

test('knows which spans end on the next day', () => {
  expect(endsNextDay(span(7, '18:00', '02:00'))).toBe(true);
  expect(nextDayOf(span(7, '18:00', '02:00'))).toBe('Monday');
  expect(endsNextDay(span(1, '18:00', '00:00'))).toBe(false);
  expect(endsNextDay(span(1, '08:00', '22:00'))).toBe(false);
  expect(endsNextDay(span(1, '18:00', '')), 'not typed yet').toBe(false);
});

test.each([
  [[], 'Add a time at which you are open, or choose Always'],
  [[span(1, '08:00', '')], 'Monday: please enter both times'],
  [[span(3, '', '08:00')], 'Wednesday: please enter both times'],
  [[span(2, '08:00', '08:00')], 'Tuesday: opening and closing are the same'],
  [[span(2, '00:00', '00:00')], null],
  [Array.from({ length: 43 }, () => span(1, '08:00', '09:00')), 'Please use at most 42 times'],
])('checks the hours %j', (spans, problem) => {
  expect(checkHours(writeSpans(spans))).toBe(problem);
});

test('the hours of the first open day are copied to every day', () => {
  const text = sameEveryDay(
    writeSpans([span(3, '08:00', '12:00'), span(3, '14:00', '20:00'), span(5, '09:00', '10:00')]),
  );
  expect(hoursColumn(text)).toHaveLength(14);
  expect(describeHours(text)).toContain('Sunday 08:00-12:00 and 14:00-20:00');
});

test('days off are stored in order, without spaces around the reason', () => {
  const text = writeDaysOff([
    { day: '2026-12-26', reason: ' Boxing Day ' },
    { day: '2026-12-25', reason: 'Christmas' },
  ]);
  const column = [
    { day: '2026-12-25', reason: 'Christmas' },
    { day: '2026-12-26', reason: 'Boxing Day' },
  ];
  expect(daysOffColumn(text)).toEqual(column);
  expect(describeDaysOff(daysOffText(column))).toBe('2026-12-25 Christmas, 2026-12-26 Boxing Day');
  expect(describeDaysOff(daysOffText([]))).toBe('None');
});

test.each([
  [[{ day: '', reason: 'Christmas' }], 'Please choose the date of each day off'],
  [[{ day: '2026-12-25', reason: ' ' }], '2026-12-25: please say why, such as Christmas'],
  [[{ day: '2026-12-25', reason: 'x'.repeat(81) }], '2026-12-25: the reason is longer than 80 characters'],
  [
    [
      { day: '2026-12-25', reason: 'a' },
      { day: '2026-12-25', reason: 'b' },
    ],
    '2026-12-25 is in the list twice',
  ],
  [[{ day: '2026-12-25', reason: 'Christmas' }], null],
])('checks the days off %j', (days, problem) => {
  expect(checkDaysOff(writeDaysOff(days))).toBe(problem);
});
