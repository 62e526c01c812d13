// Tracking an order: the data that strangers and the customer see, and the limits of guesses.
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeAll, describe, expect, test } from 'vitest';
import { expectRefusal, makeProduct, type PlacedOrder } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

describe.each(testDatabases())('on %s', (kind) => {
  const { database, asVisitor, queryAs, readRows, readValue, place, track, handOver } = setUpShop(kind);
  let product: string;
  let limits: unknown[];
  beforeAll(async () => {
    product = await makeProduct(database, 1000);
    limits = await readRows(
      `select name, allowed, within::text from private.limits where name ~ 'digits|look' order by name`,
    );
    // No window ends during the tests.
    await database.query(`update private.limits set within = '1000 days' where true`);
  });

  const placeOrder = (change: Record<string, unknown> = {}) =>
    place(product, { delivery_notes: 'Blue gate', ...change });
  const handleOf = ({ id }: PlacedOrder) =>
    readValue('select live_handle from public.orders where id = $1', [id]);

  test('shows strangers status, items and total, but no data of the customer or the payment', async () => {
    const order = await placeOrder({ quantity: 2 });
    const tracked = await track(order);
    expect(tracked).toEqual({
      tracking_number: order.tracking_number,
      live_handle: await handleOf(order),
      status: 'pending',
      payment_status: 'unpaid',
      total_amount: 190_100,
      delivery_fee: 100,
      created_at: expect.any(String),
      updated_at: expect.any(String),
      is_masked: true,
      customer_name: 'A••• K•••',
      customer_phone: '0712 ••• •••',
      order_items: [
        {
          id: expect.any(String),
          quantity: 2,
          unit_price: 95_000,
          product: { name: 'Test drink', category: 'Mango', slug: `test-${product}`, image_url: null },
        },
      ],
    });
    const shown = JSON.stringify(tracked);
    for (const secret of [
      'Amina',
      'Kamau',
      '712345',
      'Westlands',
      'Blue gate',
      'example.com',
      order.access_key,
      order.id,
    ]) {
      expect(shown).not.toContain(secret);
    }
  });

  test.each([
    ['the access key', (order: PlacedOrder) => ({ access_key: order.access_key })],
    ['the last four digits of the phone', () => ({ phone_last_four: '5678' })],
    ['the whole phone number', () => ({ phone_last_four: '0712 345 678' })],
  ])('shows everything with %s, and what paying needs', async (_, proof) => {
    const order = await placeOrder();
    expect(await track(order, proof(order))).toMatchObject({
      id: order.id,
      access_key: order.access_key,
      live_handle: await handleOf(order),
      is_masked: false,
      customer_name: 'Amina Kamau',
      customer_phone: '+254712345678',
      shipping_address: 'Westlands',
      delivery_notes: 'Blue gate',
    });
  });

  test('shows the email address with the access key alone, and never on a receipt', async () => {
    const order = await placeOrder({ customer_email: 'amina@example.com' });
    const withKey = { access_key: order.access_key };
    expect(await track(order, withKey)).toHaveProperty('customer_email', 'amina@example.com');
    for (const shown of [
      await track(order),
      await track(order, { phone_last_four: '5678' }),
      await asVisitor('order_receipt', { tracking_number: order.tracking_number, ...withKey }),
    ]) {
      expect(JSON.stringify(shown)).not.toContain('example.com');
    }
  });

  test('is masked with a wrong proof', async () => {
    const order = await placeOrder();
    const other = await placeOrder();
    const handle = await handleOf(order);
    for (const proof of [
      { access_key: other.access_key },
      { access_key: '' },
      { access_key: null },
      { access_key: handle },
      { access_key: order.id },
      { phone_last_four: '5679' },
      { phone_last_four: '' },
      { phone_last_four: '%' },
      { phone_last_four: '0712 345 679' },
      { phone_last_four: '678' },
    ]) {
      const masked = await track(order, proof);
      expect(masked, JSON.stringify(proof)).toMatchObject({ is_masked: true, customer_name: 'A••• K•••' });
      expect(Object.keys(masked ?? {}), JSON.stringify(proof)).not.toContain('id');
      expect(Object.keys(masked ?? {}), JSON.stringify(proof)).not.toContain('access_key');
    }
  });

  test('finds the number in any notation', async () => {
    const order = await placeOrder();
    const tracked = await track({ tracking_number: ` ${order.tracking_number.toLowerCase()} ` });
    expect(tracked?.tracking_number).toBe(order.tracking_number);
  });

  test('answers arguments of a megabyte without parsing them', async () => {
    const order = await placeOrder();
    const long = 'x'.repeat(1_000_000);
    expect(await track({ tracking_number: long }, { access_key: long, phone_last_four: long })).toBeNull();
    expect(await track(order, { access_key: long, phone_last_four: long })).toMatchObject({
      is_masked: true,
    });
  });

  test('shows strangers only the status of an order older than 30 days', async () => {
    const order = await placeOrder();
    const age = (days: number) =>
      database.query(
        `update public.orders set created_at = now() - make_interval(days => $2) where id = $1`,
        [order.id, days],
      );
    const asStranger = () => track(order);
    await age(29);
    expect(await asStranger()).toHaveProperty('order_items');
    await age(31);
    expect(Object.keys((await asStranger()) ?? {}).sort()).toEqual([
      'is_masked',
      'live_handle',
      'payment_status',
      'status',
      'tracking_number',
      'updated_at',
    ]);
    expect(await track(order, { phone_last_four: '5678' })).toMatchObject({
      customer_name: 'Amina Kamau',
      order_items: [{ quantity: 1 }],
    });
  });

  test('a masked phone does not reveal its last four digits', async () => {
    const order = await placeOrder({ customer_phone: '0712345678' });
    const masked = await track(order);
    expect(masked?.customer_phone).toBe('0712 ••• •••');
  });

  test('limits guesses per hour, and lookups without proof per ten minutes and per day', () =>
    expect(limits).toEqual([
      { name: 'digits', allowed: 60, within: '01:00:00' },
      { name: 'order_digits', allowed: 5, within: '01:00:00' },
      { name: 'order_lookups', allowed: 60, within: '00:10:00' },
      { name: 'orders_looked_up', allowed: 300, within: '1 day' },
    ]));

  describe('guesses of digits', () => {
    const guess = (order: PlacedOrder, phone_last_four: string, address: string) =>
      track(order, { phone_last_four }, address);
    const wrong = async (order: PlacedOrder, times: number, address: string) => {
      for (let n = 0; n < times; n += 1) {
        expect(await guess(order, String(1000 + n), address)).toMatchObject({ is_masked: true });
      }
    };

    test('are limited to five per order and network; the right digits from another network are never rejected', async () => {
      const order = await placeOrder();
      const other = await placeOrder();
      await wrong(order, 5, '203.0.113.1');
      await expectRefusal(guess(order, '5678', '203.0.113.1'), 429, 'too_many_guesses');
      expect(await guess(order, '5678', '198.51.100.1')).toMatchObject({ is_masked: false });
      expect(await guess(other, '5678', '203.0.113.1')).toMatchObject({ is_masked: false });
      expect(await track(order, {}, '203.0.113.1')).toMatchObject({
        is_masked: true,
      });
      expect(
        await track(order, { access_key: order.access_key, phone_last_four: '0000' }, '203.0.113.1'),
      ).toMatchObject({ is_masked: false });
    });

    test('are limited to five when concurrent', async () => {
      const order = await placeOrder();
      const guesses = Array.from({ length: 40 }, (_, n) => guess(order, String(1000 + n), '203.0.113.2'));
      const answers = await Promise.allSettled(guesses);
      expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(5);
    });

    test('are limited to sixty per network for all orders together', async () => {
      for (let n = 0; n < 15; n += 1) await wrong(await placeOrder(), 4, '192.0.2.60');
      const order = await placeOrder();
      await expectRefusal(guess(order, '5678', '192.0.2.60'), 429, 'too_many_guesses');
      const withKey = { access_key: order.access_key, phone_last_four: '5678' };
      expect(await track(order, withKey, '192.0.2.60')).toMatchObject({ is_masked: false });
      expect(await guess(order, '5678', '192.0.2.61')).toMatchObject({ is_masked: false });
    });

    test('are not counted when they are right', async () => {
      const order = await placeOrder();
      for (let n = 0; n < 100; n += 1) {
        expect(await guess(order, '5678', '192.0.2.62')).toMatchObject({ is_masked: false });
      }
      await wrong(order, 5, '192.0.2.62');
    });

    test('are limited equally for unknown and known numbers', async () => {
      const none = { tracking_number: 'JJ-20200101-1000' } as PlacedOrder;
      for (let n = 0; n < 5; n += 1) expect(await guess(none, '0000', '192.0.2.63')).toBeNull();
      await expectRefusal(guess(none, '0000', '192.0.2.63'), 429, 'too_many_guesses');
    });

    describe('from many networks together', () => {
      const addMisses = (order: PlacedOrder, misses: number) =>
        database.query(
          `insert into private.rate_limits
           select 'order_digits_of_all', $1, window_start, $2::integer, window_start + interval '30 days'
           from (select date_bin('30 days', clock_timestamp() + later, timestamptz '2000-01-01') as window_start
                 from unnest(array[interval '0', interval '1 hour']) as later) as windows
           on conflict do nothing`,
          [order.tracking_number, String(misses)],
        );

      test('lock out only those networks, which still open the order with the whole phone number', async () => {
        const order = await placeOrder();
        await addMisses(order, 98);
        await wrong(order, 2, '203.0.113.70');
        const refused = await expectRefusal(guess(order, '5678', '203.0.113.71'), 429, 'too_many_guesses');
        expect(refused.message).toBe(
          'Too many wrong digits for this order. Please enter the whole phone number',
        );
        expect(await guess(order, '0712345678', '203.0.113.71')).toMatchObject({ is_masked: false });
        await expectRefusal(guess(order, '0712345679', '203.0.113.71'), 429, 'too_many_guesses');
        // The customer, and the device that placed the order.
        expect(await guess(order, '5678', '198.51.100.70')).toMatchObject({ is_masked: false });
        expect(await track(order, { access_key: order.access_key }, '203.0.113.71')).toMatchObject({
          is_masked: false,
        });
        // Another network has one miss.
        await wrong(order, 1, '198.51.100.71');
        await expectRefusal(guess(order, '5678', '198.51.100.72'), 429, 'too_many_guesses');
      });

      test('do not count any more once a network needs the whole number, so that it cannot lock out the customer', async () => {
        const order = await placeOrder();
        await addMisses(order, 248);
        expect(await guess(order, '0000', '203.0.113.74')).toMatchObject({ is_masked: true });
        await expectRefusal(guess(order, '0001', '203.0.113.74'), 429, 'too_many_guesses');
        expect(await guess(order, '5678', '198.51.100.74')).toMatchObject({ is_masked: false });
      });

      test('are at most 250 in 30 days, whatever their number', async () => {
        const order = await placeOrder();
        await addMisses(order, 240);
        let taken = 0;
        for (let n = 0; n < 30; n += 1) {
          const answer = await guess(order, '0000', `10.70.${n}.1`).catch(() => null);
          if (answer !== null) taken += 1;
        }
        expect(taken).toBe(10);
        await expectRefusal(guess(order, '5678', '198.51.100.73'), 429, 'too_many_guesses');
        expect(await guess(order, '0712345678', '198.51.100.73')).toMatchObject({ is_masked: false });
      });
    });
  });

  describe('lookups without proof', () => {
    const ask = (tracking_number: string, address: string) => track({ tracking_number }, {}, address);
    const missing = (n: number) => `JJ-20200101-${1000 + n}`;

    test('are limited to sixty per network, for orders and unknown numbers together', async () => {
      const orders = [await placeOrder(), await placeOrder(), await placeOrder()];
      for (let n = 0; n < 30; n += 1) {
        expect(await ask(missing(n), '192.0.2.50')).toBeNull();
        expect(await ask(orders[n % 3]?.tracking_number ?? '', '192.0.2.50')).not.toBeNull();
      }
      const number = orders[0]?.tracking_number ?? '';
      await expectRefusal(ask(number, '192.0.2.50'), 429, 'too_many_lookups');
      await expectRefusal(ask(missing(99), '192.0.2.50'), 429, 'too_many_lookups');
      const attempt = track({ tracking_number: number }, { phone_last_four: '0000' }, '192.0.2.50');
      await expectRefusal(attempt, 429, 'too_many_lookups');
      await expectRefusal(
        asVisitor('order_receipt', { tracking_number: number }, '192.0.2.50'),
        429,
        'too_many_lookups',
      );
      expect(await ask(number, '192.0.2.51')).not.toBeNull();
      // With proof no lookup is rejected.
      for (const proof of [{ access_key: orders[0]?.access_key }, { phone_last_four: '5678' }]) {
        expect(await track({ tracking_number: number }, proof, '192.0.2.50')).toMatchObject({
          is_masked: false,
        });
      }
    });

    test('are limited to 300 different numbers a day, without counting repetitions', async () => {
      const order = await placeOrder();
      const forgetTenMinutes = () =>
        database.query(`delete from private.rate_limits where bucket = 'order_lookups'`);
      for (let n = 0; n < 299; n += 1) {
        if (n % 50 === 0) await forgetTenMinutes();
        expect(await ask(missing(n), '192.0.2.52')).toBeNull();
      }
      await forgetTenMinutes();
      for (let n = 0; n < 20; n += 1) expect(await ask(order.tracking_number, '192.0.2.52')).not.toBeNull();
      await expectRefusal(ask(missing(299), '192.0.2.52'), 429, 'too_many_lookups');
      await expectRefusal(ask(missing(299), '192.0.2.52'), 429, 'too_many_lookups');
      expect(await ask(order.tracking_number, '192.0.2.52')).not.toBeNull();
      expect(await ask(missing(299), '192.0.2.53')).toBeNull();
    });

    test('count all addresses of an IPv6 /64 as one, and those of wider networks together', async () => {
      const order = await placeOrder();
      for (let n = 0; n < 60; n += 1) {
        expect(await ask(missing(n), `2001:db8:0:1:${n.toString(16)}::${n}`)).toBeNull();
      }
      await expectRefusal(ask(order.tracking_number, '2001:0db8::1:ffff:1:2:3'), 429, 'too_many_lookups');
      expect(await ask(order.tracking_number, '2001:db8:0:2::1')).not.toBeNull();
      expect(await ask(order.tracking_number, 'no:address')).not.toBeNull();
      // A /56 has twice the limit, for all of its /64s together.
      for (let n = 0; n < 59; n += 1) {
        expect(await ask(missing(n), `2001:db8:0:${(16 + n).toString(16)}::1`)).toBeNull();
      }
      await expectRefusal(ask(order.tracking_number, '2001:db8:0:ff::1'), 429, 'too_many_lookups');
      expect(await ask(order.tracking_number, '2001:db8:0:100::1')).not.toBeNull();
    });
  });

  test("customers see shipped as out_for_delivery; the row keeps the staff's status", async () => {
    const order = await placeOrder();
    await handOver(order, 'shipped');
    expect(await track(order)).toMatchObject({
      status: 'out_for_delivery',
    });
    expect(await readRows('select status from public.orders where id = $1', [order.id])).toEqual([
      { status: 'shipped' },
    ]);
  });

  test('a deleted product keeps its name in the order', async () => {
    const gone = await makeProduct(database, 1);
    const order = await place(gone);
    await database.query('delete from public.products where id = $1', [gone]);
    const tracked = await track(order);
    expect(tracked?.order_items).toMatchObject([
      { quantity: 1, product: { name: 'Test drink', image_url: null, slug: null } },
    ]);
  });

  test('a status change is announced on both live channels, without personal data, each with its own status name', async () => {
    const order = await placeOrder();
    const handle = (await handleOf(order)) ?? '';
    expect(handle).not.toBe(order.id);
    const messagesOf = (name: string) =>
      readRows<{ payload: Record<string, unknown>; event: string; private: boolean }>(
        `select payload, event, private from realtime.messages where topic = $1 order by inserted_at`,
        [`order-${name}`],
      );
    const announcement = (name: string) => ({
      event: 'UPDATE',
      private: false,
      payload: {
        id: name,
        tracking_number: order.tracking_number,
        status: 'out_for_delivery',
        payment_status: 'unpaid',
        updated_at: expect.any(String),
      },
    });
    await handOver(order, 'pending');
    expect(await messagesOf(order.id)).toEqual([]);
    expect(await messagesOf(handle)).toEqual([]);
    await handOver(order, 'shipped');
    expect(await messagesOf(order.id)).toEqual([announcement(order.id)]);
    expect(await messagesOf(handle)).toEqual([announcement(handle)]);
  });

  test('the order follows its delivery to out for delivery and delivered', async () => {
    const order = await placeOrder();
    await database.query('insert into public.deliveries (order_id) values ($1)', [order.id]);
    const deliver = async (status: string) => {
      await queryAs(
        'staff',
        `select public.set_delivery_status(id, $2, delivery_status, although_unpaid => true)
         from public.deliveries where order_id = $1`,
        [order.id, status],
      );
      return (await track(order))?.status;
    };
    expect(await deliver('assigned')).toBe('pending');
    expect(await deliver('picked_up')).toBe('out_for_delivery');
    expect(await deliver('in_transit')).toBe('out_for_delivery');
    expect(await deliver('delivered')).toBe('delivered');
  });

  describe('a receipt', () => {
    const receiptOf = (
      { tracking_number }: { tracking_number: string },
      proof: Record<string, unknown> = {},
      address?: string,
    ) => asVisitor<Record<string, unknown> | null>('order_receipt', { tracking_number, ...proof }, address);

    test('is complete with the access key or the phone, otherwise shows only that it exists', async () => {
      const order = await placeOrder();
      const tracking_number = order.tracking_number;
      expect(await receiptOf(order)).toEqual({ tracking_number, is_masked: true });
      expect(await receiptOf(order, { phone_last_four: '0000' })).toEqual({
        tracking_number,
        is_masked: true,
      });
      for (const proof of [{ access_key: order.access_key }, { phone_last_four: '5678' }]) {
        expect(await receiptOf(order, proof)).toMatchObject({
          order_number: expect.stringMatching(/^ORD-\d+$/),
          customer_name: 'Amina Kamau',
          payments: [],
        });
      }
      expect(await receiptOf({ tracking_number: 'JJ-20261121-0000' })).toBeNull();
    });

    test('lists payments with receipts and second payments, without failed ones', async () => {
      const order = await placeOrder();
      await database.query(
        `insert into public.payments (order_id, phone, charge_cents, status, receipt, completed_at, needs_refund) values
           ($1, '+254712345678', 95100, 'failed', null, null, false),
           ($1, '+254712345678', 95100, 'completed', 'UKL3AB12C1', now(), false),
           ($1, '+254712345678', 95100, 'completed', 'UKL3AB12C2', now() + interval '1 second', true)`,
        [order.id],
      );
      expect((await receiptOf(order, { access_key: order.access_key }))?.payments).toMatchObject([
        { charge_cents: 95_100, receipt: 'UKL3AB12C1', is_surplus: false, refunded_at: null },
        { charge_cents: 95_100, receipt: 'UKL3AB12C2', is_surplus: true },
      ]);
    });

    test('counts guesses together with those of the order', async () => {
      const order = await placeOrder();
      const [wrong, right] = [{ phone_last_four: '0000' }, { phone_last_four: '5678' }];
      for (let n = 0; n < 3; n++) await track(order, wrong, '192.0.2.80');
      for (let n = 0; n < 2; n++) await receiptOf(order, wrong, '192.0.2.80');
      await expectRefusal(receiptOf(order, right, '192.0.2.80'), 429, 'too_many_guesses');
      expect(await receiptOf(order, right, '198.51.100.80')).toMatchObject({ customer_name: 'Amina Kamau' });
    });

    test('shows the name under which a product was sold', async () => {
      const order = await placeOrder();
      await database.query(`update public.products set name = 'Renamed' where id = $1`, [product]);
      expect((await receiptOf(order, { access_key: order.access_key }))?.order_items).toMatchObject([
        { name: 'Test drink', quantity: 1 },
      ]);
    });
  });
});
