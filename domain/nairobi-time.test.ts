import { expect, test } from 'vitest';
import { inNairobi, nairobiClock, nairobiDay, startOfNairobiDay } from './nairobi-time.ts';

test.each([
  ['2026-12-31T20:59:59.999Z', '2026-12-31', '23:59'],
  ['2026-12-31T21:00:00.000Z', '2027-01-01', '00:00'],
  ['2028-02-28T21:05:00.000Z', '2028-02-29', '00:05'],
  ['2026-07-01T06:05:00.000Z', '2026-07-01', '09:05'],
])('%s is %s, %s in Nairobi', (when, day, clock) => {
  const at = Date.parse(when);
  expect(nairobiDay(at)).toBe(day);
  expect(nairobiClock(at)).toBe(clock);
  expect(inNairobi(at).toISOString().slice(0, 10)).toBe(day);
  // The browsers' own calendar agrees.
  expect(new Intl.DateTimeFormat('sv-SE', { timeZone: 'Africa/Nairobi' }).format(at)).toBe(day);
});

test('a day begins at midnight in Nairobi', () => {
  expect(new Date(startOfNairobiDay('2026-12-25')).toISOString()).toBe('2026-12-24T21:00:00.000Z');
});
