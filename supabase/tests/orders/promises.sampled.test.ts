// The promise of an arrival by opening hours, days off and pauses: equals a simple model, never lies in a closed time or in the past, and
// a later payment never arrives earlier.
import { testDatabases } from '@jani-juice/backend/testing';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { DayOff, OpenSpan } from '../../../domain/delivery-promise.ts';
import { isExhaustive } from '../../../scripts/tests/test-depth.ts';
import { setUpShop } from '../steps.ts';

const minuteMs = 60_000;
const dayMinutes = 24 * 60;
const horizonDays = 60;
/** Minutes since the epoch in Nairobi, which has no daylight saving time. */
const inNairobi = (at: number) => at / minuteMs + 3 * 60;
const fromNairobi = (minute: number) => (minute - 3 * 60) * minuteMs;
const minutesOf = (time: string) => Number(time.slice(0, 2)) * 60 + Number(time.slice(3));
const dateOf = (day: number) => new Date(day * dayMinutes * minuteMs).toISOString().slice(0, 10);
/** 1 January 1970 was a Thursday. */
const weekdayOf = (day: number) => ((day + 3) % 7) + 1;

interface Shop {
  hours: OpenSpan[];
  daysOff: DayOff[];
}

/** Whether the shop delivers in the minute that begins here, as far as the horizon counts. */
function isOpenAt(minute: number, { hours, daysOff }: Shop, lastDay: number): boolean {
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

/** Counts the open minutes one by one. */
function modelledArrival(shop: Shop, minutes: number, at: number, pausedUntil: number | null): number | null {
  let minute = Math.max(inNairobi(at), pausedUntil === null ? 0 : inNairobi(pausedUntil));
  let remaining = minutes;
  if (shop.hours.length === 0 && shop.daysOff.length === 0) return fromNairobi(minute + remaining);
  if (minutes >= dayMinutes) {
    minute += remaining;
    remaining = 0;
  }
  const lastDay = Math.floor(minute / dayMinutes) + horizonDays;
  const end = (lastDay + 2) * dayMinutes;
  if (remaining === 0) {
    while (minute < end && !isOpenAt(minute, shop, lastDay)) minute++;
    return minute < end ? fromNairobi(minute) : null;
  }
  while (minute < end) {
    if (isOpenAt(minute, shop, lastDay)) remaining--;
    minute++;
    if (remaining === 0) return fromNairobi(minute);
  }
  return null;
}

const firstDay = inNairobi(Date.parse('2026-11-28T00:00:00+03:00'));
const clockTime = fc.integer({ min: 0, max: 95 }).map((quarter) => {
  const minutes = quarter * 15;
  return `${String(Math.floor(minutes / 60)).padStart(2, '0')}:${String(minutes % 60).padStart(2, '0')}`;
});
const span = fc
  .record({
    day: fc.integer({ min: 1, max: 7 }),
    from: clockTime,
    to: fc.oneof(clockTime, fc.constant('24:00')),
  })
  .filter(({ from, to }) => from !== to);
const dayOff = fc
  .integer({ min: 0, max: 12 })
  .map((days) => ({ day: dateOf(firstDay / dayMinutes + days), reason: 'Holiday' }));
const moment = fc.integer({ min: 0, max: 10 * dayMinutes }).map((minutes) => fromNairobi(firstDay + minutes));

describe.each(testDatabases())('on %s', (kind) => {
  const { database } = setUpShop(kind);

  test('equals the model, lies in an open time, not in the past, and in the order of the payments', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({ hours: fc.array(span, { maxLength: 6 }), daysOff: fc.array(dayOff, { maxLength: 3 }) }),
        fc.oneof(fc.integer({ min: 0, max: 300 }), fc.constantFrom(dayMinutes, 3 * dayMinutes)),
        fc.array(moment, { minLength: 2, maxLength: 6 }),
        fc.option(moment),
        async (given, minutes, moments, pausedUntil) => {
          const times = moments.toSorted((one, other) => one - other);
          await database.query(
            `update public.store_settings
             set opening_hours = $1::jsonb, days_off = $2::jsonb, orders_paused_until = $3::timestamptz,
               orders_pause_reason = case when $3::timestamptz is not null then 'Rain' end`,
            [
              JSON.stringify(given.hours),
              JSON.stringify(given.daysOff),
              pausedUntil === null ? null : new Date(pausedUntil).toISOString(),
            ],
          );
          const { rows } = await database.query<{ arrival: string | null }>(
            `select (extract(epoch from private.arrival_after(s, $1::integer, paid.at::timestamptz)) * 1000)::bigint::text as arrival
             from public.store_settings as s, jsonb_array_elements_text($2::jsonb) with ordinality as paid (at, nth)
             order by paid.nth`,
            [minutes, JSON.stringify(times.map((time) => new Date(time).toISOString()))],
          );
          const arrivals = rows.map(({ arrival }) => (arrival === null ? null : Number(arrival)));
          expect(arrivals).toEqual(times.map((time) => modelledArrival(given, minutes, time, pausedUntil)));
          let latest = 0;
          for (const [n, arrival] of arrivals.entries()) {
            if (arrival === null) continue;
            expect(arrival).toBeGreaterThanOrEqual(times[n] as number);
            expect(arrival).toBeGreaterThanOrEqual(latest);
            latest = arrival;
            const minute = inNairobi(arrival);
            // The moment of closing is the last one of an open time.
            const isOpen =
              isOpenAt(minute, given, Number.POSITIVE_INFINITY) ||
              isOpenAt(minute - 1, given, Number.POSITIVE_INFINITY);
            expect(isOpen).toBe(true);
          }
        },
      ),
      { numRuns: isExhaustive ? 500 : 60 },
    );
  });
});
