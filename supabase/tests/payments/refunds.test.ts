// Refunds: once, of the full amount, above the limit by two staff members, and never repeated on an uncertain result.
import { randomBytes } from 'node:crypto';
import type { Database } from '@jani-juice/backend/database';
import { asRole, type Claims, testDatabases } from '@jani-juice/backend/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Database as Types } from '../../types.ts';
import {
  call,
  callProcedure,
  expectRefusal,
  initialStock,
  makeProduct,
  openShopDatabase,
  orderForm,
  type PlacedOrder,
  people,
  secondStepPassed,
  stockOf,
} from '../shop-database.ts';
import { expectBalancedBooks } from './balanced-books.ts';

type Payment = Types['public']['Tables']['payments']['Row'];
type Refund = Types['public']['Tables']['refunds']['Row'];
interface Settled {
  outcome: string;
  refund: Refund;
}
interface Work {
  work: 'send' | 'query';
  refund: Refund;
  secret: string;
}

const receipt = () => `UKL${randomBytes(4).toString('hex').toUpperCase().slice(0, 7)}`;
const conversation = () => `AG_${randomBytes(8).toString('hex')}`;
/** Price in cents: one unit is below the limit of KES 1,000, two are above it. */
const dear = 190_100;
const cheap = 95_100;
const first: Claims = people.staff;
const second: Claims = secondStepPassed;

/** Reproducible random numbers below a limit. */
function drawing(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return below === 0 ? 0 : Math.floor((state / 2 ** 32) * below);
  };
}

describe.each(testDatabases())('on %s', (kind) => {
  let database: Database;
  let product: string;
  let order: PlacedOrder;
  let paid: Payment;

  beforeAll(async () => {
    database = await openShopDatabase(kind);
  });
  afterAll(() => database.close());
  beforeEach(async () => {
    await database.execute(`delete from private.rate_limits`);
    product = await makeProduct(database, 5);
    order = await place(1);
    paid = await pay();
  });
  afterEach(() => expectBalancedBooks(database));

  const as = async <Answer>(
    who: Claims,
    procedure: string,
    given: Record<string, unknown>,
  ): Promise<Answer> => {
    return asRole(database, who, (session) => callProcedure<Answer>(session, procedure, given));
  };
  const service = <Answer>(procedure: string, given: Record<string, unknown>) =>
    call<Answer>(database, 'service', procedure, given);

  const place = (quantity: number) =>
    call<PlacedOrder>(database, 'visitor', 'place_order', {
      ...orderForm(product),
      quantity,
      expected_total: quantity === 1 ? cheap : dear,
    });
  async function prompt(placed = order): Promise<Payment> {
    const { payment } = await service<{ payment: Payment }>('begin_payment', {
      order_id: placed.id,
      tracking_number: placed.tracking_number,
      phone: '0712345678',
      callback_secret: randomBytes(32).toString('hex'),
    });
    return service<Payment>('record_push', {
      payment_id: payment.id,
      body: '{}',
      checkout_request_id: `ws_CO_${randomBytes(8).toString('hex')}`,
    });
  }
  async function callback(payment: Payment, code: string | null = receipt()): Promise<Payment> {
    const { payment: settled } = await service<{ payment: Payment }>('settle_payment', {
      payment_id: payment.id,
      source: code ? 'callback' : 'query',
      body: '{}',
      result: 'succeeded',
      result_code: '0',
      received_cents: code ? payment.charge_cents : null,
      receipt: code,
      checkout_request_id: payment.checkout_request_id,
    });
    return settled;
  }
  const pay = async (placed = order) => callback(await prompt(placed));
  const setStatus = (status: string, placed = order) =>
    asRole(database, first, (session) =>
      session.query(`update public.orders set status = $2 where id = $1`, [placed.id, status]),
    );
  const request = (payment = paid, who = first) =>
    as<Refund>(who, 'request_refund', { payment_id: payment.id, reason: 'Customer cancelled' });
  const approve = (refund: Refund, who = second) =>
    as<Refund>(who, 'approve_refund', { refund_id: refund.id });
  const withdraw = (refund: Refund, who = first) =>
    as<Refund>(who, 'withdraw_refund', { refund_id: refund.id });
  const byHand = (code: string, payment = paid) =>
    as<Refund>(first, 'note_refund_by_hand', {
      payment_id: payment.id,
      refund_receipt: code,
      reason: 'Sent by hand',
    });

  const lease = async (): Promise<Work[]> =>
    (
      await asRole(database, people.service, (session) =>
        session.query<{ leased: Work }>(
          `select to_jsonb(leased) as leased from public.lease_refunds(50) as leased`,
        ),
      )
    ).rows.map(({ leased }) => leased);
  /** The leased work for one refund. */
  const workOf = async (refund: Refund) => (await lease()).filter((work) => work.refund.id === refund.id);
  const pushed = (refund: Refund, answer: Record<string, unknown> = {}) =>
    service<Refund>('record_reversal_push', {
      refund_id: refund.id,
      body: '{}',
      conversation_id: conversation(),
      originator_conversation_id: conversation(),
      ...answer,
    });
  const lost = { conversation_id: null, originator_conversation_id: null };
  const result = (refund: Refund, change: Record<string, unknown> = {}) =>
    service<Settled>('settle_reversal', {
      refund_id: refund.id,
      source: 'reversal_result',
      body: '{"raw":true}',
      result: 'succeeded',
      result_code: '0',
      refund_receipt: receipt(),
      refund_cents: refund.refund_cents,
      originator_conversation_id: refund.originator_conversation_id,
      ...change,
    });
  const failed = { result: 'failed', result_code: '1', refund_receipt: null, refund_cents: null };
  const settleByStatus = (refund: Refund, outcome: string) =>
    service<Settled>('settle_reversal', {
      refund_id: refund.id,
      source: 'status_result',
      body: '{}',
      result: outcome,
      result_code: '0',
    });
  const later = (refund: Refund, minutes: number) =>
    database.query(
      `update public.refunds set sent_at = sent_at - make_interval(mins => $2), next_check_at = next_check_at - make_interval(mins => $2)
       where id = $1`,
      [refund.id, minutes],
    );
  /** A refund of a cancelled order that was sent to M-PESA. */
  async function sent(answer: Record<string, unknown> = {}): Promise<Refund> {
    await setStatus('cancelled');
    const refund = await request();
    expect(await workOf(refund)).toMatchObject([{ work: 'send' }]);
    return pushed(refund, answer);
  }

  async function state(placed = order) {
    const { rows } = await database.query<{
      order: string;
      money: string;
      payments: string[];
      refunds: string[];
    }>(
      `select o.status as order, o.payment_status as money,
         (select json_agg(p.status || case when p.refunded_at is null then '' else ', sent back' end order by p.created_at)
          from public.payments as p where p.order_id = o.id) as payments,
         coalesce((select json_agg(r.method || ' ' || r.status order by r.created_at)
          from public.refunds as r join public.payments as p on p.id = r.payment_id where p.order_id = o.id), '[]') as refunds
       from public.orders as o where o.id = $1`,
      [placed.id],
    );
    return { ...rows[0], stock: await stockOf(database, product) };
  }
  const events = async (placed = order) =>
    (
      await database.query<{ line: string }>(
        `select actor || ' ' || kind as line from public.order_events where order_id = $1 and kind like 'refund%' order by id`,
        [placed.id],
      )
    ).rows.map(({ line }) => line);
  const customerMessages = async (placed = order) =>
    (
      await database.query<{ event_key: string }>(
        `select event_key from public.outbox_messages where order_id = $1 and kind = 'order_refunded' and channel = 'mail'`,
        [placed.id],
      )
    ).rows.map(({ event_key }) => event_key);

  describe('requesting a refund', () => {
    test('up to the limit needs no approval, and updates order, stock, timeline and customer', async () => {
      const refund = await sent();
      expect(refund).toMatchObject({
        status: 'sent',
        refund_cents: cheap,
        needs_approval: false,
        receipt: paid.receipt,
      });
      const back = receipt();
      expect(await result(refund, { refund_receipt: back })).toMatchObject({
        outcome: 'completed',
        refund: { status: 'completed', refund_receipt: back },
      });
      expect(await state()).toEqual({
        order: 'cancelled',
        money: 'refunded',
        payments: ['completed, sent back'],
        refunds: ['reversal completed'],
        stock: 5,
      });
      expect(await events()).toEqual([
        'staff refund_requested',
        'shop refund_sent',
        'mpesa refund_completed',
      ]);
      expect(await customerMessages()).toEqual(['']);
    });

    test('above the limit needs the approval of another staff member', async () => {
      order = await place(2);
      paid = await pay();
      await setStatus('cancelled');
      const refund = await request();
      expect(refund).toMatchObject({ status: 'requested', needs_approval: true, refund_cents: dear });
      expect(await workOf(refund)).toEqual([]);
      await expectRefusal(approve(refund, first), 403, 'second_member_needed');
      await expectRefusal(approve(refund, people.service), 403, 'staff_only');
      await expectRefusal(approve(refund, people['half-way staff']), 403, 'staff_only');
      await expect(
        database.query(
          `update public.refunds set status = 'approved', approved_by = requested_by where id = $1`,
          [refund.id],
        ),
      ).rejects.toMatchObject({ code: '23514' });
      expect(await approve(refund)).toMatchObject({ status: 'approved', approved_by: second.sub });
      expect(await workOf(refund)).toMatchObject([{ work: 'send' }]);
      await result(await pushed(refund));
      expect(await state()).toMatchObject({ money: 'refunded' });
    });

    test('above the limit is mailed to the other staff, until it is approved', async () => {
      order = await place(2);
      paid = await pay();
      await setStatus('cancelled');
      const refund = await request();
      const { rows } = await database.query<{ recipient: string; id: string }>(
        `select id, recipient from public.outbox_messages
         where kind = 'refund_to_approve' and event_key = $1 and status = 'waiting'`,
        [refund.id],
      );
      expect(rows.length).toBeGreaterThan(0);
      expect(rows.map(({ recipient }) => recipient)).not.toContain(refund.requested_by_email);
      const approvers = [await as<string | string[]>(first, 'refund_approvers', {})].flat();
      expect(approvers.sort()).toEqual(rows.map(({ recipient }) => recipient).sort());

      await approve(refund);
      // A message that is no longer true is not sent.
      for (const { id } of rows) {
        const { rows: queued } = await database.query<{ lease: string }>(
          `update private.outbox_queue set lease = gen_random_uuid() where message_id = $1 returning lease`,
          [id],
        );
        expect(
          await service('begin_message', {
            message_id: id,
            lease: queued[0]?.lease,
            body: 'x',
            subject: 'x',
          }),
        ).toBeNull();
      }
      const { rows: left } = await database.query(
        `select from public.outbox_messages where kind = 'refund_to_approve' and event_key = $1`,
        [refund.id],
      );
      expect(left).toEqual([]);
    });

    test('of exactly the limit needs no approval, and of one shilling more does', async () => {
      await setStatus('cancelled');
      const setLimit = (cents: number) =>
        database.query('update public.store_settings set refund_approval_above = $1', [cents]);
      try {
        await setLimit(cheap - 100);
        const above = await request();
        expect(above).toMatchObject({ needs_approval: true, status: 'requested' });
        await withdraw(above);
        await setLimit(cheap);
        expect(await request()).toMatchObject({ needs_approval: false, status: 'approved' });
      } finally {
        await setLimit(100_000);
      }
    });

    test('a raised limit applies after a day, and staff see who raised it', async () => {
      order = await place(2);
      paid = await pay();
      await setStatus('cancelled');
      await asRole(database, first, (session) =>
        session.query('update public.store_settings set refund_approval_above = 500000'),
      );
      for (const who of [first, second]) {
        const refund = await request(paid, who);
        expect(refund).toMatchObject({ needs_approval: true, status: 'requested' });
        await withdraw(refund);
      }
      expect(await as(second, 'payment_health', {})).toMatchObject({
        limit_raise: {
          raised_by_email: 'staff@jani.example',
          raised_from: 100_000,
          raised_to: 500_000,
          current_limit: 100_000,
        },
      });
      await database.query(
        `update private.refund_limit_raises set raised_at = raised_at - interval '25 hours'`,
      );
      const refund = await request(paid, second);
      expect(refund).toMatchObject({ needs_approval: false, status: 'approved' });
      await withdraw(refund);
      await database.query('delete from private.refund_limit_raises');
      await database.query('update public.store_settings set refund_approval_above = 100000');
    });

    test('is rejected for a paid order that will be delivered, and for an unanswered prompt', async () => {
      await expectRefusal(request(), 409, 'nothing_to_send_back');
      const open = await place(1);
      await expectRefusal(request(await prompt(open)), 409, 'nothing_to_send_back');
    });

    test('requires the receipt and a reason', async () => {
      order = await place(1);
      paid = await callback(await prompt(), null);
      await setStatus('cancelled');
      await expectRefusal(request(), 409, 'receipt_unknown');
      await expectRefusal(
        as(first, 'request_refund', { payment_id: (await pay(await place(1))).id, reason: ' ' }),
        409,
        'nothing_to_send_back',
      );
      paid = await callback(paid);
      await expectRefusal(
        as(first, 'request_refund', { payment_id: paid.id, reason: ' ' }),
        400,
        'reason_invalid',
      );
    });

    test('twenty times concurrently creates one', async () => {
      await setStatus('cancelled');
      const answers = await Promise.allSettled(
        Array.from({ length: 20 }, (_, index) => request(paid, index % 2 ? first : second)),
      );
      expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      expect(await state()).toMatchObject({ refunds: ['reversal approved'] });
    });

    test('can be withdrawn and requested again, but not withdrawn once sent to M-PESA', async () => {
      await setStatus('cancelled');
      await withdraw(await request(), second);
      const again = await request();
      await workOf(again);
      await expectRefusal(withdraw(again), 409, 'refund_changed');
      await pushed(again);
      await result(again);
    });
  });

  describe('an order with a refund', () => {
    test('can be neither reopened nor recorded as refunded again', async () => {
      await setStatus('cancelled');
      const refund = await request();
      await expectRefusal(setStatus('processing'), 409, 'refund_under_way');
      await expectRefusal(
        as(first, 'resolve_paid_order', { order_id: order.id, resolution: 'refunded' }),
        409,
        'refund_by_receipt',
      );
      await expectRefusal(byHand(receipt()), 409, 'refund_exists');
      await withdraw(refund);
      await setStatus('processing');
      expect(await state()).toMatchObject({ order: 'processing', money: 'paid', stock: 4 });
    });

    test('in review cannot be delivered', async () => {
      order = await place(1);
      const late = await prompt();
      await database.query(
        `update public.orders set reserved_until = null, status = 'cancelled' where id = $1`,
        [order.id],
      );
      await database.query(`update public.products set stock_quantity = 0 where id = $1`, [product]);
      initialStock(database).set(product, 1);
      paid = await callback(late);
      expect(await state()).toMatchObject({ money: 'needs_review' });
      const refund = await request();
      await database.query(`update public.products set stock_quantity = 4 where id = $1`, [product]);
      initialStock(database).set(product, 5);
      await expectRefusal(
        as(first, 'resolve_paid_order', { order_id: order.id, resolution: 'deliver' }),
        409,
        'refund_under_way',
      );
      await workOf(refund);
      await result(await pushed(refund));
      expect(await state()).toMatchObject({ order: 'cancelled', money: 'refunded', stock: 4 });
    });

    test('with another amount cannot be handed over', async () => {
      order = await place(1);
      const { payment } = await as<{ payment: Payment }>(first, 'confirm_till_payment', {
        order_id: order.id,
        receipt: receipt(),
        received_cents: 90_000,
      });
      const refund = await request(payment);
      for (const status of ['processing', 'shipped', 'out_for_delivery', 'delivered']) {
        await expectRefusal(setStatus(status), 409, 'refund_under_way');
      }
      await setStatus('cancelled');
      await withdraw(refund);
      await setStatus('processing');
    });

    test('is either delivered or refunded when both are requested concurrently', async () => {
      await setStatus('cancelled');
      const [requested, taken] = await Promise.allSettled([request(), setStatus('processing')]);
      expect([requested.status, taken.status].filter((word) => word === 'fulfilled')).toHaveLength(1);
      expect(await state()).toMatchObject(
        requested.status === 'fulfilled'
          ? { order: 'cancelled', refunds: ['reversal approved'] }
          : { order: 'processing', refunds: [] },
      );
    });
  });

  describe('a second payment of an order', () => {
    test('is refunded without changing the order, and the customer is notified', async () => {
      order = await place(1);
      const open = await prompt();
      await as(first, 'confirm_till_payment', {
        order_id: order.id,
        receipt: receipt(),
        received_cents: cheap,
      });
      const twice = await callback(open);
      expect(twice).toMatchObject({ status: 'completed', needs_refund: true });
      const refund = await request(twice);
      await workOf(refund);
      await result(await pushed(refund));
      expect(await state()).toMatchObject({ order: 'processing', money: 'paid', stock: 3 });
      expect(await customerMessages()).toEqual([refund.id]);
    });

    test('that is matched to a prompt after its refund is reported once, with its amount and receipts', async () => {
      order = await place(1);
      const open = await prompt();
      const [code, back] = [receipt(), receipt()];
      const confirm = (typed: string) =>
        as<{ payment: Payment }>(first, 'confirm_till_payment', {
          order_id: order.id,
          receipt: typed,
          received_cents: cheap,
        });
      await confirm(receipt());
      const { payment: twice } = await confirm(code);
      const refund = await request(twice);
      await workOf(refund);
      await result(await pushed(refund), { refund_receipt: back });
      expect(await callback(open, code)).toMatchObject({ id: open.id, receipt: code, needs_refund: true });
      expect(await customerMessages()).toEqual([refund.id]);
      const { rows } = await database.query<{ facts: unknown }>(
        `select private.message_facts(order_id, kind, event_key) -> 'payment' as facts
         from public.outbox_messages where order_id = $1 and kind = 'order_refunded' and channel = 'text'`,
        [order.id],
      );
      expect(rows).toMatchObject([{ facts: { charge_cents: cheap, receipt: code, refund_receipt: back } }]);
    });

    test.each([true, false])(
      'entered by hand and then matched to a prompt still has its refund (sent: %s)',
      async (isSent) => {
        order = await place(1);
        const open = await prompt();
        const code = receipt();
        const { payment } = await as<{ payment: Payment }>(first, 'confirm_till_payment', {
          order_id: order.id,
          receipt: code,
          received_cents: cheap,
        });
        await setStatus('cancelled');
        await withdraw(await request(payment));
        if (isSent) {
          const refund = await request(payment);
          await workOf(refund);
          await result(await pushed(refund));
        }
        await callback(open, code);
        const { rows } = await database.query<{ receipt: string; status: string }>(
          `select p.receipt, r.status from public.refunds as r join public.payments as p on p.id = r.payment_id
           where p.order_id = $1 order by r.created_at`,
          [order.id],
        );
        expect(rows).toEqual([
          { receipt: code, status: 'withdrawn' },
          ...(isSent ? [{ receipt: code, status: 'completed' }] : []),
        ]);
        expect(await state()).toMatchObject({ order: 'cancelled', money: isSent ? 'refunded' : 'paid' });
      },
    );
  });

  describe('a result of M-PESA', () => {
    test('counts once, even if repeated and from several sources', async () => {
      const refund = await sent();
      const back = receipt();
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          result(
            refund,
            index % 2 ? { refund_receipt: back } : { refund_receipt: back, source: 'status_result' },
          ),
        ),
      );
      const outcomes = answers.map(({ outcome }) => outcome);
      expect(outcomes.filter((word) => word === 'completed')).toHaveLength(1);
      expect(outcomes.filter((word) => word === 'already_completed')).toHaveLength(19);
      const { rows } = await database.query(
        `select from public.payment_messages where refund_id = $1 and source in ('reversal_result', 'status_result')`,
        [refund.id],
      );
      expect(rows).toHaveLength(20);
      expect(await events()).toHaveLength(3);
    });

    test('counts before the request is answered', async () => {
      await setStatus('cancelled');
      const refund = await request();
      await workOf(refund);
      await result(refund);
      expect(await pushed(refund)).toMatchObject({ status: 'completed', next_check_at: null });
    });

    test('of a failure allows another request; a later success still counts', async () => {
      const refund = await sent();
      expect(await result(refund, failed)).toMatchObject({ outcome: 'failed', refund: { status: 'failed' } });
      expect(await state()).toMatchObject({ order: 'cancelled', money: 'paid' });
      const again = await request();
      expect(await result(refund)).toMatchObject({ outcome: 'completed' });
      expect(await state()).toMatchObject({
        money: 'refunded',
        refunds: ['reversal completed', 'reversal withdrawn'],
      });
      expect(await workOf(again)).toEqual([]);
      expect(await result(refund, failed)).toMatchObject({ outcome: 'superseded' });
      expect(await state()).toMatchObject({ money: 'refunded' });
    });

    test('of a success after the order was reopened returns its units to stock', async () => {
      const refund = await sent();
      await result(refund, failed);
      await setStatus('processing');
      expect(await state()).toMatchObject({ order: 'processing', stock: 4 });
      await result(refund);
      expect(await state()).toMatchObject({ order: 'cancelled', money: 'refunded', stock: 5 });
    });

    test('of a success after a refund by hand is recorded as a double refund', async () => {
      const refund = await sent();
      await result(refund, failed);
      await byHand(receipt());
      const twice = receipt();
      for (const _ of [1, 2]) {
        expect(await result(refund, { refund_receipt: twice })).toMatchObject({
          outcome: 'sent_twice',
          refund: { status: 'failed', refund_receipt: twice, sent_twice_at: expect.any(String) },
        });
      }
      expect((await events()).filter((line) => line === 'mpesa refund_sent_twice')).toHaveLength(1);
      expect(await state()).toMatchObject({ money: 'refunded' });
      const waiting = () =>
        as<Record<string, number>>(first, 'payment_health', {}).then((health) => health.refunds_sent_twice);
      expect(await waiting()).toBe(1);

      // Listed until a staff member resolves it with a note.
      const seen = (note: string) => as(second, 'acknowledge_sent_twice', { refund_id: refund.id, note });
      await expectRefusal(seen('x'), 400, 'reason_invalid');
      expect(await seen(' She paid it back to the till ')).toMatchObject({
        status: 'failed',
        sent_twice_note: 'She paid it back to the till',
        sent_twice_seen_by: second.sub,
      });
      await expectRefusal(seen('Again'), 409, 'refund_changed');
      expect(await waiting()).toBe(0);
      expect((await events()).filter((line) => line.endsWith('refund_sent_twice_seen'))).toHaveLength(1);
    });

    test('of a single refund cannot be resolved as a double one', async () => {
      const refund = await sent();
      await expectRefusal(
        as(first, 'acknowledge_sent_twice', { refund_id: refund.id, note: 'Dealt with' }),
        409,
        'refund_changed',
      );
    });

    test('with the receipt of a received payment, or another amount, does not complete the refund', async () => {
      const refund = await sent();
      const other = await pay(await place(1));
      for (const code of [paid.receipt, other.receipt]) {
        expect(await result(refund, { refund_receipt: code, source: 'status_result' })).toMatchObject({
          outcome: 'receipt_of_payment',
          refund: { status: 'sent', refund_receipt: null },
        });
      }
      for (const cents of [null, cheap - 100]) {
        expect(await result(refund, { source: 'status_result', refund_cents: cents })).toMatchObject({
          outcome: 'pending',
          refund: { status: 'sent' },
        });
      }
      expect(await state()).toMatchObject({ money: 'paid' });
      expect(await result(refund, { source: 'status_result' })).toMatchObject({ outcome: 'completed' });
    });

    test('about another request, in another amount, or under a receipt of another refund completes nothing', async () => {
      const done = await sent();
      const back = receipt();
      await result(done, { refund_receipt: back });
      order = await place(1);
      paid = await pay();
      const refund = await sent();
      expect(await result(refund, { originator_conversation_id: conversation() })).toMatchObject({
        outcome: 'other_request',
      });
      expect(await result(refund, { refund_receipt: back })).toMatchObject({ outcome: 'receipt_replayed' });
      for (const cents of [0, 1, -cheap, cheap * 100]) {
        expect(await result(refund, { refund_cents: cents })).toMatchObject({
          outcome: 'wrong_amount',
          refund: { status: 'unknown' },
        });
      }
      expect(await state()).toMatchObject({ money: 'paid' });
      expect(await result(refund)).toMatchObject({ outcome: 'completed' });
    });

    test('about an unsent refund completes nothing', async () => {
      order = await place(2);
      paid = await pay();
      await setStatus('cancelled');
      const refund = await request();
      expect(await result(refund)).toMatchObject({ outcome: 'not_sent', refund: { status: 'requested' } });
      await withdraw(refund);
    });
  });

  describe('when it is unknown whether it was sent', () => {
    test('it is queried, and never sent again', async () => {
      const refund = await sent(lost);
      expect(refund).toMatchObject({ status: 'unknown' });
      expect(await workOf(refund)).toEqual([]);
      await later(refund, 2);
      expect(await workOf(refund)).toMatchObject([{ work: 'query' }]);
      expect(await workOf(refund)).toEqual([]);
      await expectRefusal(request(), 409, 'refund_exists');
      await expectRefusal(withdraw(refund), 409, 'refund_changed');
      expect(await settleByStatus(refund, 'pending')).toMatchObject({ outcome: 'pending' });
      expect(await settleByStatus(refund, 'succeeded')).toMatchObject({ outcome: 'completed' });
      expect(await state()).toMatchObject({ money: 'refunded' });
    });

    test('it fails only after a while when M-PESA still reports the payment as completed', async () => {
      const refund = await sent(lost);
      expect(await settleByStatus(refund, 'not_reversed')).toMatchObject({
        outcome: 'pending',
        refund: { status: 'unknown' },
      });
      await later(refund, 11);
      expect(await settleByStatus(refund, 'not_reversed')).toMatchObject({ outcome: 'failed' });
    });

    test('it does not fail by that status when M-PESA accepted the request', async () => {
      const refund = await sent();
      await later(refund, 60);
      expect(await settleByStatus(refund, 'not_reversed')).toMatchObject({ outcome: 'pending' });
      expect(await state()).toMatchObject({ money: 'paid' });
      expect(await settleByStatus(refund, 'succeeded')).toMatchObject({ outcome: 'completed' });
    });

    test('a refund interrupted between leasing and sending is queried by one of several processes', async () => {
      await setStatus('cancelled');
      const refund = await request();
      const leases = (await Promise.all(Array.from({ length: 8 }, () => workOf(refund)))).flat();
      expect(leases).toMatchObject([{ work: 'send' }]);
      expect(await workOf(refund)).toEqual([]);
      await later(refund, 3);
      const leased = (await Promise.all(Array.from({ length: 8 }, () => workOf(refund)))).flat();
      expect(leased).toMatchObject([
        { work: 'query', secret: leases[0]?.secret, refund: { status: 'unknown' } },
      ]);
      await settleByStatus(refund, 'succeeded');
    });

    test('"already reversed" completes only with the status of the payment', async () => {
      const refused = await sent({ ...lost, refusal_code: 'R000001', refusal_description: 'already' });
      expect(refused).toMatchObject({ status: 'unknown', result_code: 'R000001' });
      expect(await workOf(refused)).toMatchObject([{ work: 'query' }]);
      await later(refused, 60);
      expect(await settleByStatus(refused, 'not_reversed')).toMatchObject({ outcome: 'pending' });
      expect(await settleByStatus(refused, 'succeeded')).toMatchObject({ outcome: 'completed' });

      order = await place(1);
      paid = await pay();
      const refund = await sent();
      expect(
        await result(refund, { ...failed, result: 'already_reversed', result_code: 'R000001' }),
      ).toMatchObject({
        outcome: 'already_reversed',
      });
      expect(await settleByStatus(refund, 'succeeded')).toMatchObject({ outcome: 'completed' });
    });

    test('a staff member resolves it with the receipt of M-PESA’s portal', async () => {
      const found = await sent(lost);
      await expectRefusal(
        as(first, 'close_unknown_refund', { refund_id: found.id }),
        409,
        'refund_too_fresh',
      );
      const back = receipt();
      expect(
        await as(first, 'close_unknown_refund', { refund_id: found.id, refund_receipt: back }),
      ).toMatchObject({
        status: 'completed',
        refund_receipt: back,
      });
      expect(await state()).toMatchObject({ money: 'refunded' });

      order = await place(1);
      paid = await pay();
      const none = await sent(lost);
      await later(none, 31);
      expect(await as(first, 'close_unknown_refund', { refund_id: none.id })).toMatchObject({
        status: 'failed',
      });
      await expectRefusal(as(first, 'close_unknown_refund', { refund_id: none.id }), 409, 'refund_changed');
    });
  });

  describe('by hand', () => {
    test('is recorded with its receipt, once', async () => {
      await setStatus('cancelled');
      const back = receipt();
      const noted = await byHand(` ${back.toLowerCase()} `);
      expect(noted).toMatchObject({ method: 'by_hand', status: 'completed', refund_receipt: back });
      expect(await byHand(back)).toMatchObject({ id: noted.id });
      expect(await state()).toMatchObject({
        money: 'refunded',
        payments: ['completed, sent back'],
        stock: 5,
      });
      expect(await events()).toEqual(['staff refund_completed']);
      await expectRefusal(byHand(receipt()), 409, 'refund_exists');
    });

    test('rejects the receipt of a received payment, and that of another refund', async () => {
      await setStatus('cancelled');
      await expectRefusal(byHand(paid.receipt ?? ''), 409, 'receipt_of_payment');
      await expectRefusal(byHand('no'), 400, 'receipt_invalid');
      const back = receipt();
      await byHand(back);
      order = await place(1);
      paid = await pay();
      await setStatus('cancelled');
      await expectRefusal(byHand(back), 409, 'refund_receipt_used');
    });

    test('is recorded once by ten concurrent staff members', async () => {
      await setStatus('cancelled');
      const answers = await Promise.allSettled(Array.from({ length: 10 }, () => byHand(receipt())));
      expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      expect(await state()).toMatchObject({ refunds: ['by_hand completed'] });
    });

    test('cannot be recorded by changing the order, without receipt and second staff member', async () => {
      order = await place(2);
      paid = await pay();
      await setStatus('cancelled');
      for (const who of [first, second, people.service]) {
        await expectRefusal(
          as(who, 'resolve_paid_order', { order_id: order.id, resolution: 'refunded' }),
          409,
          'refund_by_receipt',
        );
      }
      expect(await state()).toMatchObject({ money: 'paid', refunds: [] });
      expect(await request()).toMatchObject({ needs_approval: true });
    });
  });

  describe('a payment without an order', () => {
    const receiveFromStatement = async (code: string, cents: number, reference = 'who knows') =>
      service('receive_mpesa_transaction', {
        source: 'statement',
        receipt: code,
        received_cents: cents,
        reference,
      });
    const ask = (code: string) =>
      as<Refund>(first, 'request_refund', {
        receipt: code,
        reason: 'Unknown payment',
        // Other tests leave prompts of this amount open.
        is_sure: true,
      });

    const history = async (code: string) =>
      (
        await database.query<{ line: string }>(
          `select kind || ' ' || note as line from public.reconciliation_events where receipt = $1 order by id`,
          [code],
        )
      ).rows.map((row) => row.line);

    test('is refunded by its receipt, once', async () => {
      const code = receipt();
      await receiveFromStatement(code, cheap);
      const requests = await Promise.allSettled([ask(code), ask(code), ask(code)]);
      expect(requests.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      const [{ work, refund } = { work: '', refund: {} as Refund }] = (await lease()).filter(
        (leased) => leased.refund.receipt === code,
      );
      expect([work, refund.refund_cents]).toEqual(['send', cheap]);
      expect(await result(await pushed(refund))).toMatchObject({ outcome: 'completed' });
      await expectRefusal(ask(code), 409, 'refund_exists');
    });

    test('above the limit needs another staff member', async () => {
      const code = receipt();
      await receiveFromStatement(code, dear);
      const refund = await ask(code);
      expect(refund).toMatchObject({ status: 'requested', needs_approval: true });
      await expectRefusal(approve(refund, first), 403, 'second_member_needed');
      expect(await approve(refund)).toMatchObject({ status: 'approved' });
      await withdraw(refund);
    });

    test('that is matched to an order before its refund was sent is not refunded', async () => {
      const code = receipt();
      await receiveFromStatement(code, cheap);
      await ask(code);
      order = await place(1);
      await callback(await prompt(), code);
      expect(await state()).toMatchObject({ money: 'paid', refunds: ['reversal withdrawn'] });
      expect((await lease()).filter(({ refund }) => refund.receipt === code)).toEqual([]);
    });

    test('that is matched to an order after its refund was sent is refunded, and pays nothing', async () => {
      const code = receipt();
      await receiveFromStatement(code, cheap);
      const refund = await ask(code);
      order = await place(1);
      const payment = await prompt();
      await workOf(refund);
      await callback(payment, code);
      expect(await state()).toMatchObject({ money: 'unpaid', refunds: ['reversal sending'] });
      await result(await pushed(refund));
      expect(await state()).toMatchObject({
        order: 'pending',
        money: 'unpaid',
        refunds: ['reversal completed'],
      });
    });

    test('is open again after a withdrawn refund, which its history shows', async () => {
      const code = receipt();
      await receiveFromStatement(code, cheap);
      const failing = await ask(code);
      await workOf(failing);
      await result(failing, failed);
      const refund = await ask(code);
      await as(first, 'withdraw_refund', { refund_id: refund.id });
      expect(await history(code)).toEqual([
        expect.stringMatching(/^refund /),
        expect.stringMatching(/^reopened The refund failed/),
        expect.stringMatching(/^refund /),
        'reopened The refund was withdrawn',
      ]);
    });

    test('can be refunded by hand, and pays no order', async () => {
      const code = receipt();
      await receiveFromStatement(code, cheap);
      const back = receipt();
      const note = () =>
        as<Refund>(first, 'note_refund_by_hand', {
          receipt: code,
          refund_receipt: back,
          reason: 'By hand',
          is_sure: true,
        });
      const noted = await note();
      expect(noted).toMatchObject({ status: 'completed', refund_cents: cheap });
      expect(await note()).toMatchObject({ id: noted.id });
      expect(await history(code)).toEqual([`refund By hand, receipt ${back}: By hand`]);
      await expectRefusal(ask(paid.receipt ?? ''), 404, 'payment_not_found');
      await receiveFromStatement(paid.receipt ?? '', cheap);
      await expectRefusal(ask(paid.receipt ?? ''), 409, 'nothing_to_send_back');
    });

    test('refunds no more than the amount that M-PESA reported after the request', async () => {
      order = await place(1);
      const code = receipt();
      const { payment } = await as<{ payment: Payment }>(first, 'confirm_till_payment', {
        order_id: order.id,
        receipt: code,
        received_cents: cheap,
      });
      await setStatus('cancelled');
      const refund = await request(payment);
      await receiveFromStatement(code, 5_000, order.tracking_number);
      expect(await workOf(refund)).toEqual([]);
      expect(await state()).toMatchObject({ refunds: ['reversal withdrawn'] });
      expect(await events()).toContain('shop refund_withdrawn');
      await expectRefusal(request(payment), 409, 'amount_differs');
    });

    test('refunds no more than the amount that M-PESA reported, even if staff entered more', async () => {
      order = await place(1);
      const code = receipt();
      await as(first, 'confirm_till_payment', { order_id: order.id, receipt: code, received_cents: cheap });
      await setStatus('cancelled');
      await receiveFromStatement(code, 5_000);
      const { rows } = await database.query<{ id: string }>(
        'select id from public.payments where receipt = $1',
        [code],
      );
      await expectRefusal(
        as(first, 'request_refund', { payment_id: rows[0]?.id, reason: 'Customer cancelled' }),
        409,
        'amount_differs',
      );
    });
  });

  test.each([1, 2, 3, 4])(
    'concurrent calls in every order (seed %i): no money is refunded twice, and the records show every refund',
    async (seed) => {
      const draw = drawing(seed);
      const orders: { order: PlacedOrder; payment: Payment }[] = [];
      for (let count = 0; count < 5; count += 1) {
        const placed = await place(1 + (count % 2));
        const payment = await pay(placed);
        await setStatus('cancelled', placed);
        orders.push({ order: placed, payment });
      }
      // Reversals by M-PESA, by receipt, and requests without a result.
      const reversed = new Set<string>();
      const handed = new Set<string>();
      const pendingResults: { refund: Refund; isDone: boolean }[] = [];
      const one = () => orders[draw(orders.length)] as (typeof orders)[number];
      const refundOf = async (payment: Payment) =>
        (
          await database.query<{ row: Refund }>(
            `select to_jsonb(r) as row from public.refunds as r where payment_id = $1 order by created_at desc limit 1`,
            [payment.id],
          )
        ).rows[0]?.row;
      const send = async () => {
        for (const { work, refund } of await lease()) {
          if (work !== 'send') continue;
          const code = refund.receipt ?? '';
          const fate = draw(4);
          const isDone = fate < 3 && !reversed.has(code);
          if (isDone) reversed.add(code);
          if (fate < 3) pendingResults.push({ refund, isDone });
          // The shop may be killed before it records the answer.
          if (draw(5) === 0) continue;
          if (fate === 3) await pushed(refund, { ...lost, refusal_code: '400.002.02' });
          else await pushed(refund, fate === 2 ? lost : {});
        }
      };
      const deliverResult = async () => {
        const [next] = pendingResults.splice(draw(pendingResults.length), 1);
        if (!next) return;
        const { refund, isDone } = next;
        const back = receipt();
        const change = isDone
          ? { refund_receipt: back }
          : { ...failed, result: 'already_reversed', result_code: 'R000001' };
        await Promise.all([
          result(refund, { ...change, originator_conversation_id: null }),
          result(refund, { ...change, originator_conversation_id: null }),
        ]);
      };
      const acts: (() => Promise<unknown>)[] = [
        () => request(one().payment, draw(2) ? first : second),
        async () => {
          const refund = await refundOf(one().payment);
          if (refund) await approve(refund, draw(2) ? first : second);
        },
        async () => {
          const refund = await refundOf(one().payment);
          if (refund && draw(3) === 0) await withdraw(refund);
        },
        async () => {
          const { payment } = one();
          // Else all could go back by hand first, and M-PESA would have nothing to do.
          if (draw(4) === 0 && reversed.size > 0) {
            await byHand(receipt(), payment);
            expect(reversed, 'nothing goes back by hand that M-PESA has sent').not.toContain(payment.receipt);
            handed.add(payment.receipt ?? '');
          }
        },
        async () => setStatus(draw(2) ? 'processing' : 'cancelled', one().order),
        send,
        send,
        deliverResult,
        deliverResult,
      ];
      for (let round = 0; round < 25 || (reversed.size === 0 && round < 100); round += 1) {
        const done = await Promise.allSettled(
          Array.from({ length: 8 }, () => (acts[draw(acts.length)] as () => Promise<unknown>)()),
        );
        for (const outcome of done) {
          // A rejection is expected; any other error, such as a deadlock, is not.
          if (outcome.status === 'rejected')
            expect(outcome.reason).toMatchObject({ code: expect.stringMatching(/^PT4/) });
        }
      }
      // In the end all results arrive, and interrupted refunds are queried.
      while (pendingResults.length > 0) await deliverResult();
      await database.query(
        `update public.refunds set sent_at = sent_at - interval '1 hour' where status = 'sending'`,
      );
      await lease();
      for (const { payment } of orders) {
        const refund = await refundOf(payment);
        if (refund?.status === 'unknown') {
          await settleByStatus(refund, reversed.has(payment.receipt ?? '') ? 'succeeded' : 'not_reversed');
        }
      }
      for (const { payment } of orders) {
        const code = payment.receipt ?? '';
        const { rows } = await database.query<{ back: boolean; method: string | null }>(
          `select p.refunded_at is not null as back,
             (select r.method from public.refunds as r where r.payment_id = p.id and r.status = 'completed') as method
           from public.payments as p where p.id = $1`,
          [payment.id],
        );
        expect([rows[0]?.back, rows[0]?.method ?? null]).toEqual(
          reversed.has(code) ? [true, 'reversal'] : handed.has(code) ? [true, 'by_hand'] : [false, null],
        );
      }
      expect(reversed.size, 'it was no idle day').toBeGreaterThan(0);
    },
  );

  test('only staff request, approve, withdraw and annotate; only the secret key sends', async () => {
    await setStatus('cancelled');
    for (const who of [people.customer, people['former staff'], people['half-way staff']]) {
      await expectRefusal(request(paid, who), 403, 'staff_only');
    }
    const refund = await request();
    for (const [procedure, given] of [
      ['lease_refunds', {}],
      ['settle_reversal', { refund_id: refund.id, source: 'reversal_result', body: '', result: 'succeeded' }],
      ['record_reversal_push', { refund_id: refund.id, body: '' }],
    ] as const) {
      await expect(as(first, procedure, given)).rejects.toMatchObject({ code: '42501' });
    }
  });

  // Positive controls: the invariants of refunds can fail.
  const refundOf = (cents: string) =>
    `insert into public.refunds (payment_id, receipt, refund_cents, reason, method, status)
     select id, receipt, ${cents}, 'wrong', 'by_hand', 'completed' from public.payments where id = $1`;
  const markRefunded = 'update public.payments set refunded_at = now() where id = $1';
  test.each([
    ['a payment is refunded if and only if its refund is completed', [markRefunded]],
    ['a payment is refunded if and only if its refund is completed', [refundOf('charge_cents')]],
    ['a payment is refunded once, up to its amount', [refundOf('charge_cents + 100')]],
    [
      'an order is refunded if and only if its own money was refunded',
      [refundOf('charge_cents'), markRefunded],
    ],
    [
      'a refund by M-PESA is completed by M-PESA or by staff',
      [refundOf('charge_cents'), `update public.refunds set method = 'reversal' where payment_id = $1`],
    ],
  ])('the invariant that %s can fail', async (invariant, statements) => {
    await expectBalancedBooks(database);
    const books = database.transaction(async (session) => {
      await session.query('alter table public.payments disable trigger user');
      for (const statement of statements) await session.query(statement, [paid.id]);
      await expectBalancedBooks(database, { session });
    });
    await expect(books).rejects.toMatchObject({
      actual: expect.arrayContaining([expect.objectContaining({ invariant, subject: expect.any(String) })]),
    });
  });
});
