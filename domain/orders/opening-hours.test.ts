import { expect, test } from 'vitest';
import { describeOpening, endOfDay } from './opening-hours.ts';

const now = Date.parse('2026-11-29T23:30:00+03:00');
const week = (days: readonly number[], from: string, to: string) => days.map((day) => ({ day, from, to }));
const everyDay = [1, 2, 3, 4, 5, 6, 7];

test('says nothing of a shop that is always open', () => {
  expect(describeOpening([], [], now)).toBeNull();
  expect(describeOpening(week(everyDay, '00:00', '24:00'), [], now)).toBeNull();
  expect(describeOpening([], [{ day: '2026-11-28', reason: 'Over' }], now)).toBeNull();
});

test('groups days with the same hours', () => {
  expect(describeOpening(week([1, 2, 3, 4, 5, 6], '09:00', '17:00'), [], now)).toEqual({
    hours: ['Mon-Sat 9:00-17:00'],
    daysOff: [],
    schema: ['Mo-Sa 09:00-17:00'],
  });
  const spans = [
    ...week([6], '14:00', '24:00'),
    ...week([6], '08:00', '12:00'),
    ...week([1, 3], '18:00', '02:00'),
    ...week([4, 5], '00:00', '24:00'),
  ];
  expect(describeOpening(spans, [], now)).toMatchObject({
    hours: ['Mon 18:00-2:00', 'Wed 18:00-2:00', 'Thu-Fri all day', 'Sat 8:00-12:00 and 14:00-24:00'],
    schema: ['Mo 18:00-02:00', 'We 18:00-02:00', 'Th-Fr 00:00-23:59', 'Sa 08:00-12:00', 'Sa 14:00-23:59'],
  });
});

test('names the next days off, today included', () => {
  const off = (day: string) => ({ day, reason: 'Rest' });
  const days = ['2027-01-01', '2026-12-25', '2026-11-29', '2026-11-28', '2027-05-01'].map(off);
  expect(describeOpening([], days, now)).toMatchObject({
    hours: ['Mon-Sun all day'],
    daysOff: ['Sun 29 Nov 2026: Rest', 'Fri 25 Dec 2026: Rest', 'Fri 1 Jan 2027: Rest'],
  });
  expect(endOfDay(now)).toBe('2026-11-29T21:00:00.000Z');
});
