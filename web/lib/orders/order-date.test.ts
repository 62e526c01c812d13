import { expect, test } from 'vitest';
import { formatOrderDate, formatOrderTime, nairobiYear } from './order-date.ts';

test('formats an order date in Nairobi time, in any time zone', () => {
  expect(formatOrderDate('2026-11-21T06:05:00Z')).toBe('21 November 2026 at 09:05');
  expect(formatOrderDate('2026-12-31T21:30:00.123+00:00')).toBe('1 January 2027 at 00:30');
  expect(formatOrderTime('2026-11-21T06:05:00Z')).toBe('09:05');
});

test.each([
  ['2026-12-31T20:59:59Z', 2026],
  ['2026-12-31T21:00:00Z', 2027],
])('the year in Nairobi at %s is %i', (when, year) => expect(nairobiYear(new Date(when))).toBe(year));
