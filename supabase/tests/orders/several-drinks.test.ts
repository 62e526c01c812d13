// Orders of several drinks: placed at once, changed before the payment, and ended as one.
import { randomUUID } from 'node:crypto';
import { testDatabases } from '@jani-juice/backend/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { expectBalancedBooks } from '../payments/books/balanced-books.ts';
import { expectRefusal, itemsForm, makeProduct, type PlacedOrder, stockOf } from '../shop-database.ts';
import { failed, settleAll, setUpShop } from '../steps.ts';

interface Item {
  product_id: string;
  quantity: number;
}
interface Refusal {
  details: string;
  message: string;
  product_id?: string;
  quote?: unknown;
}

describe.each(testDatabases())('on %s', (kind) => {
  const {
    database,
    asStaff,
    answerToVisitor,
    readRow,
    readRows,
    readColumn,
    readValue,
    place,
    placeItems,
    changeItems,
    track,
    trackAsCustomer,
    begin,
    prompt,
    pay,
    settle,
    receive,
    expire,
    endPaymentTime,
    expireReservations,
    setStatus,
    handOver,
    eventsOf,
  } = setUpShop(kind);
  afterEach(() => expectBalancedBooks(database));
  let mango: string;
  let lime: string;
  let cola: string;
  beforeEach(async () => {
    mango = await makeProduct(database, 10, 50_000, 'Mango');
    lime = await makeProduct(database, 10, 30_000, 'Lime');
    cola = await makeProduct(database, 10, 20_000, 'Cola');
  });

  const of = (product_id: string, quantity = 1): Item => ({ product_id, quantity });
  /** The whole answer of a refused call. */
  const refusalOf = answerToVisitor<Refusal>;
  const itemsOf = ({ id }: { id: string }) =>
    readRows(
      `select product_name as name, quantity, unit_price from public.order_items where order_id = $1 order by position`,
      [id],
    );
  const stocks = () => Promise.all([mango, lime, cola].map((product) => stockOf(database, product)));
  const three = () => [of(mango, 2), of(lime), of(cola, 3)];
  const totalOfThree = 100 + 2 * 50_000 + 30_000 + 3 * 20_000;

  describe('placing', () => {
    test('makes one order with one fee, and its drinks in the order in which they were chosen', async () => {
      const order = await placeItems(three(), totalOfThree);
      expect(order).toMatchObject({ total_amount: totalOfThree, delivery_fee: 100, status: 'pending' });
      expect(await itemsOf(order)).toEqual([
        { name: 'Mango', quantity: 2, unit_price: 50_000 },
        { name: 'Lime', quantity: 1, unit_price: 30_000 },
        { name: 'Cola', quantity: 3, unit_price: 20_000 },
      ]);
      expect(await stocks()).toEqual([8, 9, 7]);
      const seen = await trackAsCustomer<{ order_items: { product: { name: string } }[] }>(order);
      expect(seen.order_items.map(({ product }) => product.name)).toEqual(['Mango', 'Lime', 'Cola']);
    });

    test('takes the same drink in two lines as one', async () => {
      const order = await placeItems([of(lime), of(mango), of(lime, 2)], 100 + 50_000 + 3 * 30_000);
      expect(await itemsOf(order)).toEqual([
        { name: 'Lime', quantity: 3, unit_price: 30_000 },
        { name: 'Mango', quantity: 1, unit_price: 50_000 },
      ]);
    });

    test('takes ten drinks', async () => {
      const drinks = await Promise.all(Array.from({ length: 10 }, () => makeProduct(database, 3, 10_000)));
      const order = await placeItems(
        drinks.map((drink) => of(drink)),
        100_100,
      );
      expect(await itemsOf(order)).toHaveLength(10);
    });

    test('answers the same list with the same key with the same order, and refuses another', async () => {
      const idempotency_key = randomUUID();
      const first = await placeItems(three(), totalOfThree, { idempotency_key });
      expect(await placeItems(three(), totalOfThree, { idempotency_key })).toEqual(first);
      await expectRefusal(
        placeItems([of(mango, 2)], totalOfThree, { idempotency_key }),
        409,
        'idempotency_key_reused',
      );
      expect(await stocks()).toEqual([8, 9, 7]);
    });

    const id = '00000000-0000-4000-8000-000000000000';
    test.each<[string, unknown, string]>([
      ['no drink', [], 'items_invalid'],
      [
        'eleven drinks',
        Array.from({ length: 11 }, () => ({ product_id: randomUUID(), quantity: 1 })),
        'items_invalid',
      ],
      ['one that is no list', { product_id: id, quantity: 1 }, 'items_invalid'],
      ['a text', 'mango', 'items_invalid'],
      ['a number', [1], 'items_invalid'],
      ['null', [null], 'items_invalid'],
      ['a drink without an id', [{ quantity: 1 }], 'items_invalid'],
      ['an id that is none', [{ product_id: `${id}'`, quantity: 1 }], 'items_invalid'],
      ['long texts', [{ product_id: id, quantity: 1, note: 'x'.repeat(100_000) }], 'items_invalid'],
      ['a quantity of 0', [{ product_id: id, quantity: 0 }], 'quantity_invalid'],
      ['a negative quantity', [{ product_id: id, quantity: -1 }], 'quantity_invalid'],
      ['a quantity of 1.5', [{ product_id: id, quantity: 1.5 }], 'quantity_invalid'],
      ['no quantity', [{ product_id: id }], 'quantity_invalid'],
      ['a quantity in words', [{ product_id: id, quantity: 'two' }], 'quantity_invalid'],
      ['a quantity beyond integers', [{ product_id: id, quantity: 3_000_000_000 }], 'quantity_invalid'],
    ])('refuses %s', async (_, items, code) => {
      await expectRefusal(placeItems(items, 100), 400, code);
    });

    test('refuses a list beside a single drink', async () => {
      await expectRefusal(place(mango, { items: JSON.stringify([of(lime)]) }), 400, 'items_invalid');
    });

    test.each<[string, () => unknown[] | Promise<unknown[]>, string, string]>([
      [
        'of which there are too few',
        () => [of(mango), of(lime, 11)],
        'not_enough_stock',
        'Only 10 left in stock of Lime',
      ],
      [
        'that is sold out',
        async () => {
          await database.query(
            `update public.products set sold_out_until = now() + interval '1 hour' where id = $1`,
            [lime],
          );
          return [of(mango), of(lime)];
        },
        'out_of_stock',
        'Lime is out of stock',
      ],
      [
        'that is not sold any more',
        async () => {
          await database.query('update public.products set is_active = false where id = $1', [lime]);
          return [of(mango), of(lime)];
        },
        'product_unavailable',
        'One of the drinks is not available',
      ],
    ])('names the drink %s, and changes nothing', async (_, prepare, details, message) => {
      const items = await prepare();
      const orders = await readValue<number>('select count(*)::integer from public.orders');
      const refusal = await refusalOf('place_order', itemsForm(items, 80_100));
      expect(refusal).toMatchObject({ details, message, product_id: lime });
      expect(await stocks()).toEqual([10, 10, 10]);
      expect(await readValue('select count(*)::integer from public.orders')).toBe(orders);
    });

    test('answers a changed total with the figures of each drink', async () => {
      const refusal = await refusalOf('place_order', itemsForm([of(mango), of(cola, 2)], 1));
      expect(refusal).toMatchObject({ details: 'total_changed' });
      expect(refusal?.product_id).toBeUndefined();
      expect(refusal?.quote).toEqual({
        delivery_fee: 100,
        total: 90_100,
        items: [
          { product_id: mango, price: 50_000, units_left: 10 },
          { product_id: cola, price: 20_000, units_left: 10 },
        ],
      });
    });

    test('refuses more than M-PESA takes in one payment, although each drink costs less', async () => {
      const dear = await makeProduct(database, 10, 15_000_000);
      const dearer = await makeProduct(database, 10, 15_000_000);
      await expectRefusal(placeItems([of(dear), of(dearer)], 30_000_100), 400, 'total_too_large');
    });

    test('customers who order the same drinks in opposite order all get them, and not one unit more', async () => {
      const orders = await settleAll(24, (index) =>
        placeItems(index % 2 ? [of(mango), of(lime)] : [of(lime), of(mango)], 80_100, {
          customer_phone: `07${String(index).padStart(8, '0')}`,
        }),
      );
      expect(orders.filter(({ status }) => status === 'fulfilled')).toHaveLength(10);
      for (const order of orders) {
        if (order.status === 'rejected') expect(order.reason).toMatchObject({ detail: 'out_of_stock' });
      }
      expect(await stocks()).toEqual([0, 0, 10]);
    });
  });

  describe('holding units', () => {
    const address = '192.0.2.77';
    const holdsOf = ({ id }: { id: string }) =>
      readRows(
        `select product_id, is_prompted from private.unpaid_holds where order_id = $1 order by product_id`,
        [id],
      );

    test('counts the hold of each drink, and ends all of them with the payment', async () => {
      const order = await placeItems([of(mango), of(lime)], 80_100, { address });
      expect(await holdsOf(order)).toEqual(
        [mango, lime].sort().map((product_id) => ({ product_id, is_prompted: false })),
      );
      await pay(order);
      expect(await holdsOf(order)).toEqual([]);
      expect(await stocks()).toEqual([9, 9, 10]);
    });

    test('holds none of the drinks where one of them may not be held, and all of them from the prompt on', async () => {
      // Five of ten units is the share of unpaid orders.
      const order = await placeItems([of(mango), of(lime, 6)], 230_100, { address });
      expect(order.reserved_until).toBeNull();
      expect(await holdsOf(order)).toEqual([]);
      expect(await stocks()).toEqual([10, 10, 10]);
      await begin(order);
      expect(await holdsOf(order)).toEqual(
        [mango, lime].sort().map((product_id) => ({ product_id, is_prompted: true })),
      );
      expect(await stocks()).toEqual([9, 4, 10]);
    });

    test('refuses the prompt of an order of which a drink was sold in the meantime, by its name', async () => {
      const order = await placeItems([of(mango), of(lime, 6)], 230_100, { address });
      await database.query('update public.products set stock_quantity = 5 where id = $1', [lime]);
      const refusal = await expectRefusal(begin(order), 409, 'not_enough_stock');
      expect(refusal.message).toBe('Only 5 left in stock of Lime');
      expect(await stocks()).toEqual([10, 5, 10]);
      await database.query('update public.products set stock_quantity = 10 where id = $1', [lime]);
    });

    test('an order that is not paid in time returns the units of all drinks', async () => {
      const order = await placeItems(three(), totalOfThree, { address });
      expect(await expire(order)).toBe(1);
      expect(await stocks()).toEqual([10, 10, 10]);
      expect(await holdsOf(order)).toEqual([]);
    });

    test('a prompt shortly before the end extends the hold of all drinks', async () => {
      const order = await placeItems([of(mango), of(lime)], 80_100, { address });
      await database.query(
        `update public.orders set expires_at = now() + interval '1 minute', reserved_until = now() + interval '1 minute' where id = $1`,
        [order.id],
      );
      await database.query(
        `update private.unpaid_holds set held_until = now() + interval '1 minute' where order_id = $1`,
        [order.id],
      );
      await begin(order);
      const ends = await readRows<{ minutes: number }>(
        `select round(extract(epoch from h.held_until - now()) / 60)::integer as minutes
         from private.unpaid_holds as h where h.order_id = $1`,
        [order.id],
      );
      expect(ends).toEqual([{ minutes: 5 }, { minutes: 5 }]);
    });
  });

  test('a paid order is delivered once, and cancelled returns all of its drinks', async () => {
    const order = await placeItems(three(), totalOfThree);
    await pay(order);
    expect(
      await readRow('select status, payment_status from public.orders where id = $1', [order.id]),
    ).toEqual({
      status: 'processing',
      payment_status: 'paid',
    });
    expect(
      await readValue('select count(*)::integer from public.deliveries where order_id = $1', [order.id]),
    ).toBe(1);
    await setStatus(order, 'cancelled');
    expect(await stocks()).toEqual([10, 10, 10]);
  });

  test('money that comes too late needs a decision where one drink of several is sold', async () => {
    const order = await placeItems([of(mango), of(lime)], 80_100);
    const attempt = await prompt(order);
    await settle(attempt, failed);
    await expire(order);
    await database.query('update public.products set stock_quantity = 0 where id = $1', [lime]);
    expect((await settle(attempt)).outcome).toBe('paid_needs_review');
    expect(await stocks()).toEqual([10, 0, 10]);
    await database.query('update public.products set stock_quantity = 10 where id = $1', [lime]);
  });

  describe('changing the drinks before the payment', () => {
    test('adds, removes and changes quantities under the same number', async () => {
      const order = await placeItems([of(mango, 2), of(lime)], 130_100);
      const changed = await changeItems(order, [of(mango), of(cola, 4)], 130_100);
      expect(changed).toMatchObject({
        id: order.id,
        tracking_number: order.tracking_number,
        access_key: order.access_key,
        total_amount: 130_100,
      });
      expect(await itemsOf(order)).toEqual([
        { name: 'Mango', quantity: 1, unit_price: 50_000 },
        { name: 'Cola', quantity: 4, unit_price: 20_000 },
      ]);
      expect(await stocks()).toEqual([9, 10, 6]);
      expect(await eventsOf(order)).toContain('customer items_changed');
      await pay(changed);
      expect(await readValue('select payment_status from public.orders where id = $1', [order.id])).toBe(
        'paid',
      );
    });

    test('can use the units that the order holds itself', async () => {
      const order = await placeItems([of(mango, 9)], 450_100);
      await changeItems(order, [of(mango, 10)], 500_100);
      expect(await stocks()).toEqual([0, 10, 10]);
    });

    test('counts the new hold from then on', async () => {
      const order = await placeItems([of(mango)], 50_100, { address: '192.0.2.78' });
      await changeItems(order, [of(lime), of(cola)], 50_100, '192.0.2.78');
      expect(
        await readRows(
          'select product_id from private.unpaid_holds where order_id = $1 order by product_id',
          [order.id],
        ),
      ).toEqual([lime, cola].sort().map((product_id) => ({ product_id })));
    });

    test('keeps the fee that was agreed, and takes the prices of now', async () => {
      const order = await placeItems([of(mango)], 50_100);
      await database.query('update public.store_settings set delivery_fee = 40000');
      await database.query('update public.products set price = 60000 where id = $1', [mango]);
      try {
        const refusal = await refusalOf('change_order_items', {
          order_id: order.id,
          access_key: order.access_key,
          items: JSON.stringify([of(mango), of(lime)]),
          expected_total: 80_100,
        });
        expect(refusal).toMatchObject({
          details: 'total_changed',
          quote: { delivery_fee: 100, total: 90_100 },
        });
        expect((await changeItems(order, [of(mango), of(lime)], 90_100)).total_amount).toBe(90_100);
      } finally {
        await database.query('update public.store_settings set delivery_fee = 100');
      }
    });

    test('is refused as a whole when one drink is missing: the order and its units stay', async () => {
      const order = await placeItems([of(mango, 2)], 100_100);
      await expectRefusal(changeItems(order, [of(mango, 2), of(lime, 11)], 430_100), 409, 'not_enough_stock');
      expect(await itemsOf(order)).toEqual([{ name: 'Mango', quantity: 2, unit_price: 50_000 }]);
      expect(await stocks()).toEqual([8, 10, 10]);
      expect(
        await readRow('select reserved_until is not null as holds from public.orders where id = $1', [
          order.id,
        ]),
      ).toEqual({
        holds: true,
      });
    });

    test.each<[string, (order: PlacedOrder) => unknown, string]>([
      ['once a prompt is open', begin, 'payment_begun'],
      [
        'while a payment is checked',
        async (order) => {
          const attempt = await prompt(order);
          await settle(attempt, { received_cents: attempt.charge_cents + 100 });
        },
        'payment_begun',
      ],
      [
        'after a prompt that failed, whose money can still come',
        async (order) => settle(await prompt(order), failed),
        'payment_begun',
      ],
      ['once it is paid', pay, 'order_already_paid'],
      [
        'once part of it came',
        (order) => receive(order, undefined, { received_cents: 5000 }),
        'payment_begun',
      ],
      ['once its time is over', endPaymentTime, 'order_cancelled'],
      ['once it is cancelled', expire, 'order_cancelled'],
      ['once it was handed over', (order) => handOver(order, 'shipped'), 'order_in_work'],
    ])('is refused %s', async (_, happens, code) => {
      const order = await placeItems([of(mango)], 50_100);
      await happens(order);
      const before = await itemsOf(order);
      await expectRefusal(changeItems(order, [of(mango), of(lime)], 80_100), 409, code);
      expect(await itemsOf(order)).toEqual(before);
    });

    test('needs the access key of the order', async () => {
      const order = await placeItems([of(mango)], 50_100);
      const other = await placeItems([of(lime)], 30_100);
      for (const access_key of [other.access_key, '', order.access_key.slice(1)]) {
        await expectRefusal(
          changeItems({ id: order.id, access_key }, [of(cola)], 20_100),
          404,
          'order_not_found',
        );
      }
      expect(await itemsOf(order)).toHaveLength(1);
    });

    test('of two changes at once both are whole, and the units are right', async () => {
      const order = await placeItems([of(mango)], 50_100);
      await settleAll(6, (index) =>
        index % 2
          ? changeItems(order, [of(mango), of(lime)], 80_100)
          : changeItems(order, [of(cola), of(mango, 2)], 120_100),
      );
      const items = await itemsOf(order);
      expect([80_100, 120_100]).toContain(
        await readValue('select total_amount from public.orders where id = $1', [order.id]),
      );
      expect(items).toHaveLength(2);
    });

    test('a change at the moment of a prompt is refused, or the prompt asks for the new total', async () => {
      const order = await placeItems([of(mango)], 50_100);
      const [changed, begun] = await Promise.allSettled([
        changeItems(order, [of(mango), of(lime)], 80_100),
        begin(order),
      ]);
      if (begun.status !== 'fulfilled') throw begun.reason;
      expect(begun.value.payment.charge_cents).toBe(changed.status === 'fulfilled' ? 80_100 : 50_100);
    });

    test('counts as an order in the limits, and waits while orders are paused', async () => {
      const order = await placeItems([of(mango)], 50_100);
      await database.query('delete from private.rate_limits');
      await asStaff('pause_orders', { reason: 'Rain', minutes: 60 });
      try {
        await expectRefusal(changeItems(order, [of(lime)], 30_100, '192.0.2.79'), 409, 'orders_paused');
      } finally {
        await asStaff('resume_orders');
      }
      expect(
        await readValue(
          `select hits from private.rate_limits where bucket = 'place_order' and subject = '192.0.2.79'`,
        ),
      ).toBe(1);
    });

    test('the customer tracks the new drinks', async () => {
      const order = await placeItems([of(mango)], 50_100);
      await changeItems(order, [of(cola), of(mango)], 70_100);
      const seen = await track<{ order_items: { product: { name: string } }[]; total_amount: number }>(order);
      expect(seen.order_items.map(({ product }) => product.name)).toEqual(['Cola', 'Mango']);
      expect(seen.total_amount).toBe(70_100);
    });
  });

  test('several orders that end at once return the units of all their drinks', async () => {
    const orders = await Promise.all([
      placeItems([of(mango), of(lime)], 80_100),
      placeItems([of(lime), of(cola)], 50_100),
      placeItems([of(cola), of(mango)], 70_100),
    ]);
    for (const order of orders) await endPaymentTime(order);
    await settleAll(3, expireReservations);
    expect(await stocks()).toEqual([10, 10, 10]);
    expect(
      await readColumn('select distinct status from public.orders where id = any ($1::uuid[])', [
        `{${orders.map(({ id }) => id).join(',')}}`,
      ]),
    ).toEqual(['cancelled']);
  });
});
