// Reservations of unpaid orders: their conditions and duration. No network can block other buyers.
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { isExhaustive } from '../../../scripts/tests/test-depth.ts';
import { expectBalancedBooks } from '../payments/books/balanced-books.ts';
import {
  expectRefusal,
  letMinutesPass,
  makeProduct,
  orderForm,
  type PlacedOrder,
  people,
  procedureCall,
  stockOf,
} from '../shop-database.ts';
import {
  byQuery,
  concurrently,
  failed,
  newPhone,
  newReceipt,
  newSecret,
  type Payment,
  settleAll,
  setUpShop,
} from '../steps.ts';

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, asStaff, readRow, readValue, place, expireReservations, setStatus, prompt } = shop;
  const { settle, pay, changeItems, trackAsCustomer, queryAs } = shop;
  beforeEach(() => database.execute('delete from private.rate_limits; delete from private.order_networks'));

  /** Places an order of a new customer. */
  const placeFrom = (
    product: string,
    quantity: number,
    address?: string,
    change: Record<string, unknown> = {},
  ) => place(product, { quantity, address, customer_phone: newPhone(), ...change });
  const endPrompt = (payment: Payment, result: 'failed' | 'succeeded') =>
    settle(payment, { ...byQuery, result, result_code: result === 'failed' ? '1032' : '0' });
  /** Lets minutes pass for all unpaid orders of an order's product. */
  const letPass = async ({ id }: PlacedOrder, minutes: number) => {
    const product = await readValue('select product_id from public.order_items where order_id = $1', [id]);
    await letMinutesPass(database, product ?? '', minutes);
  };
  /** Lets 15 minutes pass, and ends what is over then. */
  const letExpire = async (order: PlacedOrder) => {
    await letPass(order, 15);
    await expireReservations();
  };
  /** Minutes from now, rounded; null where there is no time. */
  const timesOf = ({ id }: PlacedOrder) =>
    readRow(
      `select status, payment_status as money,
              round(extract(epoch from reserved_until - now()) / 60)::integer as held_for,
              round(extract(epoch from expires_at - now()) / 60)::integer as waits_for
       from public.orders where id = $1`,
      [id],
    );
  const waiting = (heldFor: number | null, waitsFor: number) => ({
    status: 'pending',
    money: 'unpaid',
    held_for: heldFor,
    waits_for: waitsFor,
  });
  const isHeld = (order: PlacedOrder) => order.reserved_until !== null;

  describe('when an order is placed,', () => {
    test.each([
      { stock: 1, quantity: 1 },
      { stock: 2, quantity: 1 },
      { stock: 3, quantity: 1 },
      { stock: 3, quantity: 2 },
      { stock: 40, quantity: 2 },
    ])('$quantity of $stock units are held for 15 minutes', async ({ stock, quantity }) => {
      const product = await makeProduct(database, stock);
      const order = await placeFrom(product, quantity, '192.0.2.1');
      expect(order.reserved_until).toBe(order.expires_at);
      expect(await timesOf(order)).toEqual(waiting(15, 15));
      expect(await stockOf(database, product)).toBe(stock - quantity);
      // The order expires unpaid, and the slow customer orders again. The network has held units long enough: who pays gets them.
      await letExpire(order);
      expect(await timesOf(order)).toMatchObject({ status: 'cancelled', held_for: null, waits_for: null });
      expect(await stockOf(database, product)).toBe(stock);
      const again = await placeFrom(product, quantity, '192.0.2.1');
      await endPrompt(await prompt(again), 'succeeded');
      expect(await timesOf(again)).toMatchObject({ status: 'processing', money: 'paid' });
      expect(await stockOf(database, product)).toBe(stock - quantity);
    });

    test('all unpaid orders of a product together hold at most half of it, rounded up', async () => {
      const product = await makeProduct(database, 7);
      const held: boolean[] = [];
      for (let n = 1; n <= 7; n += 1) held.push(isHeld(await placeFrom(product, 1, `198.51.${n}.1`)));
      expect(held).toEqual([true, true, true, true, false, false, false]);
      expect(await stockOf(database, product)).toBe(3);
    });

    test('paid units no longer count, and the next order holds its units', async () => {
      const product = await makeProduct(database, 4);
      const first = await placeFrom(product, 2, '198.51.1.1');
      expect(isHeld(await placeFrom(product, 1, '198.51.2.1'))).toBe(false);
      await endPrompt(await prompt(first), 'succeeded');
      expect(isHeld(await placeFrom(product, 1, '198.51.3.1'))).toBe(true);
    });

    test('the share is a setting', async () => {
      const product = await makeProduct(database, 10);
      const set = (percent: number) =>
        database.query('update public.store_settings set reserved_share_percent = $1', [String(percent)]);
      try {
        await set(100);
        expect(isHeld(await placeFrom(product, 10, '198.51.1.1'))).toBe(true);
        await set(20);
        const other = await makeProduct(database, 10);
        expect(isHeld(await placeFrom(other, 3, '198.51.2.1'))).toBe(false);
        expect(isHeld(await placeFrom(other, 2, '198.51.2.1'))).toBe(true);
      } finally {
        await set(50);
      }
    });

    test('orders of staff and of the shop itself always hold their units', async () => {
      const product = await makeProduct(database, 10);
      expect(isHeld(await place(product, { quantity: 6, by: 'staff', address: '198.51.1.1' }))).toBe(true);
      expect(isHeld(await placeFrom(product, 4))).toBe(true);
      expect(await stockOf(database, product)).toBe(0);
    });

    test('a network holds its share of the units for 15 minutes in any hour, and so do all networks together', async () => {
      const product = await makeProduct(database, 10);
      const isHeldFrom = async (quantity: number, address: string) => {
        const order = await placeFrom(product, quantity, address);
        await letExpire(order);
        return isHeld(order);
      };
      expect(await isHeldFrom(3, '2001:db8:1:1::1')).toBe(true);
      // Two of five remain to the /64, and to all networks together.
      expect(await isHeldFrom(3, '2001:db8:1:1::2')).toBe(false);
      expect(await isHeldFrom(3, '192.0.2.1')).toBe(false);
      expect(await isHeldFrom(1, '192.0.2.1')).toBe(true);
      expect(await isHeldFrom(2, '198.51.100.1')).toBe(false);
      // An hour after the first hold, and not yet after the second.
      await letMinutesPass(database, product, 5);
      expect(await isHeldFrom(3, '2001:db8:1:1::1')).toBe(true);
      expect(await isHeldFrom(2, '198.51.100.1')).toBe(false);
    });

    test('a unit that was held for a third of the time counts for a third', async () => {
      const product = await makeProduct(database, 10);
      const cancelAfter = async (minutes: number) => {
        const order = await placeFrom(product, 5, '192.0.2.1');
        await letPass(order, minutes);
        await setStatus(order, 'cancelled');
        await expireReservations();
        return isHeld(order);
      };
      expect(await cancelAfter(5)).toBe(true);
      expect(isHeld(await placeFrom(product, 4, '192.0.2.2'))).toBe(false);
      expect(isHeld(await placeFrom(product, 3, '192.0.2.2'))).toBe(true);
    });

    test('an order that was paid does not count for its network', async () => {
      const product = await makeProduct(database, 10);
      for (let n = 0; n < 3; n += 1) {
        const order = await placeFrom(product, 5, '192.0.2.9');
        expect(isHeld(order)).toBe(true);
        await endPrompt(await prompt(order), 'succeeded');
        await database.query('update public.products set stock_quantity = 10 where id = $1', [product]);
      }
    });

    test('26 orders from 26 /64s of one /48 leave units of all 26 products for others', async () => {
      const products: string[] = [];
      for (let n = 0; n < 26; n += 1) products.push(await makeProduct(database, 3));
      const attack: PlacedOrder[] = [];
      for (const [n, product] of products.entries()) {
        attack.push(await placeFrom(product, 3, `2001:db8:26:${n.toString(16)}::1`));
        attack.push(await placeFrom(product, 2, `2001:db8:26:${(n + 100).toString(16)}::1`));
        attack.push(await placeFrom(product, 1, `2001:db8:26:${(n + 200).toString(16)}::1`));
      }
      expect(attack.filter(isHeld)).toHaveLength(26);
      for (const product of products) {
        expect(await stockOf(database, product)).toBe(1);
        const order = await placeFrom(product, 1, '192.0.2.26');
        await endPrompt(await prompt(order), 'succeeded');
        expect(await timesOf(order)).toMatchObject({ money: 'paid' });
      }
    });
  });

  describe('at the prompt,', () => {
    test('an order without units reserves them for five minutes, and releases them if unpaid', async () => {
      const product = await makeProduct(database, 3);
      const order = await placeFrom(product, 3, '192.0.2.1');
      expect(await timesOf(order)).toEqual(waiting(null, 15));
      expect(await stockOf(database, product)).toBe(3);
      const payment = await prompt(order);
      expect(await timesOf(order)).toEqual(waiting(5, 15));
      expect(await stockOf(database, product)).toBe(0);
      await endPrompt(payment, 'failed');
      await letPass(order, 5);
      await expireReservations();
      expect(await timesOf(order)).toEqual(waiting(null, 10));
      expect(await stockOf(database, product)).toBe(3);
      // All networks together hold all units once in an hour. Then prompts are sent without a hold.
      await endPrompt(await prompt(order), 'succeeded');
      expect(await timesOf(order)).toMatchObject({ status: 'processing', money: 'paid' });
      expect(await stockOf(database, product)).toBe(0);
    });

    test('a second prompt does not extend the reservation', async () => {
      const product = await makeProduct(database, 3);
      const order = await placeFrom(product, 3, '192.0.2.1');
      await endPrompt(await prompt(order), 'failed');
      await letPass(order, 3);
      await prompt(order);
      expect(await timesOf(order)).toEqual(waiting(2, 12));
    });

    test('sold-out units are refused with the errors of placing an order, and the order still expires', async () => {
      const product = await makeProduct(database, 3);
      const [slow, half, quick] = [
        await placeFrom(product, 3, '192.0.2.1'),
        await placeFrom(product, 2, '192.0.2.2'),
        await placeFrom(product, 1, '192.0.2.3'),
      ];
      expect([slow, half, quick].map(isHeld)).toEqual([false, true, false]);
      const few = await expectRefusal(prompt(slow), 409, 'not_enough_stock');
      expect([few.message, few.hint]).toEqual(['Only 1 left in stock', '1']);
      await prompt(quick);
      const none = await expectRefusal(prompt(slow), 409, 'out_of_stock');
      expect(none.message).toBe('This product is out of stock');
      expect(await timesOf(slow)).toEqual(waiting(null, 15));
      await letExpire(slow);
      expect(await timesOf(slow)).toMatchObject({ status: 'cancelled' });
      await expectRefusal(prompt(slow), 409, 'order_cancelled');
    });

    test('a product that is no longer sold is refused', async () => {
      const product = await makeProduct(database, 3);
      const [held, unheld] = [
        await placeFrom(product, 2, '192.0.2.1'),
        await placeFrom(product, 1, '192.0.2.2'),
      ];
      await database.query('update public.products set is_active = false where id = $1', [product]);
      await expectRefusal(prompt(unheld), 404, 'product_unavailable');
      await prompt(held);
    });

    test('prompts of all networks together hold half of the units for five minutes in an hour; then they hold none', async () => {
      const product = await makeProduct(database, 10);
      expect(isHeld(await placeFrom(product, 5, '198.51.100.1'))).toBe(true);
      for (const [host, quantity] of [2, 2, 1].entries()) {
        const order = await placeFrom(product, quantity, `198.51.${host}.1`);
        expect(isHeld(order)).toBe(false);
        await endPrompt(await prompt(order), 'failed');
        expect(await timesOf(order)).toMatchObject({ held_for: 5 });
      }
      expect(await stockOf(database, product)).toBe(0);
      await letMinutesPass(database, product, 5);
      await expireReservations();
      expect(await stockOf(database, product)).toBe(5);
      const order = await placeFrom(product, 1, '203.0.113.1');
      const payment = await prompt(order);
      expect(await timesOf(order)).toMatchObject({ held_for: null });
      // Who pays gets the units.
      await endPrompt(payment, 'succeeded');
      expect(await timesOf(order)).toMatchObject({ status: 'processing', money: 'paid' });
      expect(await stockOf(database, product)).toBe(4);
      // An hour after the prompts.
      await letMinutesPass(database, product, 65);
      await expireReservations();
      const later = await placeFrom(product, 6, '203.0.113.1');
      await prompt(later);
      expect(await timesOf(later)).toMatchObject({ held_for: 5 });
    });

    test('a sale leaves nothing counted', async () => {
      const product = await makeProduct(database, 4);
      for (let sale = 0; sale < 3; sale += 1) {
        const order = await placeFrom(product, 4, '192.0.2.1');
        expect(isHeld(order)).toBe(false);
        const payment = await prompt(order);
        expect(await timesOf(order)).toMatchObject({ held_for: 5 });
        await endPrompt(payment, 'succeeded');
        await database.query('update public.products set stock_quantity = 4 where id = $1', [product]);
      }
    });

    test('a payment for units that were sold in the meantime needs review', async () => {
      const product = await makeProduct(database, 1);
      await database.query(`update public.store_settings set reserved_share_percent = 1`);
      try {
        const order = await placeFrom(product, 1, '192.0.2.1');
        expect(isHeld(order)).toBe(true);
        const payment = await prompt(order);
        await database.query(
          `update public.orders set expiry_limit = now(), expires_at = now(), reserved_until = now() where id = $1`,
          [order.id],
        );
        await expireReservations();
        await endPrompt(await prompt(await placeFrom(product, 1, '192.0.2.2')), 'succeeded');
        expect(await endPrompt(payment, 'succeeded')).toMatchObject({ outcome: 'paid_needs_review' });
        expect(await timesOf(order)).toMatchObject({ money: 'needs_review' });
      } finally {
        await database.query(`update public.store_settings set reserved_share_percent = 50`);
      }
    });
  });

  describe('the end of a hold', () => {
    test('a late prompt moves it once, to five minutes after that prompt', async () => {
      const product = await makeProduct(database, 10);
      const order = await placeFrom(product, 2, '192.0.2.1');
      await endPrompt(await prompt(order), 'failed');
      expect(await timesOf(order)).toEqual(waiting(15, 15));
      await letPass(order, 13);
      await endPrompt(await prompt(order), 'failed');
      expect(await timesOf(order)).toEqual(waiting(5, 5));
      await letPass(order, 4);
      await endPrompt(await prompt(order), 'failed');
      expect(await timesOf(order)).toEqual(waiting(1, 1));
      await letPass(order, 1);
      await expectRefusal(prompt(order), 409, 'order_cancelled');
      expect(await expireReservations()).toBe(1);
      expect(await stockOf(database, product)).toBe(10);
    });

    test('a prompt every four minutes holds units for 30 minutes at most', async () => {
      const product = await makeProduct(database, 10);
      const order = await placeFrom(product, 5, '192.0.2.1');
      let heldFor = 0;
      let payment: Payment | null = null;
      while (heldFor < 60 && (await stockOf(database, product)) < 10) {
        if (payment) await endPrompt(payment, 'failed');
        // Prompts are limited per ten minutes.
        await database.query('delete from private.rate_limits');
        payment = await prompt(order).catch(() => null);
        await letPass(order, 4);
        heldFor += 4;
        await expireReservations();
      }
      expect(heldFor).toBeLessThanOrEqual(30);
    });

    test('an open prompt delays the end of the order until 30 minutes, and not that of the hold; late money pays it', async () => {
      const product = await makeProduct(database, 10);
      const order = await placeFrom(product, 2, '192.0.2.1');
      await endPrompt(await prompt(order), 'failed');
      await letPass(order, 13);
      const payment = await prompt(order);
      expect(await timesOf(order)).toEqual(waiting(5, 5));
      await letPass(order, 5);
      await expireReservations();
      expect(await stockOf(database, product)).toBe(10);
      expect(await timesOf(order)).toEqual(waiting(null, 0));
      await letPass(order, 11);
      await expireReservations();
      expect(await timesOf(order)).toMatchObject({ status: 'pending', money: 'unpaid' });
      await letPass(order, 1);
      await expireReservations();
      expect(await timesOf(order)).toMatchObject({ status: 'cancelled', money: 'unpaid' });
      expect(await endPrompt(payment, 'succeeded')).toMatchObject({ outcome: 'paid' });
      expect(await timesOf(order)).toMatchObject({ status: 'processing', money: 'paid' });
      expect(await stockOf(database, product)).toBe(8);
    });

    test('a network that has held its share is not given more time by a prompt', async () => {
      const product = await makeProduct(database, 10);
      const order = await placeFrom(product, 5, '192.0.2.1');
      await letPass(order, 12);
      await prompt(order);
      expect(await timesOf(order)).toEqual(waiting(3, 5));
    });

    test('a payment in review holds the units until staff resolve it, and for another 15 minutes', async () => {
      const product = await makeProduct(database, 10);
      const order = await placeFrom(product, 2, '192.0.2.1');
      const payment = await prompt(order);
      await settle(payment, { received_cents: null, receipt: null });
      await letPass(order, 120);
      await expireReservations();
      expect(await stockOf(database, product)).toBe(8);
      await asStaff('resolve_difference', { decision: 'accept', payment_id: payment.id });
      await expireReservations();
      expect(await timesOf(order)).toEqual(waiting(15, 15));
      await prompt(order);
      await letPass(order, 30);
      await expireReservations();
      expect(await stockOf(database, product)).toBe(10);
    });
  });

  describe('staff', () => {
    test('take the units of an order that they hand over unpaid', async () => {
      const product = await makeProduct(database, 3);
      const order = await placeFrom(product, 3, '192.0.2.1');
      await setStatus(order, 'processing');
      expect(await stockOf(database, product)).toBe(0);
      await letPass(order, 60);
      await expireReservations();
      expect(await timesOf(order)).toMatchObject({ status: 'processing', money: 'unpaid' });
      const other = await makeProduct(database, 1);
      const late = await placeFrom(other, 1, '192.0.2.1');
      await letExpire(late);
      await placeFrom(other, 1);
      await expectRefusal(setStatus(late, 'processing'), 409, 'units_sold');
    });

    test('cancel an order without units, and release nothing', async () => {
      const product = await makeProduct(database, 3);
      const order = await placeFrom(product, 3, '192.0.2.1');
      await setStatus(order, 'cancelled');
      await letPass(order, 60);
      await expireReservations();
      expect(await stockOf(database, product)).toBe(3);
      await setStatus(order, 'pending');
      expect(await timesOf(order)).toEqual(waiting(15, 15));
      expect(await stockOf(database, product)).toBe(0);
    });

    test('see in the timeline that an order reserves and releases units', async () => {
      const product = await makeProduct(database, 3);
      const order = await placeFrom(product, 3, '192.0.2.1');
      await endPrompt(await prompt(order), 'failed');
      await letPass(order, 5);
      await expireReservations();
      await letPass(order, 10);
      await expireReservations();
      const { rows } = await database.query(
        `select kind, details - 'total_amount' as details from public.order_events
         where order_id = $1 and kind in ('order_placed', 'units_taken', 'units_returned', 'status_changed') order by id`,
        [order.id],
      );
      expect(rows).toEqual([
        { kind: 'order_placed', details: { holds_no_units: true } },
        { kind: 'units_taken', details: {} },
        { kind: 'units_returned', details: {} },
        { kind: 'status_changed', details: { from: 'pending', to: 'cancelled', reason: 'not_paid_in_time' } },
      ]);
    });
  });

  describe('the number of unpaid orders', () => {
    const fill = async (product: string, addresses: string[], phone?: string) => {
      const orders: PlacedOrder[] = [];
      for (const address of addresses) {
        orders.push(await placeFrom(product, 1, address, phone ? { customer_phone: phone } : {}));
      }
      return orders;
    };
    const times = <T>(count: number, make: (n: number) => T) =>
      Array.from({ length: count }, (_, n) => make(n));

    test('is limited to five per phone and network, ten in its /56 and forty in its /48', async () => {
      const product = await makeProduct(database, 1000);
      const phone = '0712000001';
      const [first] = await fill(
        product,
        times(5, (n) => `2001:db8:5:1::${n}`),
        phone,
      );
      const sixth = () => placeFrom(product, 1, '2001:db8:5:1::9', { customer_phone: '254712000001' });
      const error = await expectRefusal(sixth(), 429, 'too_many_unpaid_orders');
      expect(error.message).toContain('5 orders of this phone');
      // Other networks, other phones and staff are not affected.
      await placeFrom(product, 1, '192.0.2.91', { customer_phone: phone });
      await placeFrom(product, 1, '2001:db8:5:1::9');
      await place(product, { by: 'staff', customer_phone: phone, address: '2001:db8:5:1::1' });
      await pay(first as PlacedOrder);
      await sixth();
      await fill(
        product,
        times(5, () => '2001:db8:5:2::1'),
        phone,
      );
      const ofSite = await expectRefusal(
        fill(product, ['2001:db8:5:3::1'], phone),
        429,
        'too_many_unpaid_orders',
      );
      expect(ofSite.message).toContain('10 orders of this phone');
      await fill(
        product,
        times(30, (n) => `2001:db8:5:${n + 1}00::1`),
        phone,
      );
      await expectRefusal(fill(product, ['2001:db8:5:ff00::1'], phone), 429, 'too_many_unpaid_orders');
      await fill(product, ['2001:db8:6::1'], phone);
    });

    /** Adds unpaid orders of other customers of a network, without the checks of placing them. */
    const addWaiting = (network: string, count: number) =>
      database.query(
        `insert into private.order_networks (order_id, network)
         select o.id, $1
         from public.orders as o
         where not exists (select from private.order_networks as k where k.order_id = o.id and k.network = $1)
         limit $2::integer`,
        [network, count],
      );

    test('is limited to 150 per network, whether they hold units or not, and grows with its paid orders', async () => {
      const product = await makeProduct(database, 60);
      const [first, second] = await fill(
        product,
        times(20, () => '192.0.2.50'),
      );
      await expireReservations();
      // The rest has placed its orders from other addresses.
      await fill(
        product,
        times(130, (n) => `10.9.${n}.1`),
      );
      await addWaiting('192.0.2.50', 130);
      const refusal = await expectRefusal(fill(product, ['192.0.2.50']), 429, 'too_many_unpaid_orders');
      expect(refusal.message).toBe(
        'Too many orders from your network wait to be paid already. Please try again in 15 minutes, or call or WhatsApp us on 0700 000 000',
      );
      await fill(product, ['192.0.2.51']);
      await database.query(
        'update public.orders set expires_at = now(), reserved_until = case when reserved_until is not null then now() end where id = $1',
        [first?.id],
      );
      await expireReservations();
      await fill(product, ['192.0.2.50']);
      await expectRefusal(fill(product, ['192.0.2.50']), 429, 'too_many_unpaid_orders');
      // Ten paid orders allow one more to wait, besides their own places.
      await database.query(`select private.count_paid_order(array['192.0.2.50']) from generate_series(1, 9)`);
      await expectRefusal(fill(product, ['192.0.2.50']), 429, 'too_many_unpaid_orders');
      await pay(second as PlacedOrder);
      await fill(
        product,
        times(2, () => '192.0.2.50'),
      );
      await expectRefusal(fill(product, ['192.0.2.50']), 429, 'too_many_unpaid_orders');
    });
  });

  describe('an order, from placing to payment, reads only its own rows while 5,000 others have just been placed,', () => {
    // Without products: the check of a foreign key may scan a small table.
    const counted = [
      'public.orders',
      'public.order_items',
      'private.order_networks',
      'private.order_keys',
      'private.held_units',
      'private.rate_limits',
    ];
    const analyzed = ['public.products', 'public.order_events', ...counted].join(', ');
    const analyze = () => database.execute(`analyze ${analyzed}`);
    /** Adds orders of 5,000 networks that hold a unit each, and their counted calls. */
    const addOthers = (crowded: string) =>
      database.execute(`
        alter table public.orders disable trigger user;
        with others as (
          insert into public.orders
            (tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_fee, total_amount,
             reserved_until, expires_at, expiry_limit)
          select 'JJ-20200101-' || n, 'Other', 'o@b.example', '+254712345678', 'Karen', 100, 95100,
            now() + interval '10 minutes', now() + interval '10 minutes', now() + interval '25 minutes'
          from generate_series(10000, 14999) as n
          returning id, substr(tracking_number, 13)::integer as n
        ),
        items as (
          insert into public.order_items (order_id, product_id, product_name, quantity, unit_price)
          select id, '${crowded}', 'Other', 1, 95000 from others
        ),
        keys as (
          insert into private.order_keys (idempotency_key, request_hash, order_id)
          select gen_random_uuid(), 'other', id from others
        )
        insert into private.order_networks (order_id, network)
        select id, '10.' || n / 256 || '.' || n % 256 || '.' || level
        from others, unnest(array['1', '0/24']) as level;
        alter table public.orders enable trigger user;
        insert into private.rate_limits (bucket, subject, window_start, hits)
        select l.name, k.network, date_bin(l.within, now(), timestamptz '2000-01-01'), 1
        from private.limits as l, private.order_networks as k
        where l.name = 'place_order' and k.network like '10.%'`);
    const removeOthers = async () => {
      // Otherwise the checks of foreign keys may scan tables for each row, with plans for small ones.
      await analyze();
      await database.execute(`
        alter table public.orders disable trigger user;
        delete from public.orders where customer_name = 'Other';
        alter table public.orders enable trigger user;
        delete from private.held_units;
        delete from private.rate_limits`);
    };
    /** Tables from which a call reads more than 20 rows, and the pages that it reads from all tables and indexes. */
    const measure = (person: 'visitor' | 'service', statement: string, parameters: unknown[]) =>
      asRole(
        database,
        people[person],
        async (session) => {
          // Counters may still contain earlier transactions.
          const count = async () => {
            const { rows } = await session.query<{ name: string; rows: number }>(
              `select relname as name, (seq_tup_read + coalesce(idx_tup_fetch, 0))::integer as rows
               from pg_stat_xact_all_tables where schemaname || '.' || relname = any ('{${counted.join(',')}}')`,
            );
            return new Map(rows.map(({ name, rows }) => [name, rows]));
          };
          const once = async () => {
            const before = await count();
            await session.query('savepoint measured');
            const { rows: plans } = await session.query<Record<string, [{ Plan: Record<string, number> }]>>(
              `explain (analyze, buffers, format json) select ${statement}`,
              parameters,
            );
            await session.query('rollback to savepoint measured');
            const plan = Object.values(plans[0] ?? {})[0]?.[0].Plan;
            return {
              tables: [...(await count())].flatMap(([name, rows]) =>
                rows - (before.get(name) ?? 0) > 20 ? [name] : [],
              ),
              pages:
                (plan?.['Shared Hit Blocks'] ?? Number.NaN) + (plan?.['Shared Read Blocks'] ?? Number.NaN),
            };
          };
          // The minimum of ten calls: others also reload the catalogue, which changes in the other files' databases reset, or flush an
          // index's pending list.
          const calls = [await once()];
          while (calls.length < 10) calls.push(await once());
          return {
            tables: [...new Set(calls.flatMap(({ tables }) => tables))],
            pages: Math.min(...calls.map(({ pages }) => pages)),
          };
        },
        { request: { headers: { 'x-forwarded-for': '192.0.2.1', 'x-visitor-address': '192.0.2.1' } } },
      );
    /** Measures each call of an order, from its placing to its payment, without effect. */
    const measureOrder = async (product: string) => {
      const call = (person: 'visitor' | 'service', name: string, given: Record<string, unknown>) =>
        measure(person, procedureCall(name, given), Object.values(given));
      const order = await placeFrom(product, 1, '198.51.7.1');
      const { id, tracking_number, access_key, total_amount } = order;
      const customer_phone = newPhone();
      const prompted = { order_id: id, tracking_number, phone: newPhone(), callback_secret: newSecret() };
      const items = JSON.stringify([{ product_id: product, quantity: 1 }]);
      const placed = await call('visitor', 'place_order', { ...orderForm(product), customer_phone });
      const change = { order_id: id, access_key, items, expected_total: total_amount };
      const changed = await call('visitor', 'change_order_items', change);
      const tracked = await call('visitor', 'track_order', { tracking_number, access_key });
      const begun = await call('service', 'begin_payment', prompted);
      const payment = await prompt(order);
      const paid = { payment_id: payment.id, source: 'callback', body: '{}', result: 'succeeded' };
      const received = { received_cents: payment.charge_cents, receipt: newReceipt(), result_code: '0' };
      const settled = await call('service', 'settle_payment', { ...paid, ...received });
      await endPrompt(payment, 'failed');
      return { placed, changed, tracked, begun, settled };
    };
    /** The promise of an order that is paid counts the deliveries before its own. */
    const deliverAll = () =>
      queryAs(
        'staff',
        `update public.orders set status = 'delivered' where payment_status = 'paid' and status not in ('delivered', 'cancelled')`,
      );
    /** After five calls the database chooses a generic plan, by its current statistics. */
    const choosePlans = async (product: string) => {
      for (let n = 0; n < 6; n += 1) {
        await placeFrom(product, 1, `203.0.113.${n}`);
        const order = await placeFrom(product, 1, `203.0.114.${n}`);
        await changeItems(order, [{ product_id: product, quantity: 1 }], order.total_amount);
        await trackAsCustomer(order);
        await pay(order);
      }
      await expireReservations();
      await deliverAll();
    };

    const circumstances: [string, (product: string, crowded: string) => Promise<unknown>][] = [
      ['without statistics', (_, crowded) => addOthers(crowded)],
      [
        'with statistics and plans of small tables',
        async (product, crowded) => {
          // A vacuum gives back the pages of rows that earlier tests deleted: only a small table is planned to be scanned.
          for (let n = 0; n < 9; n += 1) await placeFrom(product, 1, `203.0.113.${n}`);
          await database.execute(`vacuum (analyze) ${analyzed}`);
          await database.execute('discard plans');
          // Other calls make the plans of what they share with orders.
          for (let n = 0; n < 6; n += 1) {
            await database.query(`select private.count_call_from(array['192.0.2.77'], 'inquiries')`);
            await database.query(`select private.hits_so_far('idle_jobs', 'backup', '10 minutes')`);
            await setStatus(await placeFrom(product, 1), 'cancelled');
          }
          await choosePlans(product);
          await addOthers(crowded);
        },
      ],
      [
        'with statistics of 5,000 orders',
        async (product, crowded) => {
          await addOthers(crowded);
          await analyze();
          await choosePlans(product);
        },
      ],
      [
        'with statistics from before any of them held units',
        async (product, crowded) => {
          await addOthers(crowded);
          await database.execute(`
            delete from private.order_networks;
            alter table public.orders disable trigger user;
            update public.orders set reserved_until = null, expires_at = null where customer_name = 'Other';
            alter table public.orders enable trigger user`);
          await analyze();
          await choosePlans(product);
          await removeOthers();
          await addOthers(crowded);
        },
      ],
    ];
    test.each(isExhaustive ? circumstances : circumstances.slice(0, 2))('%s', async (_, prepare) => {
      const [product, crowded] = [await makeProduct(database, 100), await makeProduct(database, 100_000)];
      try {
        await choosePlans(product);
        const usual = await measureOrder(product);
        await prepare(product, crowded);
        for (const ordered of [product, crowded]) {
          const grown = Object.entries(await measureOrder(ordered)).filter(([call, { tables, pages }]) => {
            const before = usual[call as keyof typeof usual].pages;
            // Indexes have become deeper.
            return tables.length > 0 || !(before > 0 && pages < 2 * before + 50);
          });
          expect(grown, `usually ${JSON.stringify(usual)}`).toEqual([]);
        }
        expect((await measure('service', 'public.expire_reservations()', [])).tables).toEqual([]);
        const scan = await measure('service', 'count(*) from public.orders', []);
        expect(scan.tables, 'rows of a scan are counted').toEqual(['orders']);
      } finally {
        await removeOthers();
      }
    });
  });
});

describe.runIf(testDatabases().includes('postgresql'))('concurrently on PostgreSQL,', () => {
  const { database, expireReservations, place, begin, settle } = setUpShop('postgresql');

  /** Places an order of a new customer from the n-th network. */
  const placeFromNetwork = (product: string, n: number, quantity = 1) =>
    place(product, { quantity, address: `10.${n >> 8}.${n & 255}.1`, customer_phone: newPhone() });
  const refusalsOf = (attempts: PromiseSettledResult<unknown>[]) =>
    attempts.flatMap((attempt) =>
      attempt.status === 'rejected' ? [attempt.reason.detail ?? attempt.reason] : [],
    );

  test('orders from 60 networks hold exactly half, and prompts sell exactly the rest', async () => {
    const product = await makeProduct(database, 11);
    const orders = await concurrently(60, (n) => placeFromNetwork(product, n));
    expect(orders.filter(({ reserved_until }) => reserved_until !== null)).toHaveLength(6);
    expect(await stockOf(database, product)).toBe(5);
    const unheld = orders.filter(({ reserved_until }) => reserved_until === null);
    const { rows: events } = await database.query(
      `select kind, details -> 'holds_no_units' as holds_none, count(*)::integer as count from public.order_events
       where order_id = any ($1) group by 1, 2`,
      [unheld.map(({ id }) => id)],
    );
    expect(events).toEqual([{ kind: 'order_placed', holds_none: true, count: 54 }]);
    // Also of those that were written again without a hold.
    const { rows: keys } = await database.query<{ order_id: string; access_key: string }>(
      'select order_id, access_key from private.order_keys where order_id = any ($1)',
      [orders.map(({ id }) => id)],
    );
    expect(new Map(keys.map((key) => [key.order_id, key.access_key]))).toEqual(
      new Map(orders.map(({ id, access_key }) => [id, access_key])),
    );
    const prompted = await Promise.allSettled(unheld.map((order) => begin(order)));
    expect(refusalsOf(prompted)).toEqual(Array(54 - 5).fill('out_of_stock'));
    expect(await stockOf(database, product)).toBe(0);
    await expectBalancedBooks(database);
  });

  test('orders that draw the same number never deadlock, also when they are written again without a hold', async () => {
    const product = await makeProduct(database, 11);
    const drawing = `pg_get_functiondef('private.draw_tracking_number'::regproc)`;
    const { rows } = await database.query<{ definition: string }>(`select ${drawing} as definition`);
    await database.execute(
      `create or replace function private.draw_tracking_number() returns text language sql volatile as $$
         select 'JJ-20260101-' || (1000 + floor(random() * 80))
       $$`,
    );
    const orders = await settleAll(60, (n) => placeFromNetwork(product, 500 + n));
    await database.execute(rows[0]?.definition ?? '');
    const placed = orders.filter(({ status }) => status === 'fulfilled');
    expect(placed.length).toBeGreaterThan(40);
    expect(refusalsOf(orders).filter((refusal) => refusal !== 'no_tracking_number')).toEqual([]);
    await expectBalancedBooks(database);
  });

  test('placing, prompts, payments, failures and expiry never deadlock', async () => {
    const products: string[] = [];
    for (let n = 0; n < 4; n += 1) products.push(await makeProduct(database, 60));
    let network = 1000;
    for (let round = 0; round < 6; round += 1) {
      const attempts = await settleAll(24, (n) => {
        network += 1;
        return placeFromNetwork(products[n % 4] as string, network, 1 + (n % 3));
      });
      const placed = attempts.flatMap((attempt) => (attempt.status === 'fulfilled' ? [attempt.value] : []));
      await database.query(
        `update public.orders set expires_at = now(), reserved_until = case when reserved_until is not null then now() end
         where id = any (string_to_array($1, ',')::uuid[])`,
        [
          placed
            .slice(18)
            .map(({ id }) => id)
            .join(','),
        ],
      );
      const work = placed.slice(0, 18).map(async (order, n) => {
        const { payment } = await begin(order);
        await settle(payment, n % 3 === 0 ? { ...failed, source: 'query' } : byQuery);
      });
      const sweeps = Array.from({ length: 4 }, () => expireReservations());
      const others = Array.from({ length: 8 }, (_, n) => {
        network += 1;
        return placeFromNetwork(products[n % 4] as string, network);
      });
      const refusals = refusalsOf([
        ...attempts,
        ...(await Promise.allSettled([...work, ...sweeps, ...others])),
      ]);
      expect(
        refusals.filter((code) => !/out_of_stock|not_enough_stock|order_cancelled/.test(String(code))),
      ).toEqual([]);
    }
    await expectBalancedBooks(database);
  });
});
