// Formats dates and times in Kenyan time.

const months = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
];

/**
 * Day and time in the en-GB long format (docs/product.md#tracking).
 * @param when an ISO date-time
 * @returns such as `21 November 2026 at 09:05`
 */
export const formatOrderDate = (when: string): string => `${formatDate(when)} at ${formatOrderTime(when)}`;

/**
 * @param when an ISO date-time
 * @returns its day, such as `1 December 2026`
 */
export function formatDate(when: string): string {
  const time = inNairobi(when);
  return `${time.getUTCDate()} ${months[time.getUTCMonth()]} ${time.getUTCFullYear()}`;
}

/**
 * @param day ISO date
 * @returns such as `1 December 2026`
 */
export const formatDay = (day: string): string => formatDate(`${day}T12:00:00+03:00`);

/** @returns such as `09:05` */
export const formatOrderTime = (when: string): string => inNairobi(when).toISOString().slice(11, 16);

/** The year in Nairobi, such as 2027 from 31 December 2026, 21:00 UTC on. */
export const nairobiYear = (when: Date): number => inNairobi(when.toISOString()).getUTCFullYear();

/**
 * A date whose UTC parts are those of the time in Nairobi, which is three hours ahead all year. Without Intl, whose first use on a page
 * takes a cheap phone 100 ms.
 */
const inNairobi = (when: string): Date => new Date(Date.parse(when) + 3 * 60 * 60_000);
