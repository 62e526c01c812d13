// When an order arrives: the promise of each way to pay, lateness by it, one message about a delay, and what deliveries took.
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { dueAt } from '../../../domain/deliveries/delivery-promise.ts';
import { makeProduct, type PlacedOrder } from '../shop-database.ts';
import { nairobiDay, newPhone, setUpShop } from '../steps.ts';

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const {
    database,
    asStaff,
    asVisitor,
    queryAs,
    readColumn,
    readRow,
    readRows,
    readValue,
    place,
    pay,
    receive,
    trackAsCustomer,
  } = shop;
  let product: string;
  beforeEach(async () => {
    await database.execute(`
      delete from private.rate_limits;
      delete from private.delivery_estimates;
      update public.deliveries set delivery_status = 'delivered' where delivery_status in ('pending', 'assigned');
      update public.store_settings set opening_hours = '[]', days_off = '[]', queue_minutes = 5, announces_delays = true,
        orders_pause_reason = null, orders_paused_until = null;
      update public.delivery_areas set promise_to_minutes = 60 where name = 'Karen';
    `);
    product = await makeProduct(database, 500);
  });

  const karen = () => readValue<string>(`select id from public.delivery_areas where name = 'Karen'`);
  const placeNew = async (form: Record<string, unknown> = {}) =>
    place(product, { customer_phone: newPhone(), ...form });
  /** Minutes from the payment to the promise. */
  const promised = ({ id }: PlacedOrder) =>
    readValue<number | null>(
      `select (extract(epoch from o.promised_at - d.created_at) / 60)::integer
       from public.orders as o join public.deliveries as d on d.order_id = o.id where o.id = $1`,
      [id],
    );
  const setHours = (opening_hours: unknown, days_off: unknown = []) =>
    database.query('update public.store_settings set opening_hours = $1::jsonb, days_off = $2::jsonb', [
      JSON.stringify(opening_hours),
      JSON.stringify(days_off),
    ]);
  const daily = (from: string, to: string) => [1, 2, 3, 4, 5, 6, 7].map((day) => ({ day, from, to }));
  const arrival = async (at: string, area: string | null = null) =>
    readValue<string | null>(
      `select to_char(private.promise_for($1::uuid, $2::timestamptz) at time zone 'Africa/Nairobi', 'YYYY-MM-DD HH24:MI')`,
      [area, at],
    );

  test('is an hour after the payment, and the minutes of the area', async () => {
    const order = await placeNew();
    expect(await readValue('select promised_at from public.orders where id = $1', [order.id])).toBeNull();
    await pay(order);
    expect(await promised(order)).toBe(60);
    await database.execute(`update public.delivery_areas set promise_to_minutes = 45 where name = 'Karen'`);
    const near = await placeNew({ area_id: await karen() });
    await receive(near);
    expect(await promised(near)).toBe(45);
    expect(await trackAsCustomer(near)).toMatchObject({ promised_at: expect.any(String) });
  });

  test('counts from the agreement on cash, also when the cash comes later', async () => {
    const order = await placeNew();
    await asStaff('agree_cash', { order_id: order.id });
    expect(await promised(order)).toBe(60);
    const before = await readRow('select promised_at from public.orders where id = $1', [order.id]);
    await asStaff('receive_cash', { order_id: order.id, received_cents: order.total_amount });
    expect(await readRow('select promised_at from public.orders where id = $1', [order.id])).toEqual(before);
  });

  test('counts from the choice of cash by the customer, whom a delay is announced to as well', async () => {
    await database.execute('update public.store_settings set offers_cash = true');
    const order = await placeNew();
    await asVisitor('choose_cash', { order_id: order.id, access_key: order.access_key });
    expect(await promised(order)).toBe(60);
    await database.query(`update public.orders set promised_at = now() - interval '1 minute' where id = $1`, [
      order.id,
    ]);
    await database.execute('select private.announce_delays()');
    expect(
      await readColumn(
        `select channel from public.outbox_messages where order_id = $1 and kind = 'order_delayed'`,
        [order.id],
      ),
    ).toHaveLength(2);
    await database.execute('update public.store_settings set offers_cash = false');
  });

  test('counts from the payment by credit', async () => {
    const customer_phone = newPhone();
    const earlier = await place(product, { customer_phone });
    await asStaff('receive_cash', {
      order_id: earlier.id,
      received_cents: 2 * earlier.charge_cents,
      difference: 'credit',
    });
    const order = await place(product, { customer_phone });
    await asStaff('use_credit', { order_id: order.id });
    expect(await promised(order)).toBe(60);
  });

  describe('of an agreed day', () => {
    const agree = (order: PlacedOrder, delivery_day: string) =>
      asStaff('agree_delivery', { order_id: order.id, fee_cents: 50_000, delivery_day });
    const placeFar = async () =>
      placeNew({
        expected_total: 95_000,
        area_id: await readValue(`select id from public.delivery_areas where name = 'Outside Nairobi'`),
      });
    const today = nairobiDay();
    const inDays = (days: number) => nairobiDay(Date.now() + days * 86_400_000);
    const promisedTime = ({ id }: PlacedOrder) =>
      readValue(
        `select to_char(promised_at at time zone 'Africa/Nairobi', 'YYYY-MM-DD HH24:MI') from public.orders where id = $1`,
        [id],
      );

    test('ends with that day, before midnight, or when the shop closes on it', async () => {
      const order = await placeFar();
      await agree(order, inDays(2));
      await pay({ ...order });
      expect(await promisedTime(order)).toBe(`${inDays(2)} 23:59`);
      await setHours(daily('08:00', '19:30'));
      const other = await placeFar();
      await agree(other, inDays(3));
      await pay(other);
      expect(await promisedTime(other)).toBe(`${inDays(3)} 19:30`);
    });

    test('moves with the day, also with cash at the door, and not with the same day once more', async () => {
      const order = await placeFar();
      await agree(order, inDays(2));
      await asStaff('agree_cash', { order_id: order.id });
      expect(await promisedTime(order)).toBe(`${inDays(2)} 23:59`);
      await setHours(daily('08:00', '19:30'));
      await agree(order, inDays(2));
      expect(await promisedTime(order), 'the same day').toBe(`${inDays(2)} 23:59`);
      await agree(order, inDays(4));
      expect(await promisedTime(order)).toBe(`${inDays(4)} 19:30`);
    });

    test('is late after that day, also where nothing was promised', async () => {
      const due = await readValue<Date>(
        `select private.due_at(jsonb_populate_record(null::public.orders, $1::jsonb), now())`,
        [JSON.stringify({ delivery_day: '2026-12-01' })],
      );
      expect(new Date(due as Date).toISOString()).toBe('2026-12-01T20:59:00.000Z');
      expect(dueAt({ promised_at: null, delivery_day: '2026-12-01' }, '2026-11-28T10:00:00Z')).toBe(
        '2026-12-01T20:59:00.000Z',
      );
    });

    test('does not count in the queue before that day', async () => {
      for (let n = 0; n < 10; n++) {
        const order = await placeFar();
        await agree(order, n < 9 ? today : inDays(1));
        await pay(order);
      }
      const order = await placeNew();
      await pay(order);
      expect(await promised(order), 'nine of today').toBe(60);
      const next = await placeNew();
      await pay(next);
      expect(await promised(next), 'ten of today').toBe(65);
    });
  });

  test('sorts the queue of staff: the earliest promise first, not the earliest payment', async () => {
    const [first, second, third] = [await placeNew(), await placeNew(), await placeNew()];
    for (const order of [first, second, third]) await pay(order);
    await database.query(`update public.orders set promised_at = now() + interval '1 day' where id = $1`, [
      first.id,
    ]);
    await database.query('update public.orders set promised_at = null where id = $1', [second.id]);
    await database.query(
      `update public.orders set promised_at = now() + interval '5 minutes' where id = $1`,
      [third.id],
    );
    const rows = (
      await queryAs<{ order_id: string }>('staff', 'select order_id from public.work_queue()')
    ).rows.map(({ order_id }) => order_id);
    expect(rows.filter((id) => [first.id, second.id, third.id].includes(id))).toEqual([
      third.id,
      second.id,
      first.id,
    ]);
  });

  test('counts open minutes only: until closing, past midnight, and over days off', async () => {
    await setHours(daily('08:00', '22:00'));
    // 28 November 2026 is a Saturday.
    expect(await arrival('2026-11-28T12:00:00+03:00')).toBe('2026-11-28 13:00');
    expect(await arrival('2026-11-28T21:00:00+03:00'), 'exactly until closing').toBe('2026-11-28 22:00');
    expect(await arrival('2026-11-28T21:45:00+03:00')).toBe('2026-11-29 08:45');
    expect(await arrival('2026-11-29T03:00:00+03:00')).toBe('2026-11-29 09:00');
    await setHours(daily('08:00', '22:00'), [{ day: '2026-11-29', reason: 'Inventory' }]);
    expect(await arrival('2026-11-28T22:30:00+03:00')).toBe('2026-11-30 09:00');
    await setHours([{ day: 6, from: '18:00', to: '02:00' }]);
    expect(await arrival('2026-11-28T23:30:00+03:00')).toBe('2026-11-29 00:30');
    expect(await arrival('2026-11-29T01:30:00+03:00')).toBe('2026-12-05 18:30');
  });

  test('begins at the end of a pause', async () => {
    await database.execute(
      `update public.store_settings set orders_pause_reason = 'Rain', orders_paused_until = '2026-11-28T15:00:00+03:00'`,
    );
    expect(await arrival('2026-11-28T14:00:00+03:00')).toBe('2026-11-28 16:00');
    expect(await arrival('2026-11-28T15:10:00+03:00')).toBe('2026-11-28 16:10');
  });

  test('adds the minutes of the setting for every ten orders that have not left the shop', async () => {
    for (let n = 0; n < 10; n++) await pay(await placeNew());
    const order = await placeNew();
    await pay(order);
    expect(await promised(order)).toBe(65);
  });

  test.each([
    ['opening_hours', [{ day: 1, from: '08:00', to: '22:00' }], true],
    ['opening_hours', [{ day: 1, from: '08:00', to: '24:00' }], true],
    ['opening_hours', [{ day: 1, from: 8, to: '22:00' }], false],
    ['opening_hours', [{ day: 1, from: '08:00', to: null }], false],
    ['opening_hours', [{ day: 1, from: ['08:00', '09:00'], to: '22:00' }], false],
    ['opening_hours', [[{ day: 1, from: '08:00', to: '22:00' }]], false],
    ['opening_hours', [{ day: '1', from: '08:00', to: '22:00' }], false],
    ['opening_hours', [{ day: 1.5, from: '08:00', to: '22:00' }], false],
    ['opening_hours', [{ day: 8, from: '08:00', to: '22:00' }], false],
    ['opening_hours', [{ day: 1, from: '08:00', to: '08:00' }], false],
    ['opening_hours', { day: 1 }, false],
    ['days_off', [{ day: '2028-02-29', reason: 'Leap day' }], true],
    ['days_off', [{ day: '2026-02-31', reason: 'None' }], false],
    ['days_off', [{ day: 5, reason: 'x' }], false],
    ['days_off', [{ day: '2026-12-25', reason: 5 }], false],
    ['days_off', [{ day: '2026-12-25', reason: ' ' }], false],
    ['days_off', ['2026-12-25'], false],
  ])('takes only valid %s: %j', async (column, value, isValid) => {
    const write = database.query(`update public.store_settings set ${column} = $1::jsonb`, [
      JSON.stringify(value),
    ]);
    if (isValid) await write;
    else await expect(write).rejects.toMatchObject({ code: '23514' });
  });

  test('an order without a promise is late an hour after its payment, as on the screens', async () => {
    const paidAt = '2026-11-28T10:00:00.000Z';
    const due = await readValue<Date>(
      `select private.due_at(jsonb_populate_record(null::public.orders, '{}'), $1::timestamptz)`,
      [paidAt],
    );
    expect(new Date(due as Date).toISOString()).toBe(dueAt({ promised_at: null }, paidAt));
  });

  describe('of a late order', () => {
    const makeLate = ({ id }: PlacedOrder, minutes = 5) =>
      database.query(
        `update public.orders set promised_at = now() - make_interval(mins => $2::integer) where id = $1`,
        [id, minutes],
      );
    const announce = () => database.execute('select private.announce_delays()');
    const messages = async ({ id }: PlacedOrder) =>
      (
        await readRows<{ channel: string }>(
          `select channel from public.outbox_messages where order_id = $1 and kind = 'order_delayed' order by channel`,
          [id],
        )
      ).map(({ channel }) => channel);
    const paid = async () => {
      const order = await placeNew();
      await pay(order);
      return order;
    };

    test('the customer gets a new time once, by text and mail', async () => {
      const order = await paid();
      await announce();
      expect(await messages(order), 'in time').toEqual([]);
      await makeLate(order);
      expect(await readValue(`select private.is_job_due('send-notices')`)).toBe(true);
      await announce();
      await announce();
      expect(await messages(order)).toEqual(['mail', 'text']);
      expect(
        await readValue('select promised_again_at > now() from public.orders where id = $1', [order.id]),
      ).toBe(true);
    });

    test.each([
      ['failed', `delivery_status = 'failed'`, []],
      [
        'left ten minutes ago',
        `delivery_status = 'picked_up', pickup_time = now() - interval '10 minutes'`,
        [],
      ],
      [
        'left an hour ago',
        `delivery_status = 'picked_up', pickup_time = now() - interval '1 hour'`,
        ['mail', 'text'],
      ],
    ])('says nothing too much where its delivery %s', async (_, state, expected) => {
      const order = await paid();
      await database.execute('alter table public.deliveries disable trigger user');
      await database.query(`update public.deliveries set ${state} where order_id = $1`, [order.id]);
      await database.execute('alter table public.deliveries enable trigger user');
      await makeLate(order);
      await announce();
      expect(await messages(order)).toEqual(expected);
    });

    test('the setting turns the message off, and an outage of hours sends none', async () => {
      const order = await paid();
      await makeLate(order, 61);
      await announce();
      await makeLate(order);
      await database.execute('update public.store_settings set announces_delays = false');
      await announce();
      expect(await messages(order)).toEqual([]);
    });
  });

  test('learns median and p90 of open minutes after twenty deliveries, and promises no less than p90', async () => {
    const area = await readValue<string>(`select id from public.delivery_areas where name = 'Runda'`);
    const learn = () => database.execute('select public.learn_delivery_times()');
    const learned = () =>
      readRow(
        'select deliveries, median_minutes, p90_minutes from private.delivery_estimates where area_id = $1 and hour is null',
        [area],
      );
    const deliver = async (minutes: number) => {
      const order = await placeNew({ area_id: area });
      await pay(order);
      await database.execute('alter table public.deliveries disable trigger user');
      await database.query(
        `update public.deliveries set delivery_status = 'delivered', created_at = now() - interval '1 day',
           delivery_time = now() - interval '1 day' + make_interval(mins => $2::integer)
         where order_id = $1`,
        [order.id, minutes],
      );
      await database.execute('alter table public.deliveries enable trigger user');
    };
    const before = await arrival('2026-11-28T12:00:00+03:00', area);
    for (let minutes = 51; minutes < 70; minutes++) await deliver(minutes);
    await learn();
    expect(await learned()).toBeUndefined();
    await deliver(70);
    await learn();
    expect(await learned()).toEqual({ deliveries: 20, median_minutes: 60, p90_minutes: 68 });
    expect([before, await arrival('2026-11-28T12:00:00+03:00', area)]).toEqual([
      '2026-11-28 13:00',
      '2026-11-28 13:08',
    ]);
  });

  test('on the way, it is about as far as the area promises at the earliest, until its way is learned', async () => {
    const order = await placeNew({ area_id: await karen() });
    await pay(order);
    expect(await trackAsCustomer(order)).not.toHaveProperty('arrives_at');
    await asStaff('move_on', {
      delivery_id: await readValue('select id from public.deliveries where order_id = $1', [order.id]),
      expected_step: 'prepare',
      step: 'on_the_way',
      delivery_person: 'Brian',
      delivery_phone: newPhone(),
      delivery_vehicle: 'Bike',
    });
    const minutesOnTheWay = async () => {
      const { arrives_at } = (await trackAsCustomer(order)) as { arrives_at?: string };
      if (arrives_at === undefined) return null;
      return readValue<number>(
        `select (extract(epoch from $2::timestamptz - d.pickup_time) / 60)::integer from public.deliveries as d where d.order_id = $1`,
        [order.id, arrives_at],
      );
    };
    expect(await minutesOnTheWay()).toBe(15);
    await database.query(
      `insert into private.delivery_estimates (area_id, hour, deliveries, median_minutes, p90_minutes, median_way_minutes)
       values ($1, null, 20, 40, 55, 12)`,
      [await karen()],
    );
    expect(await minutesOnTheWay()).toBe(12);
    await database.execute('delete from private.delivery_estimates');
    await database.execute(`update public.delivery_areas set promise_to_minutes = 1440 where name = 'Karen'`);
    expect(await minutesOnTheWay(), 'a promise of days').toBeNull();
  });
});
