import { expect, test } from 'vitest';
import { dayAfter, dayOf, readDay } from './nairobi-day.ts';

test('a day begins at midnight in Nairobi', () => {
  expect(dayOf(new Date('2026-11-20T20:59:59Z'))).toBe('2026-11-20');
  expect(dayOf(new Date('2026-11-20T21:00:00Z'))).toBe('2026-11-21');
});

test.each([
  ['2026-11-21', 1, '2026-11-22'],
  ['2026-12-31', 1, '2027-01-01'],
  ['2028-03-01', -1, '2028-02-29'],
])('%s and %i days are %s', (day, days, expected) => {
  expect(dayAfter(day, days)).toBe(expected);
});

test.each([null, '', 'today', '2026-02-30', '2026-13-01', '21.11.2026'])(
  'the invalid day "%s" means today',
  (text) => {
    expect(readDay(text, new Date('2026-11-20T22:00:00Z'))).toBe('2026-11-21');
  },
);
