// Staff manage orders: stock follows the status, and the timeline records who did what.
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Database as Types } from '../../types.ts';
import { expectBalancedBooks } from '../payments/books/balanced-books.ts';
import {
  everyone,
  expectRefusal,
  initialStock,
  makeProduct,
  type Person,
  type PlacedOrder,
  people,
  personIds,
} from '../shop-database.ts';
import { byQuery, failed, newReceipt, setUpShop } from '../steps.ts';

type OrderEvent = Types['public']['Tables']['order_events']['Row'];

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, callAs, asStaff, asService, queryAs, readValue, place, expireReservations } = shop;
  const { expire, setStatus, handOver, stateOf, recordPush, prompt, settle, pay, noteRefundByHand } = shop;
  let product: string;
  let order: PlacedOrder;

  beforeEach(async () => {
    product = await makeProduct(database, 5);
    order = await place(product, { quantity: 2 });
  });
  afterEach(() => expectBalancedBooks(database));

  const decide = (resolution: string, by: Person = 'staff') =>
    callAs(by, 'resolve_paid_order', { order_id: order.id, resolution });
  /** A staff member enters the receipt of the order's refund. */
  const sentBack = async () => {
    const id = await readValue(
      `select id from public.payments where order_id = $1 and status = 'completed'`,
      [order.id],
    );
    return noteRefundByHand({ id: id ?? '' });
  };
  /** A late payment for an order whose product is sold out. */
  async function payTooLate(): Promise<void> {
    const payment = await prompt(order);
    await settle(payment, failed);
    await expire(order);
    await place(product, { quantity: 4 });
    expect((await settle(payment)).outcome).toBe('paid_needs_review');
  }
  const timeline = async (placed = order) =>
    (
      await queryAs<OrderEvent>(
        'staff',
        'select * from public.order_events where order_id = $1 order by id',
        [placed.id],
      )
    ).rows;
  const timelineLines = async () =>
    (await timeline()).map(({ kind, actor, details }) => {
      const { from, to } = details as Record<string, string>;
      return `${actor}: ${kind}${to ? ` ${from} > ${to}` : ''}`;
    });

  describe('the stock', () => {
    test('of an unpaid order that is cancelled and reopened before its release stays reserved', async () => {
      await setStatus(order, 'cancelled');
      await setStatus(order, 'pending');
      expect(await expireReservations()).toBe(0);
      expect(await stateOf(order)).toMatchObject({ status: 'pending', is_reserved: true, stock: 3 });
    });

    test('of an unpaid order is released once and reserved once after repeated cancelling and reopening', async () => {
      for (let round = 0; round < 3; round += 1) {
        await setStatus(order, 'cancelled');
        await expireReservations();
        await expireReservations();
        expect(await stateOf(order)).toMatchObject({ status: 'cancelled', is_reserved: false, stock: 5 });
        await setStatus(order, 'processing');
        await handOver(order, 'shipped');
        expect(await stateOf(order)).toMatchObject({ status: 'shipped', is_reserved: true, stock: 3 });
        await expectBalancedBooks(database);
      }
      await pay(order);
      expect(await stateOf(order)).toMatchObject({
        status: 'shipped',
        money: 'paid',
        is_reserved: false,
        stock: 3,
      });
    });

    test('of a reopened unpaid order is released again', async () => {
      await setStatus(order, 'cancelled');
      await expireReservations();
      await setStatus(order, 'pending');
      expect(await expire(order)).toBe(1);
      expect(await stateOf(order)).toMatchObject({ status: 'cancelled', stock: 5 });
    });

    test('of a cancelled paid order is released immediately, and reserved again when reopened', async () => {
      await pay(order);
      for (let round = 0; round < 3; round += 1) {
        await setStatus(order, 'cancelled');
        await setStatus(order, 'cancelled');
        expect(await expireReservations()).toBe(0);
        expect(await stateOf(order)).toMatchObject({ status: 'cancelled', money: 'paid', stock: 5 });
        await setStatus(order, 'processing');
        expect(await stateOf(order)).toMatchObject({ status: 'processing', money: 'paid', stock: 3 });
      }
    });

    test.each(['shipped', 'out_for_delivery', 'delivered'])(
      'of a paid order that is %s is not released automatically',
      async (status) => {
        await pay(order);
        await setStatus(order, status);
        await setStatus(order, 'cancelled');
        expect((await stateOf(order)).stock).toBe(3);
        await setStatus(order, status);
        expect((await stateOf(order)).stock).toBe(3);
      },
    );

    test('that is sold out keeps the order cancelled, and never becomes negative', async () => {
      await pay(order);
      await setStatus(order, 'cancelled');
      await place(product, { quantity: 4 });
      await expectRefusal(setStatus(order, 'processing'), 409, 'units_sold');
      expect(await stateOf(order)).toMatchObject({ status: 'cancelled', money: 'paid', stock: 1 });
    });

    test('of a deleted product does not block reopening its order', async () => {
      await setStatus(order, 'cancelled');
      await expireReservations();
      await database.query('delete from public.products where id = $1', [product]);
      initialStock(database).delete(product);
      await setStatus(order, 'processing');
      expect(await stateOf(order)).toMatchObject({ status: 'processing' });
    });

    test('does not change with other status changes', async () => {
      for (const status of ['processing', 'shipped', 'delivered', 'pending', 'out_for_delivery']) {
        await handOver(order, status);
        expect((await stateOf(order)).stock).toBe(3);
      }
    });
  });

  describe.skipIf(kind === 'pglite')('at the same time', () => {
    test('is correct after concurrent cancelling, reopening, paying and expiry, without deadlocks', async () => {
      for (let round = 0; round < 10; round += 1) {
        order = await place(product);
        const payment = await prompt(order);
        if (round % 2 === 0) await settle(payment, failed);
        const again = { receipt: newReceipt() };
        await Promise.all([
          setStatus(order, 'cancelled'),
          settle(payment, again),
          expireReservations(),
          setStatus(order, 'processing'),
          settle(payment, again),
          setStatus(order, 'cancelled'),
          expireReservations(),
        ]);
        expect(await stateOf(order)).toMatchObject({ money: 'paid' });
        await expectBalancedBooks(database);
        // The next round needs the stock again.
        await setStatus(order, 'processing');
        await setStatus(order, 'cancelled');
      }
    });

    test('the timeline contains both the answer to a push and its settlement', async () => {
      for (let round = 0; round < 20; round += 1) {
        const placed = await place(product);
        const payment = await prompt(placed);
        await Promise.all([
          recordPush(payment, {}),
          settle(payment, failed),
          recordPush(payment, {}),
          settle(payment, failed),
        ]);
        expect((await timeline(placed)).map((event) => event.kind)).toEqual([
          'order_placed',
          'payment_prompted',
          'payment_failed',
        ]);
        await setStatus(placed, 'cancelled');
        await expireReservations();
      }
    });
  });

  describe('a resolution of a payment in review', () => {
    test('delivers an order only when there is stock again', async () => {
      await payTooLate();
      await expectRefusal(decide('deliver'), 409, 'units_sold');
      expect(await stateOf(order)).toMatchObject({ money: 'needs_review', deliveries: 0, stock: 1 });
      await database.query('update public.products set stock_quantity = stock_quantity + 5 where id = $1', [
        product,
      ]);
      initialStock(database).set(product, 10);
      await decide('deliver');
      expect(await stateOf(order)).toMatchObject({
        status: 'processing',
        money: 'paid',
        deliveries: 1,
        stock: 4,
      });
      await expectRefusal(decide('deliver'), 409, 'nothing_to_resolve');
    });

    test('as refunded requires the receipt of the refund', async () => {
      await payTooLate();
      await expectRefusal(decide('refunded'), 409, 'refund_by_receipt');
      await sentBack();
      expect(await stateOf(order)).toMatchObject({
        status: 'cancelled',
        money: 'refunded',
        deliveries: 0,
        stock: 1,
      });
      await expectRefusal(decide('refunded'), 409, 'nothing_to_resolve');
      expect((await timelineLines()).at(-1)).toBe('staff: payment_status_changed needs_review > refunded');
    });

    test('as refunded applies to an order cancelled after payment, and to no other', async () => {
      await expectRefusal(decide('refunded'), 409, 'nothing_to_resolve');
      await pay(order);
      await expectRefusal(decide('refunded'), 409, 'nothing_to_resolve');
      await expectRefusal(sentBack(), 409, 'nothing_to_send_back');
      await setStatus(order, 'cancelled');
      await expectRefusal(decide('refunded'), 409, 'refund_by_receipt');
      await sentBack();
      expect(await stateOf(order)).toMatchObject({ status: 'cancelled', money: 'refunded', stock: 5 });
    });

    test('is for staff only, and for an existing order', async () => {
      await payTooLate();
      for (const person of ['customer', 'former staff', 'half-way staff'] as const) {
        await expectRefusal(decide('refunded', person), 403, 'staff_only');
      }
      const unknown = { order_id: personIds.staff, resolution: 'refunded' };
      await expectRefusal(asStaff('resolve_paid_order', unknown), 404, 'order_not_found');
      await expectRefusal(decide('refunded', 'service'), 409, 'refund_by_receipt');
    });
  });

  describe('the timeline', () => {
    test('records an order from placing to delivery: who, what, when', async () => {
      const payment = await prompt(order);
      await settle(payment, { ...failed, result_description: 'Request cancelled by user' });
      await settle(await prompt(order), { receipt: 'UKL7654321' });
      const deliver = (set: string) =>
        queryAs('staff', `update public.deliveries set ${set} where order_id = $1`, [order.id]);
      await deliver(
        `delivery_person = 'Otieno', delivery_phone = '0722000111', delivery_vehicle = 'Motorbike', delivery_status = 'assigned'`,
      );
      await deliver(`delivery_person = 'Njeri'`);
      await deliver(`delivery_status = 'picked_up'`);
      await deliver(`delivery_status = 'delivered'`);

      expect(await timelineLines()).toEqual([
        'customer: order_placed',
        'customer: payment_prompted',
        'mpesa: payment_failed',
        'customer: payment_prompted',
        'mpesa: payment_completed',
        'mpesa: payment_status_changed unpaid > paid',
        'shop: status_changed pending > processing',
        'shop: delivery_made',
        'staff: delivery_assigned',
        'staff: delivery_assigned',
        'staff: delivery_status_changed assigned > picked_up',
        'staff: status_changed processing > out_for_delivery',
        'staff: delivery_status_changed picked_up > delivered',
        'staff: status_changed out_for_delivery > delivered',
      ]);
      const events = await timeline();
      expect(events[0]?.details).toEqual({ total_amount: 190_100 });
      expect(events[2]?.details).toMatchObject({
        payment_id: payment.id,
        charge_cents: 190_100,
        result_code: '1032',
        result_description: 'Request cancelled by user',
      });
      expect(events[4]?.details).toMatchObject({ receipt: 'UKL7654321' });
      expect(events[6]?.details).toMatchObject({ reason: 'paid' });
      expect(events[8]).toMatchObject({
        actor_id: personIds.staff,
        actor_email: 'staff@jani.example',
        details: { person: 'Otieno', phone: '0722000111', vehicle: 'Motorbike' },
      });
      expect(events[9]?.details).toMatchObject({ person: 'Njeri', instead_of: 'Otieno' });
      expect(events[11]?.details).toMatchObject({ reason: 'delivery' });
      const times = events.map((event) => Date.parse(event.happened_at));
      expect(times).toEqual([...times].sort((a, b) => a - b));
    });

    test('records automatic changes and stock', async () => {
      await expire(order);
      await setStatus(order, 'processing');
      expect(await timelineLines()).toEqual([
        'customer: order_placed',
        'shop: status_changed pending > cancelled',
        'shop: units_returned',
        'staff: status_changed cancelled > processing',
        'staff: units_taken',
      ]);
      expect((await timeline())[1]?.details).toMatchObject({ reason: 'not_paid_in_time' });
    });

    test('records second payments, wrong amounts and missing answers', async () => {
      const first = await prompt(order);
      await settle(first, failed);
      const second = await prompt(order);
      await settle(second);
      await settle(first);
      const last = (await timeline()).at(-1);
      expect(last).toMatchObject({ kind: 'payment_completed', details: { needs_refund: true } });

      order = await place(product);
      await settle(await prompt(order), { received_cents: 100 });
      expect((await timeline()).at(-1)).toMatchObject({ kind: 'payment_in_review', actor: 'mpesa' });

      order = await place(product);
      const lost = await prompt(order);
      await database.query(
        `update public.payments set created_at = now() - interval '2 days' where id = $1`,
        [lost.id],
      );
      await database.query(`delete from private.rate_limits where bucket = 'payment_queries'`);
      await asService('lease_payment_queries');
      expect((await timeline()).at(-1)).toMatchObject({ kind: 'payment_unresolved', actor: 'shop' });
    });

    test('records a receipt that arrives after the payment', async () => {
      const payment = await prompt(order);
      await settle(payment, byQuery);
      await settle(payment, { receipt: 'UKLLATE777' });
      await settle(payment, { receipt: 'UKLLATE777' });
      expect((await timeline()).filter((event) => event.kind === 'payment_receipt_known')).toEqual([
        expect.objectContaining({ details: expect.objectContaining({ receipt: 'UKLLATE777' }) }),
      ]);
    });

    test('contains nothing of a rolled back change', async () => {
      await asRole(database, people.staff, async (session) => {
        await session.query(`update public.orders set status = 'processing' where id = $1`, [order.id]);
        throw new Error('rolled back');
      }).catch(() => {});
      expect(await timelineLines()).toEqual(['customer: order_placed']);
    });

    test('keeps the name of a former staff member', async () => {
      const id = '5a000000-0000-4000-8000-0000000000ff';
      await database.query(`insert into auth.users (id, email) values ($1, 'leaving@jani.example')`, [id]);
      await database.query('insert into public.admin_profiles (user_id) values ($1)', [id]);
      await setStatus(order, 'processing', { role: 'authenticated', sub: id });
      await database.query('delete from auth.users where id = $1', [id]);
      expect((await timeline()).at(-1)).toMatchObject({
        actor: 'staff',
        actor_id: id,
        actor_email: 'leaving@jani.example',
      });
    });

    test('cannot be changed, even by the owner of the database', async () => {
      const before = await timeline();
      for (const statement of [
        `update public.order_events set actor = 'shop'`,
        'delete from public.order_events',
        'truncate public.order_events',
      ]) {
        await expect(database.query(statement)).rejects.toMatchObject({ code: '42501' });
        for (const person of everyone) {
          await expect(queryAs(person, statement)).rejects.toMatchObject({ code: '42501' });
        }
      }
      expect(await timeline()).toEqual(before);
    });

    test('is deleted with its order', async () => {
      await database.query('delete from public.orders where id = $1', [order.id]);
      expect(await timeline()).toEqual([]);
      // Deleting an order does not release its stock; the operator must do that.
      initialStock(database).delete(product);
    });
  });
});
