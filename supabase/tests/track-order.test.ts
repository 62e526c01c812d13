// Following an order: what anybody learns, what only its customer learns, and how guessing is stopped.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { asRole } from '../../backend/database/as-role.ts';
import type { Database } from '../../backend/database/database.ts';
import { testDatabases } from '../../backend/database/throwaway.ts';
import {
  call,
  expectRefusal,
  makeProduct,
  openShopDatabase,
  orderForm,
  type PlacedOrder,
  people,
} from './shop-database.ts';

interface TrackedOrder {
  id: string;
  status: string;
  payment_status: string;
  is_masked: boolean;
  customer_name: string;
  customer_phone: string;
  shipping_address: string | null;
  delivery_notes: string | null;
  total_amount: number;
  order_items: { quantity: number; unit_price: number; product: Record<string, unknown> }[];
}

describe.each(testDatabases())('on %s', (kind) => {
  let database: Database;
  let product: string;
  beforeAll(async () => {
    database = await openShopDatabase(kind);
    product = await makeProduct(database, 1000);
  });
  afterAll(() => database.close());

  const place = (change: Record<string, unknown> = {}) =>
    call<PlacedOrder>(database, 'visitor', 'place_order', {
      ...orderForm(product),
      delivery_notes: 'Blue gate',
      ...change,
    });
  const track = (given: Record<string, unknown>, address?: string) =>
    call<TrackedOrder | null>(database, 'visitor', 'track_order', given, address);
  const setStatus = (order: PlacedOrder, status: string) =>
    asRole(database, people.staff, (session) =>
      session.query(`update public.orders set status = $2, updated_at = now() where id = $1`, [
        order.id,
        status,
      ]),
    );

  test('anybody who knows the number learns status, items and total, but nothing about the customer', async () => {
    const order = await place({ quantity: 2, expected_total: 190_100 });
    const tracked = await track({ tracking_number: order.tracking_number });
    expect(tracked).toMatchObject({
      id: order.id,
      status: 'pending',
      payment_status: 'unpaid',
      total_amount: 190_100,
      delivery_fee: 100,
      is_masked: true,
      customer_name: 'A••• K•••',
      customer_phone: '0712 ••• •••',
      shipping_address: null,
      delivery_notes: null,
      order_items: [
        {
          quantity: 2,
          unit_price: 95_000,
          product: { name: 'Test drink', category: 'Mango', slug: `test-${product}` },
        },
      ],
    });
    const told = JSON.stringify(tracked);
    for (const secret of [
      'Amina',
      'Kamau',
      '712345',
      'Westlands',
      'Blue gate',
      'example.com',
      order.access_key,
    ]) {
      expect(told).not.toContain(secret);
    }
  });

  test('the number is found however it is typed', async () => {
    const order = await place();
    const tracked = await track({ tracking_number: ` ${order.tracking_number.toLowerCase()} ` });
    expect(tracked?.id).toBe(order.id);
  });

  test("the access key shows everything, another order's key does not", async () => {
    const order = await place();
    const other = await place();
    const open = await track({ tracking_number: order.tracking_number, access_key: order.access_key });
    expect(open).toMatchObject({
      is_masked: false,
      customer_name: 'Amina Kamau',
      customer_phone: '+254712345678',
      shipping_address: 'Westlands',
      delivery_notes: 'Blue gate',
    });
    for (const access_key of [other.access_key, '', null]) {
      const masked = await track({ tracking_number: order.tracking_number, access_key });
      expect(masked).toMatchObject({ is_masked: true, shipping_address: null });
    }
  });

  test('the last four digits of the phone show everything, wrong ones do not', async () => {
    const order = await place();
    const withDigits = (phone_last_four: string) =>
      track({ tracking_number: order.tracking_number, phone_last_four });
    expect(await withDigits('5678')).toMatchObject({ is_masked: false, shipping_address: 'Westlands' });
    expect(await withDigits('5679')).toMatchObject({ is_masked: true, shipping_address: null });
    expect(await withDigits('')).toMatchObject({ is_masked: true });
    expect(await withDigits('%')).toMatchObject({ is_masked: true });
  });

  test('after five wrong guesses even the right digits are refused for this order, the access key is not', async () => {
    const order = await place();
    const other = await place();
    const guess = (phone_last_four: string) =>
      track({ tracking_number: order.tracking_number, phone_last_four });
    for (const digits of ['0000', '0001', '0002', '0003', '0004']) {
      expect(await guess(digits)).toMatchObject({ is_masked: true });
    }
    await expectRefusal(guess('5678'), 429, 'too_many_guesses');
    expect(await track({ tracking_number: order.tracking_number })).toMatchObject({ is_masked: true });
    expect(
      await track({
        tracking_number: order.tracking_number,
        access_key: order.access_key,
        phone_last_four: '5678',
      }),
    ).toMatchObject({ is_masked: false });
    expect(await track({ tracking_number: other.tracking_number, phone_last_four: '5678' })).toMatchObject({
      is_masked: false,
    });
  });

  test('guesses made at the same time are five as well', async () => {
    const order = await place();
    const guesses = Array.from({ length: 40 }, (_, guess) =>
      track({ tracking_number: order.tracking_number, phone_last_four: String(1000 + guess) }),
    );
    const answers = await Promise.allSettled(guesses);
    expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(5);
  });

  test('who guesses the digits of one order after another is stopped at sixty', async () => {
    for (let n = 0; n < 15; n += 1) {
      const order = await place();
      for (const phone_last_four of ['0001', '0002', '0003', '0004']) {
        const guess = { tracking_number: order.tracking_number, phone_last_four };
        expect(await track(guess, '192.0.2.60')).toMatchObject({ is_masked: true });
      }
    }
    const order = await place();
    const right = { tracking_number: order.tracking_number, phone_last_four: '5678' };
    await expectRefusal(track(right, '192.0.2.60'), 429, 'too_many_guesses');
    const withKey = { ...right, access_key: order.access_key };
    expect(await track(withKey, '192.0.2.60')).toMatchObject({ is_masked: false });
    expect(await track(right, '192.0.2.61')).toMatchObject({ is_masked: false });
  });

  test('all addresses of one IPv6 network count as one', async () => {
    const order = await place();
    const ask = (address: string, number = 'JJ-20200101-1000') => track({ tracking_number: number }, address);
    for (let miss = 0; miss < 60; miss += 1) {
      expect(await ask(`2001:db8:0:1:${miss.toString(16)}::${miss}`)).toBeNull();
    }
    await expectRefusal(ask('2001:0db8::1:ffff:1:2:3', order.tracking_number), 429, 'too_many_lookups');
    expect(await ask('2001:db8:0:2::1', order.tracking_number)).not.toBeNull();
    expect(await ask('no:address', order.tracking_number)).not.toBeNull();
  });

  test('what a masked phone shows is no help in guessing its last four digits', async () => {
    const order = await place({ customer_phone: '0712345678' });
    const masked = await track({ tracking_number: order.tracking_number });
    expect(masked?.customer_phone).toBe('0712 ••• •••');
  });

  test('a number nobody has is null, and sixty of them stop an address but nobody else', async () => {
    const order = await place();
    for (let miss = 0; miss < 60; miss += 1) {
      expect(await track({ tracking_number: `JJ-20200101-${1000 + miss}` }, '192.0.2.50')).toBeNull();
    }
    await expectRefusal(
      track({ tracking_number: order.tracking_number }, '192.0.2.50'),
      429,
      'too_many_lookups',
    );
    expect(await track({ tracking_number: order.tracking_number }, '192.0.2.51')).not.toBeNull();
  });

  test('customers are told shipped as out_for_delivery; the row keeps what staff chose', async () => {
    const order = await place();
    await setStatus(order, 'shipped');
    expect(await track({ tracking_number: order.tracking_number })).toMatchObject({
      status: 'out_for_delivery',
    });
    const { rows } = await database.query('select status from public.orders where id = $1', [order.id]);
    expect(rows).toEqual([{ status: 'shipped' }]);
  });

  test('a deleted product is still named as it was ordered', async () => {
    const gone = await makeProduct(database, 1);
    const order = await place({ product_id: gone });
    await database.query('delete from public.products where id = $1', [gone]);
    const tracked = await track({ tracking_number: order.tracking_number });
    expect(tracked?.order_items).toMatchObject([
      { quantity: 1, product: { name: 'Test drink', image_url: null, slug: null } },
    ]);
  });

  test('followers are told of a change of status, without personal data, and of nothing else', async () => {
    const order = await place();
    const messages = async () =>
      (
        await database.query<{ payload: Record<string, unknown>; event: string; private: boolean }>(
          `select payload, event, private from realtime.messages where topic = $1 order by inserted_at`,
          [`order-${order.id}`],
        )
      ).rows;
    expect(await messages()).toEqual([]);
    await setStatus(order, 'pending');
    expect(await messages()).toEqual([]);
    await setStatus(order, 'shipped');
    expect(await messages()).toEqual([
      {
        event: 'UPDATE',
        private: false,
        payload: {
          id: order.id,
          tracking_number: order.tracking_number,
          status: 'out_for_delivery',
          payment_status: 'unpaid',
          updated_at: expect.any(String),
        },
      },
    ]);
  });

  test('a delivery on its way moves its order, and a finished one finishes it', async () => {
    const order = await place();
    await database.query('insert into public.deliveries (order_id) values ($1)', [order.id]);
    const deliver = async (status: string) => {
      await asRole(database, people.staff, (session) =>
        session.query('update public.deliveries set delivery_status = $2 where order_id = $1', [
          order.id,
          status,
        ]),
      );
      return (await track({ tracking_number: order.tracking_number }))?.status;
    };
    expect(await deliver('assigned')).toBe('pending');
    expect(await deliver('picked_up')).toBe('out_for_delivery');
    expect(await deliver('in_transit')).toBe('out_for_delivery');
    expect(await deliver('delivered')).toBe('delivered');
  });

  describe('a receipt', () => {
    const receiptOf = (given: Record<string, unknown>) =>
      call<Record<string, unknown> | null>(database, 'visitor', 'order_receipt', given);

    test('is told to who holds the access key or knows the phone, to others only that there is an order', async () => {
      const order = await place();
      const tracking_number = order.tracking_number;
      expect(await receiptOf({ tracking_number })).toEqual({ tracking_number, is_masked: true });
      expect(await receiptOf({ tracking_number, phone_last_four: '0000' })).toEqual({
        tracking_number,
        is_masked: true,
      });
      for (const proof of [{ access_key: order.access_key }, { phone_last_four: '5678' }]) {
        expect(await receiptOf({ tracking_number, ...proof })).toMatchObject({
          order_number: expect.stringMatching(/^ORD-\d+$/),
          customer_name: 'Amina Kamau',
          payments: [],
        });
      }
      expect(await receiptOf({ tracking_number: 'JJ-20261121-0000' })).toBeNull();
    });

    test('names what came and under which receipt, what came twice, and not what failed', async () => {
      const order = await place();
      await database.query(
        `insert into public.payments (order_id, phone, amount, status, receipt, completed_at, needs_refund) values
           ($1, '+254712345678', 95100, 'failed', null, null, false),
           ($1, '+254712345678', 95100, 'completed', 'UKL3AB12C1', now(), false),
           ($1, '+254712345678', 95100, 'completed', 'UKL3AB12C2', now() + interval '1 second', true)`,
        [order.id],
      );
      const given = { tracking_number: order.tracking_number, access_key: order.access_key };
      expect((await receiptOf(given))?.payments).toMatchObject([
        { amount: 95_100, receipt: 'UKL3AB12C1', is_surplus: false, refunded_at: null },
        { amount: 95_100, receipt: 'UKL3AB12C2', is_surplus: true },
      ]);
    });

    test('counts guesses together with those at the order', async () => {
      const order = await place();
      const guess = { tracking_number: order.tracking_number, phone_last_four: '0000' };
      for (let n = 0; n < 3; n++) await track(guess);
      for (let n = 0; n < 2; n++) await receiptOf(guess);
      await expectRefusal(receiptOf({ ...guess, phone_last_four: '5678' }), 429, 'too_many_guesses');
    });

    test('keeps the name under which a product was sold', async () => {
      const order = await place();
      await database.query(`update public.products set name = 'Renamed' where id = $1`, [product]);
      const given = { tracking_number: order.tracking_number, access_key: order.access_key };
      expect((await receiptOf(given))?.order_items).toMatchObject([{ name: 'Test drink', quantity: 1 }]);
    });
  });
});
