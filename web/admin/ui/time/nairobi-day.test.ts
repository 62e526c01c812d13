import { expect, test } from 'vitest';
import { dayAfter, readDay } from './nairobi-day.ts';

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
    expect(readDay(text, '2026-11-21')).toBe('2026-11-21');
  },
);
