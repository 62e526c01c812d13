// When an order arrives (docs/decisions/promise.md). The database fixes the promise; this is the same rule for screens and tests.
import { nairobiOffsetMs } from '../nairobi-time.ts';

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
  /** The agreed day, such as `2026-12-01`. */
  delivery_day?: string | null;
}

/**
 * When an order is late: its promise, else the end of the agreed day, else an hour after its payment. `private.due_at` in the database.
 * @param paidAt creation of its delivery
 */
export function dueAt({ promised_at, delivery_day }: PromisedOrder, paidAt: string): string {
  if (promised_at !== null) return promised_at;
  const due = delivery_day
    ? // 23:59 in Nairobi.
      Date.parse(`${delivery_day}T20:59Z`)
    : Date.parse(paidAt) + shopPromiseMinutes * 60_000;
  return new Date(due).toISOString();
}

/** Minutes until a time, rounded down: negative once it is over. */
export const minutesLeft = (due: string, now: number): number => Math.floor((Date.parse(due) - now) / 60_000);

const dayMs = 24 * 60 * 60_000;

/**
 * A time of arrival in Nairobi, for a reader of now.
 * @returns such as `22:14`, `08:45 tomorrow` or `08:45 on Mon 30 Nov`
 */
export function formatArrival(when: string, now: number): string {
  const at = Date.parse(when) + nairobiOffsetMs;
  const days = Math.floor(at / dayMs) - Math.floor((now + nairobiOffsetMs) / dayMs);
  // "Mon, 30 Nov 2026 08:45:00 GMT". Without Intl, which takes long on a phone.
  const written = new Date(at).toUTCString();
  const time = written.slice(17, 22);
  if (days === 0) return time;
  if (days === 1) return `${time} tomorrow`;
  return `${time} on ${written.slice(0, 3)} ${+written.slice(5, 7)} ${written.slice(8, 11)}`;
}
