// Formats dates and times in Kenyan time.
import { inNairobi, nairobiClock, startOfNairobiDay } from '../../../domain/nairobi-time.ts';

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
export const formatDate = (when: string): string => writeDate(Date.parse(when));

function writeDate(when: number): string {
  const time = inNairobi(when);
  return `${time.getUTCDate()} ${months[time.getUTCMonth()]} ${time.getUTCFullYear()}`;
}

/**
 * @param day ISO date
 * @returns such as `1 December 2026`
 */
export const formatDay = (day: string): string => writeDate(startOfNairobiDay(day));

/** @returns such as `09:05` */
export const formatOrderTime = (when: string): string => nairobiClock(Date.parse(when));

/** The year in Nairobi, such as 2027 from 31 December 2026, 21:00 UTC on. */
export const nairobiYear = (when: Date): number => inNairobi(when.getTime()).getUTCFullYear();
