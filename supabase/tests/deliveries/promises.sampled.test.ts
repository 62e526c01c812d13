// The promise of an arrival by opening hours, days off, pauses, the queue and learned times: equals a simple model, never lies in a closed
// time or in the past, and a later payment never arrives earlier.
import { testDatabases } from '@jani-juice/backend/testing';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { isExhaustive } from '../../../scripts/tests/test-depth.ts';
import { makeProduct } from '../shop-database.ts';
import { newPhone, setUpShop } from '../steps.ts';
import { dateOf, dayMinutes, fromNairobi, inNairobi, isOpenAt, modelledArrival } from './modelled-arrival.ts';

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
  const { database, place, pay, readValue } = setUpShop(kind);
  const placed = 30;
  let area: string | undefined;
  beforeAll(async () => {
    area = await readValue(`select id from public.delivery_areas where name = 'Karen'`);
    const product = await makeProduct(database, 500);
    for (let n = 0; n < placed; n++) {
      await database.execute('delete from private.rate_limits');
      await pay(await place(product, { customer_phone: newPhone() }));
    }
    // Sets states that no step reaches in this number.
    await database.execute('alter table public.deliveries disable trigger user');
  });

  test('equals the model, lies in an open time, not in the past, and in the order of the payments', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({ hours: fc.array(span, { maxLength: 6 }), daysOff: fc.array(dayOff, { maxLength: 3 }) }),
        fc.record({
          ofArea: fc.oneof(fc.integer({ min: 1, max: 240 }), fc.constantFrom(dayMinutes, 3 * dayMinutes)),
          p90: fc.option(fc.integer({ min: 1, max: 600 })),
          ofQueue: fc.integer({ min: 0, max: 60 }),
          waiting: fc.integer({ min: 0, max: placed }),
        }),
        fc.array(moment, { minLength: 2, maxLength: 6 }),
        fc.option(moment),
        async (given, { ofArea, p90, ofQueue, waiting }, moments, pausedUntil) => {
          const times = moments.toSorted((one, other) => one - other);
          await database.query(
            `update public.store_settings
             set opening_hours = $1::jsonb, days_off = $2::jsonb, orders_paused_until = $3::timestamptz,
               orders_pause_reason = case when $3::timestamptz is not null then 'Rain' end, queue_minutes = $4`,
            [
              JSON.stringify(given.hours),
              JSON.stringify(given.daysOff),
              pausedUntil === null ? null : new Date(pausedUntil).toISOString(),
              ofQueue,
            ],
          );
          await database.query(
            'update public.delivery_areas set promise_from_minutes = 1, promise_to_minutes = $2 where id = $1',
            [area, ofArea],
          );
          await database.execute('delete from private.delivery_estimates');
          await database.query(
            `insert into private.delivery_estimates (area_id, hour, deliveries, median_minutes, p90_minutes)
             select $1::uuid, learned.hour, 20, 1, learned.p90
             -- Those of one hour do not count.
             from (values (null::smallint, $2::integer), (12::smallint, 9999)) as learned (hour, p90) where learned.p90 is not null`,
            [area, p90],
          );
          await database.query(
            `update public.deliveries as d
             set delivery_status = case when counted.nth <= $1 then case when counted.nth % 2 = 0 then 'pending' else 'assigned' end
               else case when counted.nth % 2 = 0 then 'picked_up' else 'delivered' end end
             from (select id, row_number() over (order by id) as nth from public.deliveries) as counted
             where counted.id = d.id`,
            [waiting],
          );
          const minutes =
            Math.max(ofArea, Math.min(2 * ofArea, p90 ?? 0)) +
            Math.min(60, ofQueue * Math.floor(waiting / 10));
          const { rows } = await database.query<{ arrival: string | null }>(
            `select (extract(epoch from private.promise_for($1::uuid, paid.at::timestamptz)) * 1000)::bigint::text as arrival
             from jsonb_array_elements_text($2::jsonb) with ordinality as paid (at, nth)
             order by paid.nth`,
            [area, JSON.stringify(times.map((time) => new Date(time).toISOString()))],
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
