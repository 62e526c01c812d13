// When an order arrives (docs/decisions/promise.md). The database fixes the promise; this is the same rule for screens and tests.

/** Minutes from the payment to the arrival, for orders without an area. `private.shop_promise_minutes` in the database. */
export const shopPromiseMinutes = 60;

/** A span in which the shop delivers. */
export interface OpenSpan {
  /** ISO weekday: 1 is Monday. */
  day: number;
  /** Such as `08:00`. */
  from: string;
  /** Such as `22:00`; `24:00` is midnight. Not after `from`: on the next day. */
  to: string;
}

export interface DayOff {
  /** Such as `2026-12-25`. */
  day: string;
  reason: string;
}

interface PromisedOrder {
  promised_at: string | null;
  created_at?: string;
}

/**
 * When an order is late: its promise, or an hour after its payment if it was paid before there were promises.
 * `private.due_at` in the database.
 * @param paidAt creation of its delivery
 */
export const dueAt = ({ promised_at }: PromisedOrder, paidAt: string): string =>
  promised_at ?? new Date(Date.parse(paidAt) + shopPromiseMinutes * 60_000).toISOString();

/** Minutes until a time, rounded down: negative once it is over. */
export const minutesLeft = (due: string, now: number): number => Math.floor((Date.parse(due) - now) / 60_000);

/** Kenya has no daylight saving time. */
const nairobiOffset = 3 * 60 * 60_000;
const dayMs = 24 * 60 * 60_000;
const clock = new Intl.DateTimeFormat('en-GB', {
  timeZone: 'Africa/Nairobi',
  hour: '2-digit',
  minute: '2-digit',
  hourCycle: 'h23',
});
const dayAndMonth = new Intl.DateTimeFormat('en-GB', {
  timeZone: 'Africa/Nairobi',
  weekday: 'short',
  day: 'numeric',
  month: 'short',
});

/**
 * A time of arrival in Nairobi, for a reader of now.
 * @returns such as `22:14`, `08:45 tomorrow` or `08:45 on Mon 30 Nov`
 */
export function formatArrival(when: string, now: number): string {
  const at = Date.parse(when);
  const days = Math.floor((at + nairobiOffset) / dayMs) - Math.floor((now + nairobiOffset) / dayMs);
  const time = clock.format(at);
  if (days === 0) return time;
  if (days === 1) return `${time} tomorrow`;
  return `${time} on ${dayAndMonth.format(at).replace(',', '')}`;
}
