// A simple model of private.promise_for: it walks through the minutes one by one.
import type { DayOff, OpenSpan } from '../../../domain/deliveries/delivery-promise.ts';

export const minuteMs = 60_000;
export const dayMinutes = 24 * 60;
const horizonDays = 60;
/** Minutes since the epoch in Nairobi, which has no daylight saving time. */
export const inNairobi = (at: number) => at / minuteMs + 3 * 60;
export const fromNairobi = (minute: number) => (minute - 3 * 60) * minuteMs;
const minutesOf = (time: string) => Number(time.slice(0, 2)) * 60 + Number(time.slice(3));
/** @param day since the epoch */
export const dateOf = (day: number) => new Date(day * dayMinutes * minuteMs).toISOString().slice(0, 10);
/** 1 January 1970 was a Thursday. */
const weekdayOf = (day: number) => ((day + 3) % 7) + 1;

export interface OpenTimes {
  hours: OpenSpan[];
  daysOff: DayOff[];
}

/** Whether the shop delivers at a minute, as far as the horizon counts. */
export function isOpenAt(minute: number, { hours, daysOff }: OpenTimes, lastDay: number): boolean {
  const today = Math.floor(minute / dayMinutes);
  // A span begins today, or began yesterday and ends after midnight.
  return [today, today - 1].some((day) => {
    if (day > lastDay || daysOff.some((off) => off.day === dateOf(day))) return false;
    const spans =
      hours.length === 0
        ? [{ from: '00:00', to: '24:00' }]
        : hours.filter((span) => span.day === weekdayOf(day));
    return spans.some(({ from, to }) => {
      const begin = day * dayMinutes + minutesOf(from);
      const end = day * dayMinutes + minutesOf(to) + (minutesOf(to) <= minutesOf(from) ? dayMinutes : 0);
      return begin <= minute && minute < end;
    });
  });
}

/**
 * The moment after this many open minutes.
 * @param pausedUntil end of the pause of orders; null: none, or one without an end
 * @returns null: not within 60 days
 */
export function modelledArrival(
  shop: OpenTimes,
  minutes: number,
  at: number,
  pausedUntil: number | null,
): number | null {
  let moment = Math.max(inNairobi(at), pausedUntil === null ? 0 : inNairobi(pausedUntil));
  let remaining = minutes;
  if (shop.hours.length === 0 && shop.daysOff.length === 0) return fromNairobi(moment + remaining);
  if (minutes >= dayMinutes) {
    moment += remaining;
    remaining = 0;
  }
  const lastDay = Math.floor(moment / dayMinutes) + horizonDays;
  const end = (lastDay + 2) * dayMinutes;
  while (moment < end) {
    const next = Math.floor(moment) + 1;
    if (isOpenAt(Math.floor(moment), shop, lastDay)) {
      if (remaining <= next - moment) return fromNairobi(moment + remaining);
      remaining -= next - moment;
    }
    moment = next;
  }
  return null;
}

/** The end of the open times of a day, at the latest 23:59, which also ends a day without any. */
export function modelledEndOfDay(shop: OpenTimes, day: number): number {
  const last = (day + 1) * dayMinutes - 1;
  let minute = last;
  while (minute >= day * dayMinutes && !isOpenAt(minute, shop, day)) minute -= 1;
  return fromNairobi(minute < day * dayMinutes ? last : Math.min(minute + 1, last));
}
