// Formats dates and times in Kenyan time.

// Created on first use, because it takes long on a phone.
let nairobi: Intl.DateTimeFormat | undefined;
const longFormat: Intl.DateTimeFormatOptions = {
  timeZone: 'Africa/Nairobi',
  day: 'numeric',
  month: 'long',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  hourCycle: 'h23',
};

/**
 * Day and time in the en-GB long format (docs/product.md#tracking).
 * @param when an ISO date-time
 * @returns such as `21 November 2026 at 09:05`: put together here, since server and browser may join the parts differently
 */
export function formatOrderDate(when: string): string {
  const part = partsOf(when);
  return `${part.day} ${part.month} ${part.year} at ${part.hour}:${part.minute}`;
}

/** The year in Nairobi, such as 2027 from 31 December 2026, 21:00 UTC on. */
export const nairobiYear = (when: Date): number => Number(partsOf(when.toISOString()).year);

/**
 * @param day ISO date
 * @returns such as `1 December 2026`
 */
export function formatDay(day: string): string {
  const part = partsOf(`${day}T12:00:00+03:00`);
  return `${part.day} ${part.month} ${part.year}`;
}

/** @returns such as `09:05` */
export function formatOrderTime(when: string): string {
  const part = partsOf(when);
  return `${part.hour}:${part.minute}`;
}

function partsOf(when: string): Record<string, string> {
  nairobi ??= new Intl.DateTimeFormat('en-GB', longFormat);
  return Object.fromEntries(nairobi.formatToParts(new Date(when)).map(({ type, value }) => [type, value]));
}
