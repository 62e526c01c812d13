// Orders that staff enter for a caller, a chat or a customer in the shop.
import { testDatabases } from '@jani-juice/backend/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { expectBalancedBooks } from '../payments/books/balanced-books.ts';
import {
  everyone,
  expectRefusal,
  itemsForm,
  makeProduct,
  type PlacedOrder,
  personIds,
  secondStepPassed,
  stockOf,
} from '../shop-database.ts';
import { newPhone, setUpShop } from '../steps.ts';

interface KnownCustomer {
  phone: string;
  name: string;
  email: string;
  orders: number;
  received_cents: number;
  addresses: { address: string; notes: string | null }[];
  last_orders: {
    order_number: string;
    status: string;
    payment_status: string;
    items: { product_id: string; product_name: string; quantity: number; unit_price: number }[];
  }[];
}

describe.each(testDatabases())('on %s', (kind) => {
  const {
    database,
    callAs,
    asStaff,
    asVisitor,
    asService,
    queryAs,
    rowsAs,
    readRow,
    readRows,
    readColumn,
    readValue,
    place,
    begin,
    prompt,
    pay,
    setStatus,
    confirm,
    expire,
    noteRefundByHand,
  } = setUpShop(kind);
  afterEach(() => expectBalancedBooks(database));
  let mango: string;
  let lime: string;
  let phone: string;
  beforeEach(async () => {
    await database.execute('delete from private.rate_limits');
    mango = await makeProduct(database, 30, 50_000, 'Mango');
    lime = await makeProduct(database, 30, 30_000, 'Lime');
    phone = newPhone();
  });

  const readStaff = async <Row>(sql: string, parameters: unknown[] = []) =>
    (await queryAs<Row>('staff', sql, parameters)).rows;
  /** What a member of staff sends for a caller, without an email address and a tick. */
  const form = (change: Record<string, unknown> = {}) => {
    const { customer_email, ...rest } = itemsForm(
      [
        { product_id: mango, quantity: 2 },
        { product_id: lime, quantity: 1 },
      ],
      130_100,
    );
    return { ...rest, customer_phone: phone, source: 'call', ...change };
  };
  const enter = (change: Record<string, unknown> = {}) => asStaff<PlacedOrder>('place_order', form(change));
  const collected = {
    source: 'walk_in',
    is_collected: true,
    delivery_location: null,
    expected_total: 130_000,
  };
  const international = () => `+254${phone.slice(1)}`;
  const find = (number = phone) => asStaff<KnownCustomer | null>('customer_by_phone', { phone: number });
  const messagesOf = ({ id }: { id: string }) =>
    readColumn(
      `select concat_ws(' ', kind, channel, status, case when has_priority then 'first' end)
       from public.outbox_messages where order_id = $1 order by kind, channel`,
      [id],
    );
  const detailsOf = ({ id }: { id: string }, event: string) =>
    readRows(
      `select actor, actor_email, details - 'payment_id' as details from public.order_events
       where order_id = $1 and kind = $2 order by id`,
      [id, event],
    );

  test('staff enter an order of several drinks without an email address', async () => {
    await database.execute('update public.store_settings set requires_terms_tick = true');
    const order = await enter();
    await database.execute('update public.store_settings set requires_terms_tick = false');
    expect(order).toMatchObject({ delivery_fee: 100, total_amount: 130_100, access_key: expect.any(String) });
    expect(order.reserved_until).not.toBeNull();
    expect(await stockOf(database, mango)).toBe(28);
    expect(
      await readRow(
        `select customer_email, source, is_collected, terms_accepted_at, shipping_address from public.orders where id = $1`,
        [order.id],
      ),
    ).toEqual({
      customer_email: '',
      source: 'call',
      is_collected: false,
      terms_accepted_at: null,
      shipping_address: 'Westlands',
    });
    expect(await detailsOf(order, 'order_placed')).toEqual([
      {
        actor: 'staff',
        actor_email: 'staff@jani.example',
        details: { source: 'call', total_amount: 130_100 },
      },
    ]);
  });

  test('an email address that staff give is checked, and an invisible one counts as none', async () => {
    await expectRefusal(enter({ customer_email: 'amina' }), 400, 'email_invalid');
    const order = await enter({ customer_email: ' \u200b' });
    const other = await enter({ customer_email: ' amina@example.com ' });
    expect(
      await readColumn(
        'select customer_email from public.orders where id = any ($1::uuid[]) order by created_at, customer_email',
        [`{${order.id},${other.id}}`],
      ),
    ).toEqual(['', 'amina@example.com']);
  });

  test('visitors need an email address, and cannot say that an order is of another source or collected', async () => {
    await expectRefusal(asVisitor('place_order', form({ source: 'storefront' })), 400, 'email_invalid');
    const withEmail = { customer_email: 'amina@example.com' };
    for (const by of everyone.filter((person) => person !== 'staff' && person !== 'service')) {
      for (const source of ['call', 'whatsapp', 'walk_in', 'letter', null]) {
        await expectRefusal(callAs(by, 'place_order', form({ ...withEmail, source })), 403, 'staff_only');
      }
      const takenAlong = form({ ...withEmail, ...collected, source: 'storefront' });
      await expectRefusal(callAs(by, 'place_order', takenAlong), 403, 'staff_only');
      expect(
        await callAs(by, 'place_order', form({ ...withEmail, source: 'storefront', is_collected: false })),
      ).toMatchObject({ total_amount: 130_100 });
    }
    for (const source of ['letter', null]) await expectRefusal(enter({ source }), 400, 'source_unknown');
    expect(await asService('place_order', form())).toMatchObject({ total_amount: 130_100 });
  });

  test('the arguments of earlier versions place the same order, also in their positions', async () => {
    const [answer] = await readRows<{ placed: PlacedOrder }>(
      `select public.place_order(gen_random_uuid(), $1, 1, 'Amina Kamau', 'amina@example.com', '0712345678', 'Westlands', 50100,
         null, null, null, true, null) as placed`,
      [mango],
    );
    expect(await readValue('select source from public.orders where id = $1', [answer?.placed.id])).toBe(
      'storefront',
    );
  });

  test('stock, price and pause apply to staff as to customers', async () => {
    await expectRefusal(enter({ expected_total: 1 }), 409, 'total_changed');
    await expectRefusal(
      enter({ items: JSON.stringify([{ product_id: mango, quantity: 31 }]), expected_total: 1_550_100 }),
      409,
      'not_enough_stock',
    );
    await asStaff('pause_orders', { reason: 'Heavy rain' });
    await expectRefusal(enter(), 409, 'orders_paused');
    await asStaff('resume_orders');
    expect(await enter()).toMatchObject({ total_amount: 130_100 });
  });

  test('a repeated call returns the same order; another source with its key is refused', async () => {
    const given = form();
    const order = await asStaff<PlacedOrder>('place_order', given);
    expect(await asStaff('place_order', given)).toEqual(order);
    await expectRefusal(
      asStaff('place_order', { ...given, source: 'whatsapp' }),
      409,
      'idempotency_key_reused',
    );
  });

  test('the limits of the network do not apply to staff, and their orders do not count for it', async () => {
    const address = '203.0.113.9';
    await database.execute(`update private.limits set allowed = 2 where name = 'place_order'`);
    for (let count = 0; count < 4; count++) {
      await callAs(
        'staff',
        'place_order',
        form({
          customer_phone: newPhone(),
          items: JSON.stringify([{ product_id: lime, quantity: 1 }]),
          expected_total: 30_100,
        }),
        address,
      );
    }
    const order = () => place(mango, { address, expected_total: 50_100, customer_phone: newPhone() });
    await order();
    await order();
    await expectRefusal(order(), 429, 'too_many_orders');
    await database.execute(`update private.limits set allowed = 100 where name = 'place_order'`);
  });

  describe('messages', () => {
    test('a caller gets the link as a text at once, and no mail without an address', async () => {
      const order = await enter();
      expect(await messagesOf(order)).toEqual(['order_received text waiting first']);
      await pay(order);
      await expect.poll(() => messagesOf(order)).toContainEqual('order_paid text waiting first');
      expect((await messagesOf(order)).filter((message) => message.includes('mail'))).toEqual([]);
    });

    test('with an address the mail comes too', async () => {
      const order = await enter({ source: 'whatsapp', customer_email: 'amina@example.com' });
      expect(await messagesOf(order)).toEqual([
        'order_received mail waiting first',
        'order_received text waiting first',
      ]);
    });

    test('a customer in the shop gets the link with a prompt, and none of a rider', async () => {
      const order = await enter(collected);
      expect(await messagesOf(order)).toEqual([]);
      await prompt(order, { phone });
      expect(await messagesOf(order)).toEqual(['order_received text waiting first']);
    });

    test('a seller sends more links a day than a network of visitors', async () => {
      const orders = [];
      for (let count = 0; count < 6; count++) {
        orders.push(
          await enter({ items: JSON.stringify([{ product_id: lime, quantity: 1 }]), expected_total: 30_100 }),
        );
      }
      expect((await Promise.all(orders.map(messagesOf))).flat()).toEqual(
        Array(6).fill('order_received text waiting first'),
      );
    });
  });

  describe('collected at the shop', () => {
    const deliveryOf = async ({ id }: { id: string }) =>
      (await readRow<{ id: string; delivery_status: string }>(
        'select id, delivery_status from public.deliveries where order_id = $1',
        [id],
      )) as { id: string; delivery_status: string };

    test('has no fee, and the shop as its place', async () => {
      const order = await enter(collected);
      expect(order).toMatchObject({ delivery_fee: 0, total_amount: 130_000 });
      expect(
        await readRow('select shipping_address, is_collected from public.orders where id = $1', [order.id]),
      ).toEqual({ shipping_address: 'Collected at the shop', is_collected: true });
      await expectRefusal(enter({ ...collected, expected_total: 130_100 }), 409, 'total_changed');
      const placed = await enter({ ...collected, delivery_location: 'Table 4' });
      expect(await readValue('select shipping_address from public.orders where id = $1', [placed.id])).toBe(
        'Table 4',
      );
    });

    test('is handed over without a rider and without messages about one, and that can be undone', async () => {
      const order = await enter(collected);
      await confirm(order);
      const { id } = await deliveryOf(order);
      await asStaff('move_on', { delivery_id: id, expected_step: 'prepare', step: 'ready' });
      const rider = { delivery_person: 'Brian', delivery_phone: '0722000111', delivery_vehicle: 'Motorbike' };
      await expectRefusal(
        asStaff('move_on', { delivery_id: id, expected_step: 'ready', step: 'on_the_way', ...rider }),
        409,
        'order_is_collected',
      );
      const change = await asStaff<{ change_id: string; notifies_customer: boolean }>('move_on', {
        delivery_id: id,
        expected_step: 'ready',
        step: 'delivered',
      });
      expect(change.notifies_customer).toBe(false);
      expect(await readValue('select status from public.orders where id = $1', [order.id])).toBe('delivered');
      expect(await deliveryOf(order)).toMatchObject({ delivery_status: 'delivered' });
      expect(await messagesOf(order)).toEqual(['order_paid text waiting first']);
      await asStaff('undo_status_change', { change_id: change.change_id });
      expect(await deliveryOf(order)).toMatchObject({ delivery_status: 'pending' });
    });

    test('is assigned to no rider', async () => {
      const order = await enter(collected);
      await confirm(order);
      const { id } = await deliveryOf(order);
      const rider = { delivery_person: 'Brian', delivery_phone: '0722000111', delivery_vehicle: 'Motorbike' };
      await expectRefusal(
        asStaff('assign_delivery', { order_id: order.id, ...rider }),
        409,
        'order_is_collected',
      );
      await expectRefusal(
        readRow("update public.deliveries set delivery_person = 'Brian' where id = $1", [id]),
        409,
        'order_is_collected',
      );
      expect(await deliveryOf(order)).toMatchObject({ delivery_status: 'pending' });
    });

    test('waits for no rider', async () => {
      const toAssign = async () => (await asStaff<{ to_assign: number }>('count_work')).to_assign;
      const before = await toAssign();
      const order = await enter(collected);
      await confirm(order);
      expect(await toAssign()).toBe(before);
      const delivered = await enter();
      await confirm(delivered);
      expect(await toAssign()).toBe(before + 1);
      const listed = async (given: string) =>
        (
          await readStaff<{ order_id: string }>(`select order_id from public.search_deliveries(${given})`)
        ).map(({ order_id }) => order_id);
      expect(await listed(`status => 'pending'`)).not.toContain(order.id);
      expect(await listed(`status => 'pending'`)).toContain(delivered.id);
      expect(await listed('')).toContain(order.id);
    });
  });

  describe('the pay link', () => {
    const show = ({ id }: { id: string }, by: Parameters<typeof callAs>[0] = 'staff') =>
      callAs<{ tracking_number: string; access_key: string }>(by, 'show_pay_link', { order_id: id });

    test('is shown to staff, and the timeline says so once an hour for each of them', async () => {
      const order = await place(mango, { expected_total: 50_100 });
      expect(await show(order)).toEqual({
        tracking_number: order.tracking_number,
        access_key: order.access_key,
      });
      await show(order);
      await show(order, secondStepPassed);
      expect(
        (await detailsOf(order, 'pay_link_shown')).map(({ actor, actor_email }) => [actor, actor_email]),
      ).toEqual([
        ['staff', 'staff@jani.example'],
        ['staff', 'careful@jani.example'],
      ]);
    });

    test('is not shown to others, nor of an order that waits for no payment', async () => {
      const order = await place(mango, { expected_total: 50_100 });
      for (const by of ['customer', 'former staff', 'half-way staff'] as const) {
        await expectRefusal(show(order, by), 403, 'staff_only');
      }
      await expect(show(order, 'visitor')).rejects.toThrow('permission denied');
      await confirm(order);
      await expectRefusal(show(order), 409, 'order_already_paid');
      const ended = await place(mango, { expected_total: 50_100 });
      await expire(ended);
      await expectRefusal(show(ended), 409, 'order_cancelled');
      await expectRefusal(show({ id: mango }), 404, 'order_not_found');
      expect(await detailsOf(order, 'pay_link_shown')).toEqual([]);
    });
  });

  describe('the time of an order with a pay link', () => {
    const timesOf = (order: { id: string }) =>
      readRow<{ waits: number; held: number | null }>(
        `select round(extract(epoch from expires_at - created_at) / 60)::integer as waits,
           round(extract(epoch from reserved_until - created_at) / 60)::integer as held
         from public.orders where id = $1`,
        [order.id],
      );
    const show = ({ id }: { id: string }) => asStaff('show_pay_link', { order_id: id });
    const endedLinks = async () =>
      (
        await queryAs<{ order_id: string }>('staff', 'select order_id from public.ended_pay_links()')
      ).rows.map(({ order_id }) => order_id);

    test('is a day from the moment at which staff show it, its units are held as long as prompts could', async () => {
      const order = await place(lime, { expected_total: 30_100 });
      expect(await timesOf(order)).toEqual({ waits: 15, held: 15 });
      await show(order);
      expect(await timesOf(order)).toEqual({ waits: 24 * 60, held: 30 });
      await show(order);
      expect(await timesOf(order)).toEqual({ waits: 24 * 60, held: 30 });
    });

    test.each([
      ['call', 24 * 60, 30],
      ['whatsapp', 24 * 60, 30],
      ['walk_in', 15, 15],
    ])('of an order by %s is %i minutes from the beginning', async (source, waits, held) => {
      expect(await timesOf(await enter({ source }))).toEqual({ waits, held });
    });

    test('outlasts its hold: the units are free again, and a prompt takes them once more', async () => {
      const own = await makeProduct(database, 3);
      const order = await place(own);
      await show(order);
      await database.query(
        `update public.orders set reserved_until = now() - interval '1 second' where id = $1`,
        [order.id],
      );
      await asService('expire_reservations');
      expect(await stockOf(database, own)).toBe(3);
      expect(await readValue('select status from public.orders where id = $1', [order.id])).toBe('pending');
      await prompt(order, { phone: newPhone() });
      expect(await stockOf(database, own)).toBe(2);
    });

    test('is not changed by cash at the door, and an order that no link was given for stays short', async () => {
      const order = await place(lime, { expected_total: 30_100, customer_phone: newPhone() });
      await asStaff('agree_cash', { order_id: order.id });
      const before = await timesOf(order);
      await show(order);
      expect(await timesOf(order)).toEqual(before);
    });

    test('ends visibly for staff, until one of them has seen it', async () => {
      const [shown, entered, plain] = [
        await place(lime, { expected_total: 30_100, customer_phone: newPhone() }),
        await enter(),
        await place(lime, { expected_total: 30_100, customer_phone: newPhone() }),
      ];
      await show(shown);
      for (const order of [shown, entered, plain]) await expire(order);
      expect(await endedLinks()).toEqual(expect.arrayContaining([shown.id, entered.id]));
      expect(await endedLinks()).not.toContain(plain.id);
      for (const by of ['customer', 'former staff', 'half-way staff'] as const) {
        await expectRefusal(callAs(by, 'dismiss_ended_pay_link', { order_id: shown.id }), 403, 'staff_only');
      }
      await asStaff('dismiss_ended_pay_link', { order_id: shown.id });
      await asStaff('dismiss_ended_pay_link', { order_id: shown.id });
      expect(await endedLinks()).toContain(entered.id);
      expect(await endedLinks()).not.toContain(shown.id);
    });

    test('that was ended by staff is no news to them', async () => {
      const order = await enter();
      await asStaff('set_order_status', {
        order_id: order.id,
        status: 'cancelled',
        expected_status: 'pending',
        expected_payment_status: 'unpaid',
      });
      await asService('expire_reservations');
      expect(await endedLinks()).not.toContain(order.id);
    });
  });

  describe('a prompt that staff send', () => {
    const byStaff = { requested_by: personIds.staff };

    test('is theirs in the timeline; one of the customer is not', async () => {
      const order = await enter();
      await prompt(order, { phone, ...byStaff });
      const own = await enter();
      await prompt(own, { phone: newPhone() });
      expect(await detailsOf(order, 'payment_prompted')).toMatchObject([
        { actor: 'staff', actor_email: 'staff@jani.example' },
      ]);
      expect(await detailsOf(own, 'payment_prompted')).toMatchObject([
        { actor: 'customer', actor_email: null },
      ]);
    });

    test('is not limited by the network of the shop, and does not count for it', async () => {
      const address = '198.51.100.7';
      await database.execute(
        `update private.limits set allowed = 1 where name in ('payment_prompts', 'prompted_phones')`,
      );
      const orders = [await enter(), await enter(), await enter()];
      for (const order of orders.slice(0, 2)) await prompt(order, { phone: newPhone(), address, ...byStaff });
      await prompt(orders[2] as PlacedOrder, { phone: newPhone(), address });
      const further = await place(lime, { expected_total: 30_100 });
      await expectRefusal(begin(further, { address }), 429, 'too_many_payments');
      await database.execute(
        `update private.limits set allowed = case name when 'payment_prompts' then 100 else 300 end
         where name in ('payment_prompts', 'prompted_phones')`,
      );
    });
  });

  describe('a customer found by the phone', () => {
    test('has name, email, addresses with notes, orders and money, the newest first', async () => {
      const at = (location: string, change: Record<string, unknown> = {}) =>
        enter({ delivery_location: location, ...change });
      const first = await at('Karen', { customer_email: 'wanjiru@example.com', delivery_notes: 'Blue gate' });
      await pay(first);
      await at('Kilimani', { building: 'Yaya', unit: '4' });
      await at('karen', { delivery_notes: 'Green gate' });
      await at('Ngong Road');
      const refunded = await at('Lavington', { customer_name: 'Wanjiru Kamau' });
      await pay(refunded);
      await setStatus(refunded, 'cancelled');
      await expire(await at('Runda'));
      await enter(collected);
      const payment = await readRow<{ id: string }>('select id from public.payments where order_id = $1', [
        refunded.id,
      ]);
      await noteRefundByHand(payment as { id: string });
      const found = (await find(` ${international()} `)) as KnownCustomer;
      expect(found).toMatchObject({
        phone: international(),
        name: 'Amina Kamau',
        email: 'wanjiru@example.com',
        // Neither the one that was cancelled nor the one that was not paid in time.
        orders: 5,
        received_cents: 130_100,
        addresses: [
          { address: 'Runda', notes: null },
          { address: 'Lavington', notes: null },
          { address: 'Ngong Road', notes: null },
        ],
      });
      expect(found.last_orders).toHaveLength(5);
      expect(found.last_orders[0]).toMatchObject({
        status: 'pending',
        payment_status: 'unpaid',
        items: [
          { product_id: mango, product_name: 'Mango', quantity: 2, unit_price: 50_000 },
          { product_id: lime, product_name: 'Lime', quantity: 1, unit_price: 30_000 },
        ],
      });
    });

    test('keeps one address for different spellings, with the notes of the last order there', async () => {
      await enter({ delivery_location: 'Karen', delivery_notes: 'Blue gate' });
      await enter({ delivery_location: 'Kilimani' });
      await enter({ delivery_location: 'KAREN', delivery_notes: 'Green gate' });
      expect((await find())?.addresses).toEqual([
        { address: 'KAREN', notes: 'Green gate' },
        { address: 'Kilimani', notes: null },
      ]);
    });

    test('is no one with another phone or after erasure', async () => {
      await pay(await enter());
      expect((await find())?.orders).toBe(1);
      expect((await find(newPhone()))?.phone ?? null).toBeNull();
      await database.query(`update public.orders set status = 'delivered' where customer_phone = $1`, [
        international(),
      ]);
      await asStaff('erase_person', { identifier: phone });
      expect((await find())?.phone ?? null).toBeNull();
    });

    test('is found by staff alone, by a phone number', async () => {
      await enter();
      await expectRefusal(find('12'), 400, 'phone_invalid');
      for (const by of ['customer', 'former staff', 'half-way staff'] as const) {
        await expectRefusal(callAs(by, 'customer_by_phone', { phone }), 403, 'staff_only');
      }
      await expect(asVisitor('customer_by_phone', { phone })).rejects.toThrow('permission denied');
    });
  });

  describe('the drinks to choose from', () => {
    const drinks = (given: Record<string, unknown> = {}) =>
      rowsAs<{ id: string; name: string; units_left: number; sold: number; price: number }>(
        'staff',
        'drinks_to_order',
        given,
      );

    test('are those sold most, then the others by name; what cannot be ordered comes last', async () => {
      const ids = [mango, lime];
      const sold = async () =>
        (await drinks({ ids: `{${ids.join(',')}}` })).map(({ id, sold }) => [id, sold]);
      expect(await sold()).toEqual([
        [lime, 0],
        [mango, 0],
      ]);
      await enter();
      expect(await sold()).toEqual([
        [mango, 2],
        [lime, 1],
      ]);
      await asStaff('set_sold_out', { product_id: mango, span: 'hour' });
      expect(await sold()).toEqual([
        [lime, 1],
        [mango, 2],
      ]);
      await database.query('update public.products set is_active = false where id = $1', [lime]);
      expect(await sold()).toEqual([[mango, 2]]);
      const [only] = await drinks({ ids: `{${mango}}` });
      expect(only).toMatchObject({ name: 'Mango', price: 50_000, units_left: 0 });
    });

    test('are searched by all words of name and brand, and typed wildcards are letters', async () => {
      const guava = await makeProduct(database, 1, 100, 'Guava 100% Punch');
      const found = async (search: string) => (await drinks({ search })).map(({ id }) => id);
      expect(await found('PUNCH test guava')).toContain(guava);
      expect(await found('guava 100%')).toContain(guava);
      expect(await found('guava %%%')).toEqual([]);
      expect(await found('guava_')).toEqual([]);
      expect(await found('mango guava')).toEqual([]);
    });

    test('are listed for staff alone', async () => {
      for (const by of ['customer', 'former staff', 'half-way staff'] as const) {
        await expect(queryAs(by, 'select * from public.drinks_to_order()')).rejects.toThrow('Only staff');
      }
      await expect(queryAs('visitor', 'select * from public.drinks_to_order()')).rejects.toThrow(
        'permission denied',
      );
    });
  });
});
