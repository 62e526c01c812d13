import { expect, test } from 'vitest';
import { formatDate, formatOrderDate, formatOrderTime, nairobiYear } from './order-date.ts';

test('formats an order date in Nairobi time, in any time zone', () => {
  expect(formatOrderDate('2026-11-21T06:05:00Z')).toBe('21 November 2026 at 09:05');
  expect(formatOrderDate('2026-12-31T21:30:00.123+00:00')).toBe('1 January 2027 at 00:30');
  expect(formatOrderTime('2026-11-21T06:05:00Z')).toBe('09:05');
});

test.each(
  Array.from({ length: 12 }, (_, month) => new Date(Date.UTC(2026, month, 28, 21, 30)).toISOString()),
)('writes the day at %s as Intl does', (when) => {
  const format = { day: 'numeric', month: 'long', year: 'numeric', timeZone: 'Africa/Nairobi' } as const;
  expect(formatDate(when)).toBe(new Intl.DateTimeFormat('en-GB', format).format(new Date(when)));
});

test.each([
  ['2026-12-31T20:59:59Z', 2026],
  ['2026-12-31T21:00:00Z', 2027],
])('the year in Nairobi at %s is %i', (when, year) => expect(nairobiYear(new Date(when))).toBe(year));
