// Customers cancel their orders: unpaid ones at once, paid ones by a request that staff answer.
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { expectBalancedBooks } from '../payments/books/balanced-books.ts';
import {
  type Caller,
  expectRefusal,
  makeProduct,
  type PlacedOrder,
  secondStepPassed,
} from '../shop-database.ts';
import { concurrently, failed, newReceipt, settleAll, setUpShop } from '../steps.ts';

type Facts = Record<string, unknown>;
const rider = { delivery_person: 'Brian', delivery_phone: '0722000111', delivery_vehicle: 'Motorbike' };

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, asVisitor, asStaff, asService, callAs, readRow, readRows, readColumn, readValue } = shop;
  const { place, pay, prompt, settle, stateOf, eventsOf, trackAsCustomer, track, setStatus } = shop;
  let product: string;
  beforeEach(async () => {
    await database.execute('delete from private.rate_limits; delete from private.order_networks');
    product = await makeProduct(database, 10);
  });

  const cancel = (
    order: PlacedOrder,
    expected_payment_status: 'unpaid' | 'paid' = 'unpaid',
    given: Facts = {},
    address?: string,
  ) =>
    asVisitor<Facts>(
      'cancel_own_order',
      {
        tracking_number: order.tracking_number,
        access_key: order.access_key,
        expected_payment_status,
        ...given,
      },
      address,
    );
  const keep = (order: PlacedOrder) =>
    asVisitor<Facts>('keep_own_order', {
      tracking_number: order.tracking_number,
      access_key: order.access_key,
    });
  const grant = (order: PlacedOrder, given: Facts = {}, by: Caller = 'staff') =>
    callAs<string>(by, 'grant_cancel_request', { order_id: order.id, ...given });
  const decline = (order: PlacedOrder, reason = 'The rider is at your door', by: Caller = 'staff') =>
    callAs(by, 'decline_cancel_request', { order_id: order.id, reason });
  const paidOrder = async (quantity = 1) => {
    const order = await place(product, { quantity, expected_total: quantity * 95_000 + 100 });
    await pay(order);
    return order;
  };
  const requested = async (quantity = 1) => {
    const order = await paidOrder(quantity);
    await cancel(order, 'paid');
    return order;
  };
  const moveOn = async ({ id }: PlacedOrder, step: string, given: Facts = {}) => {
    const delivery = await readRow<{ id: string; step: string }>(
      `select d.id, private.work_step(o, d) as step from public.deliveries as d join public.orders as o on o.id = d.order_id where o.id = $1`,
      [id],
    );
    return asStaff<{ change_id: string }>('move_on', {
      delivery_id: delivery?.id,
      expected_step: delivery?.step,
      step,
      ...given,
    });
  };
  const messagesOf = ({ id }: PlacedOrder) =>
    readColumn(
      `select kind || ' ' || channel from public.outbox_messages where order_id = $1 and kind in ('order_cancelled', 'order_expired', 'order_payment_held')
       order by 1`,
      [id],
    );
  const reasonOf = ({ id }: PlacedOrder) =>
    readValue('select cancel_reason from public.orders where id = $1', [id]);

  describe('an unpaid order', () => {
    test('ends at once, and its units return', async () => {
      const order = await place(product, { quantity: 3, expected_total: 285_100 });
      expect(await trackAsCustomer(order)).toMatchObject({ way_to_cancel: 'at_once' });
      expect(await cancel(order)).toMatchObject({ status: 'cancelled', cancelled_because: 'by_customer' });
      expect(await stateOf(order)).toMatchObject({
        status: 'cancelled',
        money: 'unpaid',
        is_reserved: false,
        stock: 10,
      });
      expect(
        await readValue(
          'select coalesce(sum(quantity), 0)::integer from private.held_units where product_id = $1',
          [product],
        ),
      ).toBe(0);
      expect((await eventsOf(order)).slice(1).sort()).toEqual([
        'customer status_changed',
        'shop units_returned',
      ]);
      expect(await trackAsCustomer(order)).not.toHaveProperty('way_to_cancel');
      // Without a prompt the order may have a stranger's address.
      expect(await messagesOf(order)).toEqual([]);
      expect(await shop.expireReservations()).toBe(0);
      expect(await cancel(order), 'repeated').toMatchObject({ status: 'cancelled' });
      expect(await stateOf(order)).toMatchObject({ stock: 10 });
    });

    test('gets a mail where a prompt went to its phone, and no text', async () => {
      const order = await place(product);
      await settle(await prompt(order), failed);
      await cancel(order);
      expect(await messagesOf(order)).toEqual(['order_cancelled mail']);
    });

    test.each(['paid', 'failed'])(
      'whose prompt is %s when it was just cancelled keeps no money',
      async (end) => {
        const order = await place(product);
        const payment = await prompt(order);
        await cancel(order);
        expect(await trackAsCustomer(order)).toMatchObject({
          status: 'cancelled',
          payment_check: 'prompted',
        });
        if (end === 'failed') {
          await settle(payment, failed);
          expect(await stateOf(order)).toMatchObject({ status: 'cancelled', money: 'unpaid', stock: 10 });
          return;
        }
        expect(await settle(payment)).toMatchObject({ outcome: 'paid_needs_review' });
        expect(await stateOf(order)).toMatchObject({
          status: 'cancelled',
          money: 'needs_review',
          deliveries: 0,
          stock: 10,
          payments: ['prompt completed'],
        });
        expect(await reasonOf(order)).toBe('by_customer');
        expect(await trackAsCustomer(order)).toMatchObject({
          cancelled_because: 'by_customer',
          paid_cents: 95_100,
        });
        expect(await messagesOf(order)).toEqual([
          'order_cancelled mail',
          'order_payment_held mail',
          'order_payment_held text',
        ]);
        // Staff find it among the orders to decide about, and send it back.
        const refund = await shop.requestRefund({ id: payment.id });
        await shop.completeRefund(refund);
        expect(await stateOf(order)).toMatchObject({ status: 'cancelled', money: 'refunded', stock: 10 });
        await expectBalancedBooks(database);
      },
    );

    test('whose money came after all is delivered only once staff say so', async () => {
      const order = await place(product);
      const payment = await prompt(order);
      await cancel(order);
      await settle(payment);
      await asStaff('resolve_review', { order_id: order.id, decision: 'deliver', seen_cents: 95_100 });
      expect(await stateOf(order)).toMatchObject({
        status: 'processing',
        money: 'paid',
        deliveries: 1,
        stock: 9,
      });
      expect(await reasonOf(order)).toBeNull();
    });

    test('keeps money to the till under its number for staff, too', async () => {
      const order = await place(product);
      await cancel(order);
      const receipt = newReceipt();
      await shop.receive(order, receipt);
      expect(await stateOf(order)).toMatchObject({ status: 'cancelled', money: 'needs_review', stock: 10 });
      await shop.completeRefund(await shop.requestRefund(await shop.paymentOf(receipt)));
      expect(await stateOf(order)).toMatchObject({ money: 'refunded' });
    });

    test('is paid or cancelled, never both, when both happen at once', async () => {
      const order = await place(product);
      const payment = await prompt(order);
      const [cancelled] = await Promise.allSettled([cancel(order), settle(payment)]);
      const state = await stateOf(order);
      expect([state.status, state.money, state.stock]).toEqual(
        cancelled.status === 'fulfilled' ? ['cancelled', 'needs_review', 10] : ['processing', 'paid', 9],
      );
      await expectBalancedBooks(database);
    });

    test('returns its units once, however often it is cancelled at once', async () => {
      const order = await place(product);
      await concurrently(4, () => cancel(order));
      expect(await stateOf(order)).toMatchObject({ status: 'cancelled', stock: 10 });
    });

    test('that is to be paid in cash ends until someone prepares it', async () => {
      const order = await place(product);
      await asStaff('agree_cash', { order_id: order.id });
      expect(await trackAsCustomer(order)).toMatchObject({ way_to_cancel: 'at_once' });
      await moveOn(order, 'preparing');
      expect(await trackAsCustomer(order)).not.toHaveProperty('way_to_cancel');
      await expectRefusal(cancel(order), 409, 'cancel_too_late');
      await moveOn(order, 'prepare');
      await cancel(order);
      expect(await stateOf(order)).toMatchObject({
        status: 'cancelled',
        money: 'unpaid',
        is_reserved: false,
        stock: 10,
      });
      expect(
        await readValue('select delivery_status from public.deliveries where order_id = $1', [order.id]),
      ).toBe('failed');
    });

    test('that staff have begun to prepare is cancelled by staff', async () => {
      const order = await place(product);
      await shop.handOver(order, 'processing');
      await expectRefusal(cancel(order), 409, 'cancel_too_late');
    });

    test('is reopened by staff as after their own cancellation', async () => {
      const order = await place(product);
      await cancel(order);
      await setStatus(order, 'pending');
      expect(await stateOf(order)).toMatchObject({ status: 'pending', is_reserved: true, stock: 9 });
      await pay(order);
      expect(await stateOf(order)).toMatchObject({ status: 'processing', money: 'paid', stock: 9 });
    });
  });

  describe('a paid order', () => {
    test('stays as it is until staff answer, and no step moves it on', async () => {
      const toCancel = async () => (await asStaff<{ to_cancel: number }>('count_work')).to_cancel;
      const before = await toCancel();
      const order = await paidOrder();
      expect(await trackAsCustomer(order)).toMatchObject({ way_to_cancel: 'by_request' });
      expect(await cancel(order, 'paid')).toMatchObject({ status: 'processing', cancel_requested: true });
      expect(await stateOf(order)).toMatchObject({
        status: 'processing',
        money: 'paid',
        stock: 9,
        refunds: [],
      });
      expect(await toCancel()).toBe(before + 1);
      // Everyone with the tracking number sees it, and staff get a notice.
      expect(await track(order)).toMatchObject({ cancel_requested: true });
      expect(
        await readColumn('select kind from public.notices where order_id = $1 order by 1', [order.id]),
      ).toContain('cancel_request');
      expect((await eventsOf(order)).at(-1)).toBe('customer cancel_requested');

      await expectRefusal(moveOn(order, 'preparing'), 409, 'cancel_requested');
      await expectRefusal(moveOn(order, 'ready'), 409, 'cancel_requested');
      await expectRefusal(moveOn(order, 'on_the_way', rider), 409, 'cancel_requested');
      await expectRefusal(setStatus(order, 'shipped'), 409, 'cancel_requested');
      await expectRefusal(shop.handOver(order, 'delivered'), 409, 'cancel_requested');
      await expectRefusal(
        shop.queryAs(
          'staff',
          `update public.deliveries set delivery_status = 'picked_up' where order_id = $1`,
          [order.id],
        ),
        409,
        'cancel_requested',
      );
      expect(await cancel(order, 'paid'), 'repeated').toMatchObject({ cancel_requested: true });
      expect((await eventsOf(order)).filter((event) => event === 'customer cancel_requested')).toHaveLength(
        1,
      );
    });

    test('is cancelled and refunded by one call of staff', async () => {
      const order = await requested();
      expect(await grant(order)).toBe('sent');
      expect(await stateOf(order)).toMatchObject({
        status: 'cancelled',
        money: 'paid',
        stock: 10,
        refunds: ['reversal approved'],
      });
      expect(await reasonOf(order)).toBe('by_customer');
      expect(await trackAsCustomer(order)).toMatchObject({
        is_refunding: true,
        cancelled_because: 'by_customer',
      });
      expect(await messagesOf(order)).toEqual(['order_cancelled mail', 'order_cancelled text']);
      const refund = await readRow<{ id: string }>(
        'select r.id from public.refunds as r join public.payments as p on p.id = r.payment_id where p.order_id = $1',
        [order.id],
      );
      await shop.completeRefund(refund as { id: string });
      expect(await stateOf(order)).toMatchObject({ status: 'cancelled', money: 'refunded', stock: 10 });
      await expectRefusal(grant(order), 409, 'cancel_answered');
      await expectBalancedBooks(database);
    });

    test('above the limit waits for the approval of a second owner', async () => {
      const order = await requested(2);
      expect(await grant(order, {}, 'assistant')).toBe('needs_approval');
      expect(await stateOf(order)).toMatchObject({ status: 'cancelled', refunds: ['reversal requested'] });
      const id = await readValue(
        'select r.id from public.refunds as r join public.payments as p on p.id = r.payment_id where p.order_id = $1',
        [order.id],
      );
      await expectRefusal(shop.approveRefund({ id: id as string }, 'assistant'), 403, 'not_in_role');
      await shop.approveRefund({ id: id as string }, secondStepPassed);
      expect(await stateOf(order)).toMatchObject({ refunds: ['reversal approved'] });
    });

    test.each([
      ['cash', { sends_back: true }],
      ['M-PESA where nothing can be reversed', { sends_back: false }],
    ])('of %s is cancelled, and its refund stays due', async (way, given) => {
      const order = await place(product);
      if (way === 'cash')
        await asStaff('receive_cash', { order_id: order.id, received_cents: order.charge_cents });
      else await pay(order);
      await cancel(order, 'paid');
      expect(await grant(order, given)).toBe('left');
      expect(await stateOf(order)).toMatchObject({
        status: 'cancelled',
        money: 'paid',
        stock: 10,
        refunds: [],
      });
      const payment = await readValue('select id from public.payments where order_id = $1', [order.id]);
      if (way === 'cash') await asStaff('give_back_cash', { payment_id: payment, reason: 'Cancelled' });
      else await shop.noteRefundByHand({ id: payment as string });
      expect(await stateOf(order)).toMatchObject({ money: 'refunded' });
    });

    test('whose request staff decline goes on, and its customer reads why', async () => {
      const order = await requested();
      await expectRefusal(decline(order, 'x'), 400, 'reason_invalid');
      await decline(order, '  It is on the motorbike  ');
      expect(await trackAsCustomer(order)).toMatchObject({
        cancel_answer: 'It is on the motorbike',
        status: 'processing',
      });
      for (const name of ['cancel_answer', 'cancel_requested', 'way_to_cancel']) {
        expect(await track(order)).not.toHaveProperty(name);
      }
      expect((await eventsOf(order)).at(-1)).toBe('staff cancel_declined');
      await expectRefusal(cancel(order, 'paid'), 409, 'cancel_too_late');
      await expectRefusal(grant(order), 409, 'cancel_answered');
      await moveOn(order, 'preparing');
      await moveOn(order, 'on_the_way', rider);
      await moveOn(order, 'delivered');
      expect(await trackAsCustomer(order)).not.toHaveProperty('cancel_answer');
    });

    test('is kept by its customer, who may ask again', async () => {
      const order = await requested();
      expect(await keep(order)).toMatchObject({ way_to_cancel: 'by_request' });
      expect(await keep(order), 'repeated').not.toHaveProperty('cancel_requested');
      await expectRefusal(grant(order), 409, 'cancel_answered');
      await expectRefusal(decline(order), 409, 'cancel_answered');
      expect((await eventsOf(order)).at(-1)).toBe('customer cancel_withdrawn');
      expect(await cancel(order, 'paid')).toMatchObject({ cancel_requested: true });
      await grant(order);
      await expectRefusal(keep(order), 409, 'order_cancelled');
    });

    test.each(['preparing', 'ready', 'on_the_way', 'delivered'])(
      'that is %s is cancelled by staff only',
      async (step) => {
        const order = await paidOrder();
        await moveOn(order, step, step === 'on_the_way' ? rider : {});
        await expectRefusal(cancel(order, 'paid'), 409, 'cancel_too_late');
        expect(await trackAsCustomer(order)).not.toHaveProperty('way_to_cancel');
      },
    );

    test('is asked about while a colleague could still undo giving it back', async () => {
      const order = await paidOrder();
      await moveOn(order, 'preparing');
      const { change_id } = await moveOn(order, 'prepare');
      await cancel(order, 'paid');
      await expectRefusal(asStaff('undo_status_change', { change_id }), 409, 'undo_overtaken');
    });

    test('is prepared or asked about, never both, when both happen at once', async () => {
      const order = await paidOrder();
      const [asked, moved] = await Promise.allSettled([cancel(order, 'paid'), moveOn(order, 'preparing')]);
      expect([asked.status, moved.status].sort()).toEqual(['fulfilled', 'rejected']);
    });

    test('is refunded once, however many members grant it at once', async () => {
      const order = await requested();
      const answers = await settleAll(3, () => grant(order));
      expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      expect(await stateOf(order)).toMatchObject({ stock: 10, refunds: ['reversal approved'] });
    });

    test('that staff reopen has no request any more', async () => {
      const order = await requested();
      await grant(order, { sends_back: false });
      await setStatus(order, 'processing');
      expect(await trackAsCustomer(order)).toMatchObject({ way_to_cancel: 'by_request' });
      await moveOn(order, 'preparing');
    });

    test('whose delivery a rider wants to pick up is asked about first', async () => {
      const order = await paidOrder();
      const listed = await asStaff<{ id: string; phone: string }>('save_rider', {
        name: 'Kevin',
        phone: '0733000222',
        vehicle: 'Motorbike',
      });
      const { secret } = await asStaff<{ secret: string }>('open_rider_link', { rider_id: listed.id });
      const seen = await readRow<{ id: string; updated_at: string }>(
        'select id, updated_at::text from public.deliveries where order_id = $1',
        [order.id],
      );
      await asStaff('assign_delivery', {
        order_id: order.id,
        delivery_person: 'Kevin',
        delivery_phone: listed.phone,
        delivery_vehicle: 'Motorbike',
        seen_updated_at: seen?.updated_at,
      });
      await cancel(order, 'paid');
      const { press } = await asVisitor<{ press: { outcome: string } }>('rider_press', {
        secret,
        press_key: '6f0c1c5e-59ce-4f5b-9d2e-4f1f7b2f9a01',
        delivery_id: seen?.id,
        step: 'picked_up',
      });
      expect(press.outcome).toBe('asked_to_cancel');
      expect(
        await readValue('select delivery_status from public.deliveries where order_id = $1', [order.id]),
      ).toBe('assigned');
    });

    test('that needs review is decided by staff', async () => {
      const order = await place(product, { quantity: 10, expected_total: 950_100 });
      const payment = await prompt(order);
      await shop.expire(order);
      await database.query(
        `update public.orders set expires_at = now() - interval '1 day', expiry_limit = now() - interval '1 hour' where id = $1`,
        [order.id],
      );
      await shop.expireReservations();
      await place(product);
      await settle(payment);
      expect(await stateOf(order)).toMatchObject({ money: 'needs_review' });
      await setStatus(order, 'pending');
      await expectRefusal(cancel(order, 'unpaid'), 409, 'payment_arrived');
      await expectRefusal(
        cancel(order, 'unpaid', { expected_payment_status: 'needs_review' }),
        409,
        'cancel_too_late',
      );
    });
  });

  test('the access key is the only proof, and what the customer saw must be so', async () => {
    const order = await place(product);
    const other = await place(product);
    for (const access_key of [
      null,
      '',
      'a'.repeat(5000),
      order.customer_phone.slice(-4),
      order.customer_phone,
      other.access_key,
    ]) {
      await expectRefusal(cancel(order, 'unpaid', { access_key }), 404, 'order_not_found');
    }
    await pay(order);
    await expectRefusal(cancel(order), 409, 'payment_arrived');
    await expectRefusal(cancel(other, 'paid'), 409, 'payment_arrived');
    expect(
      await cancel(other, 'unpaid', { tracking_number: ` ${other.tracking_number.toLowerCase()} ` }),
    ).toMatchObject({ status: 'cancelled' });
  });

  test.each([
    ['counter', 'not_in_role'],
    ['visitor', null],
    ['customer', 'staff_only'],
  ] as const)('%s answers no request', async (by, code) => {
    const order = await requested();
    const attempts = [() => grant(order, {}, by), () => decline(order, 'Too late for this', by)];
    for (const attempt of attempts) {
      if (code) await expectRefusal(attempt(), 403, code);
      else await expect(attempt()).rejects.toThrow('permission denied');
    }
    await decline(order, 'Too late for this', 'assistant');
  });

  test('calls count before work, also refused ones, and a network over its limit is refused', async () => {
    const order = await place(product);
    const address = '203.0.113.77';
    await database.execute(
      `update private.limits set allowed = 3, per_paid_order = 0 where name = 'cancellations'`,
    );
    for (let time = 0; time < 3; time += 1) {
      await expectRefusal(cancel(order, 'unpaid', { access_key: 'wrong' }, address), 404, 'order_not_found');
    }
    await expectRefusal(
      cancel(order, 'unpaid', { access_key: 'wrong' }, address),
      429,
      'too_many_cancellations',
    );
    await expectRefusal(cancel(order, 'unpaid', {}, address), 429, 'too_many_cancellations');
    await expect(cancel(order, 'unpaid', {}, '198.51.100.7')).resolves.toMatchObject({ status: 'cancelled' });
    await database.execute(
      `update private.limits set allowed = 60, per_paid_order = 1 where name = 'cancellations'`,
    );
  });

  test('a customer who changes their mind again and again is refused after a while', async () => {
    const order = await paidOrder();
    const address = '203.0.113.78';
    const keepFrom = () =>
      asVisitor(
        'keep_own_order',
        { tracking_number: order.tracking_number, access_key: order.access_key },
        address,
      );
    for (let time = 0; time < 3; time += 1) {
      await cancel(order, 'paid', {}, address);
      await keepFrom();
    }
    await expectRefusal(cancel(order, 'paid', {}, address), 429, 'too_many_cancellations');
  });

  test('erasing a customer erases the answer of staff', async () => {
    const order = await requested();
    await decline(order, 'Wanjiku is at home');
    await database.query('select private.anonymise_orders(array[$1::uuid])', [order.id]);
    expect(await readRows('select cancel_answer from public.orders where id = $1', [order.id])).toEqual([
      { cancel_answer: '' },
    ]);
    expect(await asService('expire_reservations')).toBe(0);
  });
});
