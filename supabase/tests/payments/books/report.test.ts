// The report on a span: each part equals plain sums over the rows, and its days are the days of the day's page.
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeAll, describe, expect, test } from 'vitest';
import { areaOf } from '../../../../domain/orders/order-summary.ts';
import { expectRefusal, makeProduct, type PlacedOrder } from '../../shop-database.ts';
import { failed, newPhone, type Payment, setUpShop } from '../../steps.ts';

interface Report {
  days: Record<string, number | string>[];
  drinks: { name: string; brand: string | null; orders: number; units: number; cents: number }[];
  hours: { hour: number; orders: number; cents: number }[];
  areas: { area: string; orders: number; cents: number }[];
  riders: { rider: string; orders: number; delivered: number; failures: number; cash_cents: number }[];
  refunds: { kind: string; reason: string; refunds: number; cents: number }[];
  prompts: { status: string; result_code: string | null; prompts: number }[];
  discounts: { code: string; orders: number; cents: number }[];
}

/** First and last day of a span, in which the orders of the test are. */
const spans = [
  ['2026-05-01', '2026-05-31'],
  ['2026-05-04', '2026-05-04'],
  ['2026-05-05', '2026-05-06'],
  ['2026-04-01', '2026-04-30'],
] as const;
/** In Nairobi: also in the first and the last seconds of a day. */
const placedAt = [
  '2026-05-04T00:00:00+03:00',
  '2026-05-04T23:59:59+03:00',
  '2026-05-05T00:00:00+03:00',
  '2026-05-05T12:30:00+03:00',
  '2026-05-06T12:45:00+03:00',
  '2026-05-07T09:00:00+03:00',
  '2026-05-07T09:10:00+03:00',
] as const;

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, asStaff, callAs, readRows, place, pay, prompt, settle } = shop;

  const report = (since: string, until: string) => asStaff<Report>('report', { since, until });
  const plain = async (since: string, until: string, sql: string) =>
    (
      await readRows<{ line: Record<string, unknown> }>(
        `with placed as (
           select o.* from public.orders as o where (o.created_at at time zone 'Africa/Nairobi')::date between $1::date and $2::date
         ), sold as (select * from placed where payment_status = 'paid')
         select to_jsonb(line) as line from (${sql}) as line`,
        [since, until],
      )
    ).map(({ line }) => line);

  beforeAll(async () => {
    const mango = await makeProduct(database, 1000, 30_000, 'Mango 500 ml');
    const ginger = await makeProduct(database, 1000, 55_000, 'Ginger 1 l');
    const places = [
      'Karen, Building: Plaza, Unit: 3',
      'karen',
      'Westlands',
      'Kilimani',
      'Karen',
      'Ruiru',
      'Westlands, Unit: 9',
    ];
    const orders: PlacedOrder[] = [];
    for (const [index, at] of placedAt.entries()) {
      const quantity = 1 + (index % 3);
      const order = await place(index % 2 === 0 ? mango : ginger, {
        quantity,
        expected_total: quantity * (index % 2 === 0 ? 30_000 : 55_000) + 100,
        customer_phone: newPhone(),
      });
      orders.push(order);
      if (index === 6) await settle(await prompt(order), failed);
      if (index === 5) {
        await callAs('staff', 'agree_cash', { order_id: order.id });
        await callAs<Payment>('staff', 'receive_cash', {
          order_id: order.id,
          received_cents: order.charge_cents,
          received_from: 'brian ',
        });
      } else if (index !== 6) {
        if (index === 0) await settle(await prompt(order), { ...failed, result_code: '1' });
        await pay(order);
      }
      if (index < 6) {
        await database.query(
          `update public.deliveries set delivery_person = $2, delivery_phone = '0712345678', delivery_vehicle = 'Motorbike'
           where order_id = $1`,
          [order.id, index % 2 === 0 ? 'Kevin' : 'Brian'],
        );
      }
      await database.query(
        `update public.orders set created_at = $2, shipping_address = $3, city = $4 where id = $1`,
        [order.id, at, places[index], index === 5 ? 'Ruiru' : 'Nairobi'],
      );
      await database.query(
        `update public.payments set completed_at = $2 where order_id = $1 and status = 'completed'`,
        [order.id, index === 4 ? '2026-05-20T09:00:00+03:00' : at],
      );
    }
    const [, second] = orders;
    await shop.setStatus(second as PlacedOrder, 'cancelled');
    const paid = await shop.readRow<Payment>(
      `select * from public.payments where order_id = $1 and status = 'completed'`,
      [second?.id],
    );
    await shop.noteRefundByHand(paid as Payment);
    await database.query(`update public.refunds set completed_at = '2026-05-06T10:00:00+03:00'`);
  });

  test.each(spans)('of %s to %s equals plain sums over the rows', async (since, until) => {
    const answer = await report(since, until);
    expect(answer.drinks).toEqual(
      await plain(
        since,
        until,
        // Each of these orders has one line, which has its whole discount.
        `select i.product_name as name, max(p.brand) as brand, count(distinct i.order_id) as orders, sum(i.quantity) as units,
           sum(i.quantity * i.unit_price - o.discount_cents) as cents
         from sold as o join public.order_items as i on i.order_id = o.id left join public.products as p on p.id = i.product_id
         group by 1 order by units desc, cents desc, name`,
      ),
    );
    expect(answer.hours.filter(({ orders }) => orders > 0)).toEqual(
      await plain(
        since,
        until,
        `select extract(hour from o.created_at at time zone 'Africa/Nairobi')::integer as hour, count(*) as orders,
           sum(o.charge_cents) as cents from sold as o group by 1 order by 1`,
      ),
    );
    expect(answer.hours).toHaveLength(since.startsWith('2026-04') ? 0 : 24);
    expect(answer.riders).toEqual(
      await plain(
        since,
        until,
        `select max(d.delivery_person) as rider, count(*) as orders, count(*) filter (where d.delivery_status = 'delivered') as delivered,
           sum(d.failures) as failures,
           coalesce(sum((select sum(c.charge_cents) from public.payments as c where c.order_id = o.id and c.method = 'cash'
             and c.status = 'completed' and lower(trim(c.received_from)) = lower(d.delivery_person))), 0) as cash_cents
         from placed as o join public.deliveries as d on d.order_id = o.id where d.delivery_person is not null
         group by lower(d.delivery_person) order by orders desc, rider`,
      ),
    );
    expect(answer.prompts).toEqual(
      await plain(
        since,
        until,
        `select p.status, case when p.status = 'failed' then p.result_code end as result_code, count(*) as prompts
         from placed as o join public.payments as p on p.order_id = o.id where p.method = 'prompt'
         group by 1, 2 order by prompts desc, status, result_code`,
      ),
    );
    expect(answer.discounts).toEqual([]);
    const soldOrders = await plain(since, until, 'select shipping_address, city, charge_cents from sold');
    const areas = new Map<string, number>();
    for (const order of soldOrders as { shipping_address: string; city: string; charge_cents: number }[]) {
      const area = areaOf(order).toLowerCase();
      areas.set(area, (areas.get(area) ?? 0) + order.charge_cents);
    }
    expect(new Map(answer.areas.map(({ area, cents }) => [area.toLowerCase(), cents]))).toEqual(areas);

    // Each day is that of its own report, and of the day's page.
    for (const day of answer.days) {
      const own = await report(String(day.day), String(day.day));
      expect(own.days).toEqual([day]);
      const totals = await shop.queryAs<{ net: string }>(
        'staff',
        'select net_received::text as net from public.day_totals($1)',
        [day.day],
      );
      expect(Number(totals.rows[0]?.net)).toBe(day.net_cents);
    }
    const refunded = answer.days.reduce((sum, { refunded_cents }) => sum + Number(refunded_cents), 0);
    expect(answer.refunds.reduce((sum, { cents }) => sum + cents, 0)).toBe(refunded);
  });

  test('shares a discount over the lines, lists it by code, and drinks and fees are what the orders owed, to the cent', async () => {
    const drinks = [
      await makeProduct(database, 100, 33_300, 'Shared 1'),
      await makeProduct(database, 100, 9_900, 'Shared 2'),
      await makeProduct(database, 100, 100, 'Shared 3'),
    ];
    await database.query(
      `insert into public.discount_codes (code, amount_cents) values ('SEVEN', 700), ('NEARLY-ALL', 100000000)`,
    );
    const day = '2026-03-03';
    // The last order is not paid.
    for (const [index, code] of [null, 'SEVEN', 'NEARLY-ALL', 'SEVEN', 'SEVEN'].entries()) {
      const items = drinks.map((product_id, place) => ({ product_id, quantity: 1 + ((index + place) % 3) }));
      const list = items.reduce(
        (sum, { quantity }, place) => sum + quantity * ([33_300, 9_900, 100][place] as number),
        0,
      );
      const total = code === null ? list + 100 : code === 'SEVEN' ? list + 100 - 700 : 100;
      const order = await shop.placeItems(items, total, {
        customer_phone: newPhone(),
        ...(code === null ? {} : { discount_code: code }),
      });
      if (index < 4) await pay(order);
      await database.query(
        `update public.orders set created_at = '2026-03-03T10:00:00+03:00' where id = $1`,
        [order.id],
      );
    }
    const answer = await report(day, day);
    const [owed] = await plain(
      day,
      day,
      `select sum(charge_cents) as charges, sum(delivery_fee) as fees, sum(discount_cents) as discounts from sold`,
    );
    expect(Number(owed?.discounts)).toBeGreaterThan(1_400);
    expect(answer.discounts.map(({ code, orders }) => [code, orders])).toEqual([
      ['NEARLY-ALL', 1],
      ['SEVEN', 2],
    ]);
    expect(answer.discounts).toEqual(
      await plain(
        day,
        day,
        `select discount_code as code, count(*) as orders, sum(discount_cents) as cents from sold
         where discount_code is not null group by 1 order by cents desc`,
      ),
    );
    const given = answer.discounts.reduce((cents, discount) => cents + discount.cents, 0);
    expect(given).toBe(Number(owed?.discounts));
    const totals = await shop.queryAs<{ discounts: string }>(
      'staff',
      'select discounts::text from public.day_totals($1)',
      [day],
    );
    expect(given).toBe(Number(totals.rows[0]?.discounts));
    const sum = answer.drinks.reduce((cents, drink) => cents + drink.cents, 0);
    expect(sum + Number(owed?.fees)).toBe(Number(owed?.charges));
    expect(answer.drinks.every(({ cents }) => cents >= 0)).toBe(true);
    expect(answer.days[0]?.sold_cents).toBe(Number(owed?.charges));
  });

  test('counts spellings of one area together, under the commonest', async () => {
    const drink = await makeProduct(database, 100, 30_000, 'Spelt');
    for (const area of ['South B', 'south-b', 'SouthB ', 'South B', 'South C', '...']) {
      const order = await place(drink, { expected_total: 30_100, customer_phone: newPhone() });
      await pay(order);
      await database.query(
        `update public.orders set created_at = '2026-02-02T10:00:00+03:00', shipping_address = $2, city = 'Nairobi' where id = $1`,
        [order.id, area],
      );
    }
    expect(
      (await report('2026-02-02', '2026-02-02')).areas.map(({ area, orders }) => [area, orders]),
    ).toEqual([
      ['South B', 4],
      ['...', 1],
      ['South C', 1],
    ]);
  });

  test('a payment on another day counts on that day', async () => {
    const { days } = await report('2026-05-20', '2026-05-20');
    expect(days).toEqual([
      {
        day: '2026-05-20',
        orders: 0,
        sold: 0,
        sold_cents: 0,
        received_cents: expect.any(Number),
        refunded_cents: 0,
        net_cents: expect.any(Number),
      },
    ]);
    expect(days[0]?.net_cents).toBeGreaterThan(0);
  });

  test('has a line for each day of a year, and refuses more', async () => {
    expect((await report('2025-05-31', '2026-05-31')).days).toHaveLength(366);
    await expectRefusal(report('2025-05-01', '2026-05-31'), 400, 'range_invalid');
    await expectRefusal(report('2026-05-02', '2026-05-01'), 400, 'range_invalid');
    await expectRefusal(
      asStaff('money_entries', { since: '2025-05-01', until: '2026-05-31' }),
      400,
      'range_invalid',
    );
  });

  test('only staff read it', async () => {
    for (const by of ['visitor', 'customer', 'former staff'] as const) {
      await expect(
        callAs(by, 'report', { since: '2026-05-01', until: '2026-05-02' }),
        by,
      ).rejects.toMatchObject({
        code: expect.stringMatching(/^(42501|PT403)$/),
      });
    }
  });
});
