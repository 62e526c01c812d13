import { expect, test } from 'vitest';
import { readDays } from './days.ts';

// Half past one in the night of the 22nd in Nairobi, still the 21st in UTC.
const now = Date.parse('2026-11-21T22:30:00Z');
const read = (day: string, from = '', until = '') => readDays({ day: day as never, from, until }, now);

test.each([
  ['', { from_day: null, until_day: null }],
  ['today', { from_day: '2026-11-22', until_day: null }],
  ['yesterday', { from_day: '2026-11-21', until_day: '2026-11-21' }],
  ['7days', { from_day: '2026-11-16', until_day: null }],
  ['nonsense', { from_day: null, until_day: null }],
])('%j names days in Nairobi', (day, days) => {
  expect(read(day)).toEqual(days);
});

test('a range may be open; an invalid day leaves it open', () => {
  expect(read('range', '2026-11-01', '2026-11-05')).toEqual({
    from_day: '2026-11-01',
    until_day: '2026-11-05',
  });
  expect(read('range', '2026-02-30', '')).toEqual({ from_day: null, until_day: null });
});
