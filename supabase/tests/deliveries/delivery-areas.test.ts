// Areas of delivery: what an order costs there, who may change them, and orders whose fee and day are agreed on first.
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { expectBalancedBooks } from '../payments/books/balanced-books.ts';
import { expectRefusal, makeProduct, type PlacedOrder, people } from '../shop-database.ts';
import { newPhone, newSecret, setUpShop } from '../steps.ts';

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, asVisitor, asStaff, queryAs, readRow, readRows, readValue, place, changeItems, track } =
    shop;
  const { trackAsCustomer, pay, expire, setStatus } = shop;
  afterEach(() => expectBalancedBooks(database));
  let mango: string;
  beforeEach(async () => {
    mango = await makeProduct(database, 50, 50_000, 'Mango');
    await database.query('delete from private.rate_limits');
    await database.query(
      `update public.delivery_areas set is_active = true, fee_cents = null, needs_agreement = name = 'Outside Nairobi'`,
    );
  });

  const areaId = (name: string) =>
    readValue<string>('select id from public.delivery_areas where name = $1', [name]);
  const setArea = (name: string, set: string) =>
    database.query(`update public.delivery_areas set ${set} where name = $1`, [name]);
  /** An order of one Mango, by a phone of its own. */
  const placeIn = async (area: string | null, expected_total: number, form: Record<string, unknown> = {}) =>
    place(mango, {
      ...(area === null ? {} : { area_id: await areaId(area) }),
      customer_phone: newPhone(),
      expected_total,
      ...form,
    });
  const orderOf = ({ id }: { id: string }) =>
    readRow(
      `select area_name, delivery_fee, total_amount, awaits_agreement, delivery_day::text, map_point, shipping_address
       from public.orders where id = $1`,
      [id],
    );
  const dayIn = (days: number) =>
    readValue<string>('select (private.nairobi_day(now()) + $1::integer)::text', [days]);
  const agree = async (order: { id: string }, fee_cents: number, days = 2) =>
    asStaff('agree_delivery', { order_id: order.id, fee_cents, delivery_day: await dayIn(days) });
  const beginPayment = ({ id, tracking_number }: PlacedOrder) =>
    shop.asService('begin_payment', {
      order_id: id,
      tracking_number,
      phone: newPhone(),
      callback_secret: newSecret(),
    });

  test('begins with the areas of the delivery page, and two for all other places', async () => {
    expect(
      (
        await readRows<{ name: string }>(
          'select name from public.delivery_areas where position <= 17 order by position',
        )
      ).map(({ name }) => name),
    ).toEqual([
      'Nairobi CBD',
      'Westlands',
      'Kilimani',
      'Parklands',
      'Lavington',
      'Karen',
      'Runda',
      'Kileleshwa',
      'Upperhill',
      'South B & C',
      'Ngong Road',
      'Thika Road',
      'Mombasa Road',
      'Langata',
      'Kasarani',
      'Elsewhere in Nairobi',
      'Outside Nairobi',
    ]);
  });

  describe('the fee', () => {
    test('is that of the shop without an area, and in an area without a fee of its own', async () => {
      expect(await orderOf(await placeIn(null, 50_100))).toMatchObject({
        area_name: null,
        delivery_fee: 100,
      });
      expect(await orderOf(await placeIn('Westlands', 50_100))).toMatchObject({
        area_name: 'Westlands',
        delivery_fee: 100,
      });
    });

    test.each([0, 25_000])('is that of the area: %i cents', async (fee) => {
      await setArea('Karen', `fee_cents = ${fee}`);
      const order = await placeIn('Karen', 50_000 + fee);
      expect(order).toMatchObject({ delivery_fee: fee, total_amount: 50_000 + fee });
      await pay(order);
    });

    test('changes after the customer saw another: refused with the current amounts', async () => {
      await setArea('Karen', 'fee_cents = 25000');
      const area_id = await areaId('Karen');
      const answer = await asRole(database, people.visitor, async (session) => {
        const { rows } = await session.query<{ answer: unknown }>(
          `select public.place_order(idempotency_key => gen_random_uuid(), product_id => $1, quantity => 1,
             customer_name => 'Amina', customer_email => 'a@b.example', customer_phone => '0712345678',
             delivery_location => 'Karen', expected_total => 50100, area_id => $2) as answer`,
          [mango, area_id],
        );
        return rows[0]?.answer;
      });
      expect(answer).toMatchObject({
        details: 'total_changed',
        quote: { delivery_fee: 25_000, total: 75_000 },
      });
    });

    test('is none for an order that is collected, which has no area', async () => {
      await setArea('Karen', 'fee_cents = 25000');
      const order = await asStaff<PlacedOrder>('place_order', {
        idempotency_key: crypto.randomUUID(),
        product_id: mango,
        quantity: 1,
        customer_name: 'Amina',
        customer_phone: newPhone(),
        expected_total: 50_000,
        source: 'walk_in',
        is_collected: true,
        area_id: await areaId('Karen'),
        map_point: '-1.3,36.8',
      });
      expect(await orderOf(order)).toMatchObject({ delivery_fee: 0, area_name: null, map_point: null });
    });

    test('stays that of the order when its drinks change, whatever the area costs then', async () => {
      await setArea('Karen', 'fee_cents = 25000');
      const order = await placeIn('Karen', 75_000);
      await setArea('Karen', 'fee_cents = 90000');
      expect(await changeItems(order, [{ product_id: mango, quantity: 2 }], 125_000)).toMatchObject({
        delivery_fee: 25_000,
        total_amount: 125_000,
      });
    });
  });

  test('refuses an area that is inactive or unknown, and keeps the name of one that is renamed', async () => {
    const order = await placeIn('Runda', 50_100);
    await setArea('Runda', `name = 'Runda and Gigiri'`);
    expect(await orderOf(order)).toMatchObject({ area_name: 'Runda' });
    await setArea('Runda and Gigiri', `name = 'Runda'`);
    await setArea('Runda', 'is_active = false');
    await expectRefusal(placeIn('Runda', 50_100), 409, 'area_unavailable');
    await expectRefusal(placeIn(null, 50_100, { area_id: crypto.randomUUID() }), 409, 'area_unavailable');
  });

  test('returns the same order to the same request after its area was closed', async () => {
    const form = { idempotency_key: crypto.randomUUID(), customer_phone: newPhone() };
    const area_id = await areaId('Runda');
    const order = await placeIn(null, 50_100, { ...form, area_id });
    await setArea('Runda', 'is_active = false');
    expect((await placeIn(null, 50_100, { ...form, area_id })).id).toBe(order.id);
    await expectRefusal(
      placeIn(null, 50_100, { ...form, area_id: await areaId('Karen') }),
      409,
      'idempotency_key_reused',
    );
  });

  describe('the point on the map', () => {
    test.each([
      ['-1.2920659,36.8219462', '-1.29207,36.82195'],
      [' -1.3 , 36.8 ', '-1.30000,36.80000'],
      ['', null],
    ])('is stored as five digits: %o', async (map_point, stored) => {
      expect(await orderOf(await placeIn('Westlands', 50_100, { map_point }))).toMatchObject({
        map_point: stored,
        shipping_address: expect.not.stringContaining('36.8'),
      });
    });

    test.each(['91,0', '0,181', '1.2', 'https://maps.example/', '1,2,3', '-1.2;36.8'])(
      'is refused if it is none: %s',
      async (map_point) => {
        await expectRefusal(placeIn('Westlands', 50_100, { map_point }), 400, 'map_point_invalid');
      },
    );

    test('is shown to staff and the counter, and to no one else, whatever proof they have', async () => {
      const order = await placeIn('Westlands', 50_100, { map_point: '-1.29207,36.82195' });
      const point = 'select map_point from public.orders where id = $1';
      for (const reader of ['staff', 'counter'] as const) {
        expect((await queryAs(reader, point, [order.id])).rows, reader).toEqual([
          { map_point: '-1.29207,36.82195' },
        ]);
      }
      await expect(queryAs('visitor', point, [order.id])).rejects.toThrow(/permission denied/);
      for (const reader of ['customer', 'former staff'] as const) {
        expect((await queryAs(reader, point, [order.id])).rows, reader).toEqual([]);
      }
      const shown = JSON.stringify([
        order,
        await track(order),
        await trackAsCustomer(order),
        await asVisitor('order_receipt', {
          tracking_number: order.tracking_number,
          access_key: order.access_key,
        }),
        await asVisitor('orders_by_access_key', { access_keys: [order.access_key] }),
      ]);
      expect(shown).toContain('Westlands');
      expect(shown).not.toContain('36.82');
    });

    test('is exported with the personal data of its customer, and erased with it', async () => {
      const phone = newPhone();
      const order = await placeIn('Westlands', 50_100, {
        map_point: '-1.29207,36.82195',
        customer_phone: phone,
      });
      const exported = await asStaff<{ orders: object[] }>('export_person', { identifier: phone });
      expect(exported.orders[0]).toMatchObject({ area: 'Westlands', map_point: '-1.29207,36.82195' });
      await setStatus(order, 'cancelled');
      await database.query('select private.anonymise_orders(array[$1::uuid])', [order.id]);
      expect(await orderOf(order)).toMatchObject({ area_name: 'Westlands', map_point: null });
    });
  });

  describe('an order outside Nairobi', () => {
    test('waits three days without a fee, and holds its units no longer than others', async () => {
      const toAgree = async () => (await asStaff<{ to_agree: number }>('count_work')).to_agree;
      const before = await toAgree();
      const order = await placeIn('Outside Nairobi', 50_000);
      expect(order).toMatchObject({ awaits_agreement: true, delivery_fee: 0, total_amount: 50_000 });
      expect(
        await readValue(
          `select expires_at - created_at = interval '3 days' and reserved_until - created_at = interval '15 minutes'
           from public.orders where id = $1`,
          [order.id],
        ),
      ).toBe(true);
      expect(await toAgree()).toBe(before + 1);
      expect(await trackAsCustomer(order)).toMatchObject({ awaits_agreement: true });
      expect(await track(order)).toMatchObject({ awaits_agreement: true });
    });

    test('cannot be paid before staff have agreed, and can afterwards', async () => {
      const order = await placeIn('Outside Nairobi', 50_000);
      await database.query('update public.store_settings set offers_cash = true');
      await expectRefusal(beginPayment(order), 409, 'delivery_not_agreed');
      await expectRefusal(
        asVisitor('choose_cash', { order_id: order.id, access_key: order.access_key }),
        409,
        'delivery_not_agreed',
      );
      for (const [procedure, given] of [
        ['show_pay_link', {}],
        ['agree_cash', {}],
        ['receive_cash', { received_cents: 50_000 }],
      ] as const) {
        await expectRefusal(asStaff(procedure, { order_id: order.id, ...given }), 409, 'delivery_not_agreed');
      }
      await agree(order, 60_000);
      expect(await orderOf(order)).toMatchObject({
        awaits_agreement: false,
        delivery_fee: 60_000,
        total_amount: 110_000,
        delivery_day: await dayIn(2),
      });
      expect(await trackAsCustomer(order)).toMatchObject({
        total_amount: 110_000,
        area_name: 'Outside Nairobi',
        delivery_day: await dayIn(2),
      });
      expect(await trackAsCustomer(order)).not.toHaveProperty('awaits_agreement');
      await pay(order);
      expect(await readValue('select payment_status from public.orders where id = $1', [order.id])).toBe(
        'paid',
      );
    });

    test('costs a shilling with a discount of all its drinks, whatever fee it had before', async () => {
      await database.query(`insert into public.discount_codes (code, percent) values ('ALLOFF', 100)`);
      const amountsOf = ({ id }: { id: string }) =>
        readRow('select delivery_fee, discount_cents, total_amount from public.orders where id = $1', [id]);
      const order = await placeIn('Outside Nairobi', 100, { discount_code: 'ALLOFF' });
      await agree(order, 60_000);
      expect(await changeItems(order, [{ product_id: mango, quantity: 1 }], 60_000)).toMatchObject({
        total_amount: 60_000,
      });
      await agree(order, 0);
      expect(await amountsOf(order)).toEqual({ delivery_fee: 0, discount_cents: 49_900, total_amount: 100 });
      await beginPayment(order);
      const other = await placeIn('Outside Nairobi', 50_000);
      await agree(other, 60_000);
      await agree(other, 0);
      expect(await amountsOf(other)).toEqual({ delivery_fee: 0, discount_cents: 0, total_amount: 50_000 });
    });

    test('costs the fee of its area at once, where no agreement is needed', async () => {
      await setArea('Outside Nairobi', 'needs_agreement = false, fee_cents = 80000');
      const order = await placeIn('Outside Nairobi', 130_000);
      expect(order).not.toHaveProperty('awaits_agreement');
      await pay(order);
    });

    test('gets the link once, with the agreement, and waits a day for its payment', async () => {
      const order = await placeIn('Outside Nairobi', 50_000);
      const messages = () =>
        readRows('select kind, channel from public.outbox_messages where order_id = $1 order by channel', [
          order.id,
        ]);
      await database.query(`update public.orders set expires_at = reserved_until where id = $1`, [order.id]);
      expect(await messages()).toEqual([]);
      await agree(order, 60_000);
      await agree(order, 70_000);
      expect(await messages()).toEqual([
        { kind: 'order_received', channel: 'mail' },
        { kind: 'order_received', channel: 'text' },
      ]);
      expect(
        await readValue(`select expires_at > now() + interval '23 hours' from public.orders where id = $1`, [
          order.id,
        ]),
      ).toBe(true);
      expect(
        await readRows(
          `select actor, details ->> 'fee_cents' as fee from public.order_events
           where order_id = $1 and kind = 'delivery_agreed' order by id`,
          [order.id],
        ),
      ).toEqual([
        { actor: 'staff', fee: '60000' },
        { actor: 'staff', fee: '70000' },
      ]);
    });

    test('is paid as it is by money that comes to the till before, and staff only note the day', async () => {
      const order = await placeIn('Outside Nairobi', 50_000);
      await shop.confirm(order);
      expect(
        await readRow('select payment_status, awaits_agreement from public.orders where id = $1', [order.id]),
      ).toEqual({ payment_status: 'paid', awaits_agreement: true });
      await expectRefusal(agree(order, 60_000), 409, 'payment_begun');
      await agree(order, 0);
      expect(await orderOf(order)).toMatchObject({
        awaits_agreement: false,
        total_amount: 50_000,
        delivery_day: await dayIn(2),
      });
    });

    test('entered for a caller gets no link before the agreement', async () => {
      const order = await asStaff<PlacedOrder>('place_order', {
        idempotency_key: crypto.randomUUID(),
        product_id: mango,
        quantity: 1,
        customer_name: 'Amina',
        customer_phone: newPhone(),
        delivery_location: 'Nyali, Mombasa',
        expected_total: 50_000,
        source: 'call',
        area_id: await areaId('Outside Nairobi'),
      });
      const count = () =>
        readValue('select count(*)::integer from public.outbox_messages where order_id = $1', [order.id]);
      expect(await count()).toBe(0);
      await agree(order, 60_000);
      expect(await count()).toBe(1);
    });

    test('refuses a fee or day that is none, and a new fee once a payment has begun', async () => {
      const order = await placeIn('Outside Nairobi', 50_000);
      await expectRefusal(agree(order, -100), 400, 'fee_invalid');
      await expectRefusal(agree(order, 150), 400, 'fee_invalid');
      await expectRefusal(agree(order, 100, -1), 400, 'day_invalid');
      await expectRefusal(agree(order, 100, 61), 400, 'day_invalid');
      await expectRefusal(agree(order, 25_000_000), 400, 'total_too_large');
      await agree(order, 60_000);
      await pay(order);
      await expectRefusal(agree(order, 70_000), 409, 'payment_begun');
      await agree(order, 60_000, 5);
      expect(await orderOf(order)).toMatchObject({ delivery_day: await dayIn(5), total_amount: 110_000 });
    });

    test('can be agreed on by staff alone, and only where there is something to agree', async () => {
      const order = await placeIn('Outside Nairobi', 50_000);
      const given = { order_id: order.id, fee_cents: 100, delivery_day: await dayIn(1) };
      for (const [person, code] of [
        ['former staff', 'staff_only'],
        ['customer', 'staff_only'],
        ['counter', 'not_in_role'],
      ] as const) {
        await expectRefusal(shop.callAs(person, 'agree_delivery', given), 403, code);
      }
      await expectRefusal(agree({ id: crypto.randomUUID() }, 100), 404, 'order_not_found');
      await expectRefusal(agree(await placeIn('Karen', 50_100), 100), 409, 'delivery_not_to_agree');
      await setStatus(order, 'cancelled');
      await expectRefusal(agree(order, 100), 409, 'order_closed');
    });

    test('ends unpaid if no one agrees on it in time', async () => {
      const order = await placeIn('Outside Nairobi', 50_000);
      await expire(order);
      expect(await trackAsCustomer(order)).toMatchObject({ status: 'cancelled' });
      expect(await trackAsCustomer(order)).not.toHaveProperty('awaits_agreement');
    });
  });

  describe('the list of areas', () => {
    const names = async () =>
      (await readRows<{ name: string }>('select name from public.delivery_areas order by position')).map(
        ({ name }) => name,
      );
    const ids = async () =>
      (await readRows<{ id: string }>('select id from public.delivery_areas order by position')).map(
        ({ id }) => id,
      );

    test('is sorted by the owner, and only as a whole', async () => {
      const before = await ids();
      const first = await names();
      await shop.callAs('staff', 'sort_delivery_areas', { ids: [...before.slice(1), before[0]] });
      expect(await names()).toEqual([...first.slice(1), first[0]]);
      await shop.callAs('staff', 'sort_delivery_areas', { ids: before });
      expect(await names()).toEqual(first);
      await expectRefusal(
        shop.callAs('staff', 'sort_delivery_areas', { ids: before.slice(1) }),
        409,
        'areas_changed',
      );
      for (const [person, code] of [
        ['assistant', 'not_in_role'],
        ['counter', 'not_in_role'],
        ['former staff', 'staff_only'],
      ] as const) {
        await expectRefusal(shop.callAs(person, 'sort_delivery_areas', { ids: before }), 403, code);
      }
    });

    test('is not an edit when it is sorted, and an edit is seen by the audit', async () => {
      const seen = () => readValue(`select updated_at::text from public.delivery_areas where name = 'Karen'`);
      const before = await seen();
      const all = await ids();
      await shop.callAs('staff', 'sort_delivery_areas', { ids: [...all].reverse() });
      await shop.callAs('staff', 'sort_delivery_areas', { ids: all });
      expect(await seen()).toBe(before);
      await queryAs('staff', `update public.delivery_areas set fee_cents = 30000 where name = 'Karen'`);
      expect(await seen()).not.toBe(before);
      expect(
        await readRow(
          `select subject, before, after from public.audit_events where subject = 'Karen' order by id desc limit 1`,
        ),
      ).toEqual({ subject: 'Karen', before: { fee_cents: null }, after: { fee_cents: 30_000 } });
    });

    test('takes a new one at its end, with each other name once', async () => {
      await queryAs(
        'staff',
        `insert into public.delivery_areas (name, spellings) values (' Ongata  Rongai ', '{Rongai,rongai," ","Ongata Road"}')`,
      );
      expect(
        await readRow(
          `select name, spellings, position from public.delivery_areas order by position desc limit 1`,
        ),
      ).toMatchObject({
        name: 'Ongata Rongai',
        spellings: ['Ongata Road', expect.stringMatching(/^rongai$/i)],
      });
      await expect(
        queryAs('staff', `insert into public.delivery_areas (name) values ('Ongata Rongai')`),
      ).rejects.toThrow(/names of areas are unique/);
      await expect(
        queryAs('staff', `update public.delivery_areas set promise_to_minutes = 5 where name = 'Karen'`),
      ).rejects.toThrow(/a promise is between/);
      await database.query(`delete from public.delivery_areas where name = 'Ongata Rongai'`);
    });

    test('has at most sixty', async () => {
      await database.query(
        `insert into public.delivery_areas (name) select 'Area ' || n from generate_series(1, 43) as n`,
      );
      await expectRefusal(
        queryAs('staff', `insert into public.delivery_areas (name) values ('One more')`),
        409,
        'areas_too_many',
      );
      await database.query(`delete from public.delivery_areas where name like 'Area %'`);
    });
  });

  test('counts the sold orders of an area in reports, whatever their address', async () => {
    const orders = [
      await placeIn('Lavington', 50_100, { delivery_location: 'Muthangari Gardens' }),
      await placeIn('Lavington', 50_100, { delivery_location: 'Valley Arcade' }),
    ];
    for (const order of orders) await pay(order);
    const day = await dayIn(0);
    const { rows } = await queryAs(
      'staff',
      `select area.orders::integer as orders from public.report($1::date, $1::date) as r, unnest(r.areas) as area
       where area.area = 'Lavington'`,
      [day],
    );
    expect(rows).toEqual([{ orders: 2 }]);
  });
});
