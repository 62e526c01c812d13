// Staff manage orders: stock follows the status, and the timeline records who did what.
import { randomBytes, randomInt } from 'node:crypto';
import type { Database } from '@jani-juice/backend/database';
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Database as Types } from '../../types.ts';
import { expectBalancedBooks } from '../payments/balanced-books.ts';
import {
  call,
  everyone,
  expectRefusal,
  initialStock,
  makeProduct,
  openShopDatabase,
  orderForm,
  type Person,
  type PlacedOrder,
  people,
  personIds,
  stockOf,
} from '../shop-database.ts';

type Tables = Types['public']['Tables'];
type Payment = Tables['payments']['Row'];
type OrderEvent = Tables['order_events']['Row'];

describe.each(testDatabases())('on %s', (kind) => {
  let database: Database;
  let product: string;
  let order: PlacedOrder;

  beforeAll(async () => {
    database = await openShopDatabase(kind);
  });
  afterAll(() => database.close());
  beforeEach(async () => {
    product = await makeProduct(database, 5);
    order = await place();
  });
  afterEach(() => expectBalancedBooks(database));

  const place = (quantity = 2) =>
    call<PlacedOrder>(database, 'visitor', 'place_order', {
      ...orderForm(product),
      quantity,
      expected_total: 95_000 * quantity + 100,
    });
  async function prompt(placed = order): Promise<Payment> {
    const { payment } = await call<{ payment: Payment }>(database, 'service', 'begin_payment', {
      order_id: placed.id,
      tracking_number: placed.tracking_number,
      phone: `07${String(randomInt(100_000_000)).padStart(8, '0')}`,
      callback_secret: randomBytes(16).toString('hex'),
    });
    return call<Payment>(database, 'service', 'record_push', {
      payment_id: payment.id,
      body: '{}',
      checkout_request_id: `ws_CO_${randomBytes(8).toString('hex')}`,
    });
  }
  const settle = (payment: Payment, change: Record<string, unknown> = {}) =>
    call<{ outcome: string }>(database, 'service', 'settle_payment', {
      payment_id: payment.id,
      source: 'callback',
      body: '{}',
      result: 'succeeded',
      result_code: '0',
      received_cents: payment.charge_cents,
      receipt: `UKL${randomBytes(4).toString('hex').toUpperCase()}`,
      ...change,
    });
  const failed = { result: 'failed', result_code: '1032', received_cents: null, receipt: null };
  const pay = async (placed = order) => settle(await prompt(placed));
  const expire = () => call<number>(database, 'service', 'expire_reservations');
  const runOut = () =>
    database.query(
      `update public.orders set reserved_until = now() - interval '1 second', expires_at = now() - interval '1 second' where id = $1`,
      [order.id],
    );
  const setStatus = (status: string, person: Person = 'staff', placed = order) =>
    asRole(database, people[person], (session) =>
      session.query('update public.orders set status = $2 where id = $1', [placed.id, status]),
    );
  /** Hands an unpaid order over. */
  const handOver = (status: string) =>
    asRole(database, people.staff, (session) =>
      session.query(
        `select public.set_order_status(id, $2, status, payment_status, although_unpaid => true)
         from public.orders where id = $1`,
        [order.id, status],
      ),
    );
  const decide = (decision: string, person: Person = 'staff') =>
    call(database, person, 'resolve_paid_order', { order_id: order.id, resolution: decision });
  async function state() {
    const { rows } = await database.query(
      `select status, payment_status as money, reserved_until is not null as is_reserved,
              (select count(*)::integer from public.deliveries as d where d.order_id = o.id) as deliveries
       from public.orders as o where id = $1`,
      [order.id],
    );
    return { ...rows[0], stock: await stockOf(database, product) };
  }
  /** A staff member enters the receipt of the order's refund. */
  const sentBack = async () => {
    const { rows } = await database.query<{ id: string }>(
      `select id from public.payments where order_id = $1 and status = 'completed'`,
      [order.id],
    );
    const code = `UKM${randomBytes(4).toString('hex').slice(0, 7).toUpperCase()}`;
    const given = { payment_id: rows[0]?.id, refund_receipt: code, reason: 'Sent by hand' };
    return call(database, 'staff', 'note_refund_by_hand', given);
  };
  /** A late payment for an order whose product is sold out. */
  async function payTooLate() {
    const payment = await prompt();
    await settle(payment, failed);
    await runOut();
    await expire();
    const other = await place(4);
    expect((await settle(payment)).outcome).toBe('paid_needs_review');
    return other;
  }
  async function timeline(placed = order) {
    const { rows } = await asRole(database, people.staff, (session) =>
      session.query<OrderEvent>('select * from public.order_events where order_id = $1 order by id', [
        placed.id,
      ]),
    );
    return rows;
  }
  const timelineLines = async () =>
    (await timeline()).map(({ kind, actor, details }) => {
      const { from, to } = details as Record<string, string>;
      return `${actor}: ${kind}${to ? ` ${from} > ${to}` : ''}`;
    });

  describe('the stock', () => {
    test('of an unpaid order that is cancelled and reopened before its release stays reserved', async () => {
      await setStatus('cancelled');
      await setStatus('pending');
      expect(await expire()).toBe(0);
      expect(await state()).toMatchObject({ status: 'pending', is_reserved: true, stock: 3 });
    });

    test('of an unpaid order is released once and reserved once after repeated cancelling and reopening', async () => {
      for (let round = 0; round < 3; round += 1) {
        await setStatus('cancelled');
        await expire();
        await expire();
        expect(await state()).toMatchObject({ status: 'cancelled', is_reserved: false, stock: 5 });
        await setStatus('processing');
        await handOver('shipped');
        expect(await state()).toMatchObject({ status: 'shipped', is_reserved: true, stock: 3 });
        await expectBalancedBooks(database);
      }
      await pay();
      expect(await state()).toMatchObject({ status: 'shipped', money: 'paid', is_reserved: false, stock: 3 });
    });

    test('of a reopened unpaid order is released again', async () => {
      await setStatus('cancelled');
      await expire();
      await setStatus('pending');
      await runOut();
      expect(await expire()).toBe(1);
      expect(await state()).toMatchObject({ status: 'cancelled', stock: 5 });
    });

    test('of a cancelled paid order is released immediately, and reserved again when reopened', async () => {
      await pay();
      for (let round = 0; round < 3; round += 1) {
        await setStatus('cancelled');
        await setStatus('cancelled');
        expect(await expire()).toBe(0);
        expect(await state()).toMatchObject({ status: 'cancelled', money: 'paid', stock: 5 });
        await setStatus('processing');
        expect(await state()).toMatchObject({ status: 'processing', money: 'paid', stock: 3 });
      }
    });

    test.each(['shipped', 'out_for_delivery', 'delivered'])(
      'of a paid order that is %s is not released automatically',
      async (status) => {
        await pay();
        await setStatus(status);
        await setStatus('cancelled');
        expect((await state()).stock).toBe(3);
        await setStatus(status);
        expect((await state()).stock).toBe(3);
      },
    );

    test('that is sold out keeps the order cancelled, and never becomes negative', async () => {
      await pay();
      await setStatus('cancelled');
      await place(4);
      await expectRefusal(setStatus('processing'), 409, 'units_sold');
      expect(await state()).toMatchObject({ status: 'cancelled', money: 'paid', stock: 1 });
    });

    test('of a deleted product does not block reopening its order', async () => {
      await setStatus('cancelled');
      await expire();
      await database.query('delete from public.products where id = $1', [product]);
      initialStock(database).delete(product);
      await setStatus('processing');
      expect(await state()).toMatchObject({ status: 'processing' });
    });

    test('does not change with other status changes', async () => {
      for (const status of ['processing', 'shipped', 'delivered', 'pending', 'out_for_delivery']) {
        await handOver(status);
        expect((await state()).stock).toBe(3);
      }
    });
  });

  describe.skipIf(kind === 'pglite')('at the same time', () => {
    test('is correct after concurrent cancelling, reopening, paying and expiry, without deadlocks', async () => {
      for (let round = 0; round < 10; round += 1) {
        order = await place(1);
        const payment = await prompt();
        if (round % 2 === 0) await settle(payment, failed);
        const again = { receipt: `UKL${randomBytes(4).toString('hex')}` };
        await Promise.all([
          setStatus('cancelled'),
          settle(payment, again),
          expire(),
          setStatus('processing'),
          settle(payment, again),
          setStatus('cancelled'),
          expire(),
        ]);
        expect(await state()).toMatchObject({ money: 'paid' });
        await expectBalancedBooks(database);
        // The next round needs the stock again.
        await setStatus('processing');
        await setStatus('cancelled');
      }
    });

    test('the timeline contains both the answer to a push and its settlement', async () => {
      for (let round = 0; round < 20; round += 1) {
        const placed = await call<PlacedOrder>(database, 'visitor', 'place_order', {
          ...orderForm(product),
          expected_total: 95_100,
        });
        const payment = await prompt(placed);
        const push = { payment_id: payment.id, body: '{}' };
        await Promise.all([
          call(database, 'service', 'record_push', push),
          settle(payment, failed),
          call(database, 'service', 'record_push', push),
          settle(payment, failed),
        ]);
        expect((await timeline(placed)).map((event) => event.kind)).toEqual([
          'order_placed',
          'payment_prompted',
          'payment_failed',
        ]);
        await setStatus('cancelled', 'staff', placed);
        await expire();
      }
    });
  });

  describe('a resolution of a payment in review', () => {
    test('delivers an order only when there is stock again', async () => {
      await payTooLate();
      await expectRefusal(decide('deliver'), 409, 'units_sold');
      expect(await state()).toMatchObject({ money: 'needs_review', deliveries: 0, stock: 1 });
      await database.query('update public.products set stock_quantity = stock_quantity + 5 where id = $1', [
        product,
      ]);
      initialStock(database).set(product, 10);
      await decide('deliver');
      expect(await state()).toMatchObject({ status: 'processing', money: 'paid', deliveries: 1, stock: 4 });
      await expectRefusal(decide('deliver'), 409, 'nothing_to_resolve');
    });

    test('as refunded requires the receipt of the refund', async () => {
      await payTooLate();
      await expectRefusal(decide('refunded'), 409, 'refund_by_receipt');
      await sentBack();
      expect(await state()).toMatchObject({
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
      await pay();
      await expectRefusal(decide('refunded'), 409, 'nothing_to_resolve');
      await expectRefusal(sentBack(), 409, 'nothing_to_send_back');
      await setStatus('cancelled');
      await expectRefusal(decide('refunded'), 409, 'refund_by_receipt');
      await sentBack();
      expect(await state()).toMatchObject({ status: 'cancelled', money: 'refunded', stock: 5 });
    });

    test('is for staff only, and for an existing order', async () => {
      await payTooLate();
      for (const person of ['customer', 'former staff', 'half-way staff'] as const) {
        await expectRefusal(decide('refunded', person), 403, 'staff_only');
      }
      const unknown = { order_id: personIds.staff, resolution: 'refunded' };
      await expectRefusal(call(database, 'staff', 'resolve_paid_order', unknown), 404, 'order_not_found');
      await expectRefusal(decide('refunded', 'service'), 409, 'refund_by_receipt');
    });
  });

  describe('the timeline', () => {
    test('records an order from placing to delivery: who, what, when', async () => {
      const payment = await prompt();
      await settle(payment, { ...failed, result_description: 'Request cancelled by user' });
      await settle(await prompt(), { receipt: 'UKL7654321' });
      const deliver = (set: string) =>
        asRole(database, people.staff, (session) =>
          session.query(`update public.deliveries set ${set} where order_id = $1`, [order.id]),
        );
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
      await runOut();
      await expire();
      await setStatus('processing');
      expect(await timelineLines()).toEqual([
        'customer: order_placed',
        'shop: status_changed pending > cancelled',
        'shop: units_returned',
        'staff: status_changed cancelled > processing',
        'staff: units_taken',
      ]);
      expect((await timeline())[1]?.details).toMatchObject({ reason: 'not_paid_in_time' });
    });

    test('records double payments, wrong amounts and missing answers', async () => {
      const first = await prompt();
      await settle(first, failed);
      const second = await prompt();
      await settle(second);
      await settle(first);
      const last = (await timeline()).at(-1);
      expect(last).toMatchObject({ kind: 'payment_completed', details: { needs_refund: true } });

      order = await place(1);
      await settle(await prompt(), { received_cents: 100 });
      expect((await timeline()).at(-1)).toMatchObject({ kind: 'payment_in_review', actor: 'mpesa' });

      order = await place(1);
      const lost = await prompt();
      await database.query(
        `update public.payments set created_at = now() - interval '2 days' where id = $1`,
        [lost.id],
      );
      await database.query(`delete from private.rate_limits where bucket = 'payment_queries'`);
      await asRole(database, people.service, (session) =>
        session.query('select public.lease_payment_queries()'),
      );
      expect((await timeline()).at(-1)).toMatchObject({ kind: 'payment_unresolved', actor: 'shop' });
    });

    test('records a receipt that arrives after the payment', async () => {
      const payment = await prompt();
      await settle(payment, { source: 'query', received_cents: null, receipt: null });
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
      await asRole(database, { role: 'authenticated', sub: id }, (session) =>
        session.query(`update public.orders set status = 'processing' where id = $1`, [order.id]),
      );
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
          await expect(
            asRole(database, people[person], (session) => session.query(statement)),
          ).rejects.toMatchObject({ code: '42501' });
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
