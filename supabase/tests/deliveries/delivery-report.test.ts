// Figures of deliveries on a span: each equals plain sums over the rows.
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeAll, describe, expect, test } from 'vitest';
import { expectRefusal, makeProduct, type PlacedOrder } from '../shop-database.ts';
import { newPhone, setUpShop } from '../steps.ts';

interface Line {
  name: string;
  delivered: number;
  on_time: number;
  median_minutes: number | null;
  p90_minutes: number | null;
  failures: number;
  ratings: number;
  average_stars: number | null;
}
interface Report {
  total: Line;
  areas: Line[];
  hours: Line[];
  riders: Line[];
  reasons: { reason: string | null; failures: number }[];
}

/** When each order was paid, in Nairobi, and the minutes until it arrived; null: it never did. */
const rides = [
  { at: '2026-05-04T00:00:00+03:00', took: 20, area: 'Karen', rider: 'Kevin' },
  { at: '2026-05-04T23:59:59+03:00', took: 61, area: 'Karen', rider: 'kevin ' },
  { at: '2026-05-05T12:00:00+03:00', took: 60, area: 'Westlands', rider: 'Brian' },
  {
    at: '2026-05-05T12:30:00+03:00',
    took: 95,
    area: 'Westlands',
    rider: 'Brian',
    fails: ['no_answer', 'no_answer'],
  },
  { at: '2026-05-06T12:45:00+03:00', took: 31, area: null, rider: 'Kevin', fails: [null] },
  { at: '2026-05-06T13:00:00+03:00', took: null, area: 'Karen', rider: 'Kevin', fails: ['damaged'] },
  { at: '2026-05-06T14:00:00+03:00', took: null, area: 'Karen', rider: 'Kevin' },
  { at: '2026-05-07T09:00:00+03:00', took: 45, area: 'Westlands', rider: 'Kevin' },
] as const;
const spans = [
  ['2026-05-01', '2026-05-31'],
  ['2026-05-04', '2026-05-04'],
  ['2026-05-05', '2026-05-06'],
  ['2026-04-01', '2026-04-30'],
] as const;

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, asStaff, callAs, readRows, readValue, place, pay } = shop;
  const report = (since: string, until: string) => asStaff<Report>('delivery_report', { since, until });
  const deliveryOf = (order: PlacedOrder) =>
    readValue('select id from public.deliveries where order_id = $1', [order.id]);
  const setDelivery = async (order: PlacedOrder, status: string, failure_reason: string | null = null) =>
    asStaff<{ change_id: string }>('set_delivery_status', {
      delivery_id: await deliveryOf(order),
      status,
      expected_status: await readValue('select delivery_status from public.deliveries where order_id = $1', [
        order.id,
      ]),
      failure_reason,
    });

  beforeAll(async () => {
    const product = await makeProduct(database, 1000);
    for (const ride of rides) {
      const area = await readValue('select id from public.delivery_areas where name = $1', [ride.area]);
      const order = await place(product, {
        customer_phone: newPhone(),
        ...(ride.area ? { area_id: area } : {}),
      });
      await pay(order);
      await asStaff('assign_delivery', {
        order_id: order.id,
        delivery_person: ride.rider,
        delivery_phone: '0712345678',
        delivery_vehicle: 'Motorbike',
        seen_updated_at: await readValue(
          'select updated_at::text from public.deliveries where order_id = $1',
          [order.id],
        ),
      });
      for (const reason of 'fails' in ride ? ride.fails : []) {
        await setDelivery(order, 'picked_up');
        await setDelivery(order, 'failed', reason);
        // Undone, and then done again; and the next step undone.
        if (reason === 'damaged') {
          await setDelivery(order, 'assigned');
          await setDelivery(order, 'picked_up');
          const { change_id } = await setDelivery(order, 'failed', 'other');
          await asStaff('undo_status_change', { change_id });
          await setDelivery(order, 'failed', reason);
          const next = await setDelivery(order, 'assigned');
          await asStaff('undo_status_change', { change_id: next.change_id });
        }
        if (ride.took !== null) await setDelivery(order, 'assigned');
      }
      if (ride.took !== null) {
        await setDelivery(order, 'picked_up');
        await setDelivery(order, 'delivered');
      }
      await database.query(`select private.state('undoes')`);
      await database.transaction(async (session) => {
        await session.query(`select private.state('undoes')`);
        await session.query(
          `update public.deliveries
           set created_at = $2::timestamptz,
               delivery_time = case when delivery_time is not null then $2::timestamptz + make_interval(mins => $3) end
           where order_id = $1`,
          [order.id, ride.at, ride.took ?? 0],
        );
      });
      await database.query(
        `update public.orders set promised_at = $2::timestamptz + interval '60 minutes', shipping_address = 'Kilimani, Unit: 3' where id = $1`,
        [order.id, ride.at],
      );
    }
    await database.query(
      `insert into public.ratings (order_id, stars)
       select o.id, 2 + (row_number() over (order by d.created_at))::integer % 4
       from public.orders as o join public.deliveries as d on d.order_id = o.id
       where d.delivery_status = 'delivered' and d.delivery_person <> 'Brian'`,
    );
    // Not a delivery.
    const collected = await callAs<PlacedOrder>('staff', 'place_order', {
      idempotency_key: '5a000000-0000-4000-8000-00000000c011',
      product_id: product,
      quantity: 1,
      customer_name: 'Amina',
      customer_phone: newPhone(),
      expected_total: 95_000,
      source: 'walk_in',
      is_collected: true,
    });
    await pay(collected);
    await asStaff('set_order_status', {
      order_id: collected.id,
      status: 'delivered',
      expected_status: 'processing',
      expected_payment_status: 'paid',
    });
    await database.query(
      `update public.deliveries set created_at = '2026-05-05T12:00:00+03:00' where order_id = $1`,
      [collected.id],
    );
  });

  const plain = async (since: string, until: string, name: string, order: string) =>
    (
      await readRows<{ line: Line }>(
        `select to_jsonb(line) as line from (
           select ${name} as name, count(*) filter (where d.delivery_status = 'delivered') as delivered,
             count(*) filter (where d.delivery_status = 'delivered' and d.delivery_time <= o.promised_at) as on_time,
             percentile_disc(0.5) within group (order by extract(epoch from d.delivery_time - d.created_at)::integer / 60)
               filter (where d.delivery_status = 'delivered') as median_minutes,
             percentile_disc(0.9) within group (order by extract(epoch from d.delivery_time - d.created_at)::integer / 60)
               filter (where d.delivery_status = 'delivered') as p90_minutes,
             coalesce(sum(d.failures), 0) as failures, count(g.stars) as ratings,
             round(avg(g.stars), 1) as average_stars
           from public.deliveries as d join public.orders as o on o.id = d.order_id
           left join public.ratings as g on g.order_id = o.id
           where (d.created_at at time zone 'Africa/Nairobi')::date between $1::date and $2::date and not o.is_collected
             and (d.delivery_status = 'delivered' or d.failures > 0)
           group by ${order === '' ? '()' : '1'} ${order}
         ) as line`,
        [since, until],
      )
    ).map(({ line }) => line);

  test.each(spans)('of %s to %s equals plain sums over the rows', async (since, until) => {
    const answer = await report(since, until);
    const byMost = 'order by delivered desc, failures desc, name';
    expect(answer.areas).toEqual(await plain(since, until, `coalesce(o.area_name, 'Kilimani')`, byMost));
    expect(answer.hours).toEqual(
      await plain(
        since,
        until,
        `to_char(d.created_at at time zone 'Africa/Nairobi', 'HH24:00')`,
        'order by name',
      ),
    );
    expect(answer.riders.map((line) => ({ ...line, name: line.name.toLowerCase() }))).toEqual(
      await plain(since, until, 'lower(trim(d.delivery_person))', byMost),
    );
    expect([answer.total]).toEqual(await plain(since, until, `''`, ''));
    expect(answer.reasons.reduce((sum, { failures }) => sum + failures, 0)).toBe(answer.total.failures);
  });

  test('counts why goods came back, without what was undone', async () => {
    expect((await report('2026-05-01', '2026-05-31')).reasons).toEqual([
      { reason: 'damaged', failures: 2 },
      { reason: 'no_answer', failures: 2 },
      { reason: null, failures: 1 },
    ]);
  });

  test('measures open minutes, as the promise does', async () => {
    const before = await report('2026-05-04', '2026-05-04');
    expect(before.hours.find(({ name }) => name === '23:00')).toMatchObject({ median_minutes: 61 });
    await database.query(
      `update public.store_settings set opening_hours = (select jsonb_agg(jsonb_build_object('day', d, 'from', '00:30', 'to', '24:00')) from generate_series(1, 7) as d)`,
    );
    const after = await report('2026-05-04', '2026-05-04');
    expect(after.hours.find(({ name }) => name === '23:00')).toMatchObject({ median_minutes: 31 });
    await database.execute(`update public.store_settings set opening_hours = '[]'`);
  });

  test('is for those who see figures, on at most 367 days', async () => {
    await expectRefusal(report('2025-01-01', '2026-05-31'), 400, 'range_invalid');
    await expectRefusal(
      callAs('counter', 'delivery_report', { since: '2026-05-01', until: '2026-05-31' }),
      403,
      'not_in_role',
    );
    await callAs('assistant', 'delivery_report', { since: '2026-05-01', until: '2026-05-31' });
  });
});
