// Refunds: once, of the full amount, above the limit by two staff members, and never repeated on an uncertain result.
import { type Claims, testDatabases } from '@jani-juice/backend/testing';
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  expectRefusal,
  initialStock,
  makeProduct,
  type PlacedOrder,
  people,
  secondStepPassed,
} from '../shop-database.ts';
import {
  byQuery,
  concurrently,
  newConversationId,
  newReceipt,
  type Payment,
  type Refund,
  reversalFailed,
  settleAll,
  setUpShop,
} from '../steps.ts';
import { expectBalancedBooks } from './books/balanced-books.ts';
import { expectExplainedDays } from './books/explained-days.ts';

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
  const shop = setUpShop(kind);
  const { database, callAs, asStaff, asService, queryAs, readRow, readValue, readColumn, place, setStatus } =
    shop;
  const { stateOf, eventsOf, prompt, settle, pay, receive, confirm, requestRefund, approveRefund } = shop;
  const { withdrawRefund, noteRefundByHand, leaseRefunds, recordReversalPush, settleReversal } = shop;
  const { completeRefund } = shop;
  let product: string;
  let order: PlacedOrder;
  let paid: Payment;

  beforeEach(async () => {
    await database.execute(`delete from private.rate_limits`);
    product = await makeProduct(database, 5);
    await placeAndPay();
  });
  afterEach(() => expectBalancedBooks(database));
  afterAll(() => expectExplainedDays(shop));

  async function placeAndPay(quantity = 1): Promise<void> {
    order = await place(product, { quantity });
    paid = (await pay(order)).payment;
  }
  const cancel = () => setStatus(order, 'cancelled');
  /** The leased work for one refund. */
  const workOf = async ({ id }: Refund) => (await leaseRefunds()).filter(({ refund }) => refund.id === id);
  const lost = { conversation_id: null, originator_conversation_id: null };
  const settleByStatus = ({ id }: Refund, result: string) =>
    asService<{ outcome: string; refund: Refund }>('settle_reversal', {
      refund_id: id,
      source: 'status_result',
      body: '{}',
      result,
      result_code: '0',
    });
  const later = (refund: Refund, minutes: number) =>
    database.query(
      `update public.refunds set sent_at = sent_at - make_interval(mins => $2), next_check_at = next_check_at - make_interval(mins => $2)
       where id = $1`,
      [refund.id, minutes],
    );
  /** A refund of the cancelled order that was sent to M-PESA. */
  async function sendRefund(answer?: Record<string, unknown>): Promise<Refund> {
    await cancel();
    const refund = await requestRefund(paid);
    expect(await workOf(refund)).toMatchObject([{ work: 'send' }]);
    return recordReversalPush(refund, answer);
  }
  const refundEvents = async () => (await eventsOf(order)).filter((line) => line.includes(' refund'));
  const customerMessages = () =>
    readColumn(
      `select event_key from public.outbox_messages where order_id = $1 and kind = 'order_refunded' and channel = 'mail'`,
      [order.id],
    );

  describe('requesting a refund', () => {
    test('up to the limit needs no approval, and updates order, stock, timeline and customer', async () => {
      const refund = await sendRefund();
      expect(refund).toMatchObject({
        status: 'sent',
        refund_cents: cheap,
        needs_approval: false,
        receipt: paid.receipt,
      });
      const back = newReceipt();
      expect(await settleReversal(refund, { refund_receipt: back })).toMatchObject({
        outcome: 'completed',
        refund: { status: 'completed', refund_receipt: back },
      });
      expect(await stateOf(order)).toMatchObject({
        status: 'cancelled',
        money: 'refunded',
        payments: ['prompt completed, sent back'],
        refunds: ['reversal completed'],
        stock: 5,
      });
      expect(await refundEvents()).toEqual([
        'staff refund_requested',
        'shop refund_sent',
        'mpesa refund_completed',
      ]);
      expect(await customerMessages()).toEqual(['']);
    });

    test('above the limit needs the approval of another staff member', async () => {
      await placeAndPay(2);
      await cancel();
      const refund = await requestRefund(paid);
      expect(refund).toMatchObject({ status: 'requested', needs_approval: true, refund_cents: dear });
      expect(await workOf(refund)).toEqual([]);
      await expectRefusal(approveRefund(refund, first), 403, 'second_member_needed');
      await expectRefusal(approveRefund(refund, people.service), 403, 'staff_only');
      await expectRefusal(approveRefund(refund, people['half-way staff']), 403, 'staff_only');
      await expect(
        database.query(
          `update public.refunds set status = 'approved', approved_by = requested_by where id = $1`,
          [refund.id],
        ),
      ).rejects.toMatchObject({ code: '23514' });
      expect(await approveRefund(refund)).toMatchObject({ status: 'approved', approved_by: second.sub });
      expect(await workOf(refund)).toMatchObject([{ work: 'send' }]);
      await settleReversal(await recordReversalPush(refund));
      expect(await stateOf(order)).toMatchObject({ money: 'refunded' });
    });

    test('above the limit is mailed to the other staff, until it is approved', async () => {
      await placeAndPay(2);
      await cancel();
      const refund = await requestRefund(paid);
      const { rows } = await database.query<{ recipient: string; id: string }>(
        `select id, recipient from public.outbox_messages
         where kind = 'refund_to_approve' and event_key = $1 and status = 'waiting'`,
        [refund.id],
      );
      expect(rows.length).toBeGreaterThan(0);
      expect(rows.map(({ recipient }) => recipient)).not.toContain(refund.requested_by_email);
      const requesterOf = () =>
        readValue(
          `select private.message_facts(null, 'refund_to_approve', $1) -> 'refund' ->> 'requested_by'`,
          [refund.id],
        );
      expect(await requesterOf()).toBe(refund.requested_by_email);
      await database.query(
        `update public.admin_profiles set name = 'Njeri' where user_id = (select requested_by from public.refunds where id = $1)`,
        [refund.id],
      );
      expect(await requesterOf()).toBe('Njeri');
      const approvers = [await asStaff<string | string[]>('refund_approvers', {})].flat();
      expect(approvers.sort()).toEqual(rows.map(({ recipient }) => recipient).sort());

      await approveRefund(refund);
      // A message that is no longer true is not sent.
      for (const { id } of rows) {
        const { rows: queued } = await database.query<{ lease: string }>(
          `update private.outbox_queue set lease = gen_random_uuid() where message_id = $1 returning lease`,
          [id],
        );
        expect(
          await asService('begin_message', {
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
      await cancel();
      const setLimit = (cents: number) =>
        database.query('update public.store_settings set refund_approval_above = $1', [cents]);
      try {
        await setLimit(cheap - 100);
        const above = await requestRefund(paid);
        expect(above).toMatchObject({ needs_approval: true, status: 'requested' });
        await withdrawRefund(above);
        await setLimit(cheap);
        expect(await requestRefund(paid)).toMatchObject({ needs_approval: false, status: 'approved' });
      } finally {
        await setLimit(100_000);
      }
    });

    test('a raised limit applies after a day, and staff see who raised it', async () => {
      await placeAndPay(2);
      await cancel();
      await queryAs(first, 'update public.store_settings set refund_approval_above = 500000');
      for (const who of [first, second]) {
        const refund = await requestRefund(paid, { by: who });
        expect(refund).toMatchObject({ needs_approval: true, status: 'requested' });
        await withdrawRefund(refund);
      }
      expect(await callAs(second, 'payment_health', {})).toMatchObject({
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
      const refund = await requestRefund(paid, { by: second });
      expect(refund).toMatchObject({ needs_approval: false, status: 'approved' });
      await withdrawRefund(refund);
      await database.query('delete from private.refund_limit_raises');
      await database.query('update public.store_settings set refund_approval_above = 100000');
    });

    test('is rejected for a paid order that will be delivered, and for an unanswered prompt', async () => {
      await expectRefusal(requestRefund(paid), 409, 'nothing_to_send_back');
      const open = await place(product);
      await expectRefusal(requestRefund(await prompt(open)), 409, 'nothing_to_send_back');
    });

    test('requires the receipt and a reason', async () => {
      order = await place(product);
      paid = (await settle(await prompt(order), byQuery)).payment;
      await cancel();
      await expectRefusal(requestRefund(paid), 409, 'receipt_unknown');
      await expectRefusal(
        asStaff('request_refund', { payment_id: (await pay(await place(product))).payment.id, reason: ' ' }),
        409,
        'nothing_to_send_back',
      );
      await settle(paid);
      await expectRefusal(
        asStaff('request_refund', { payment_id: paid.id, reason: ' ' }),
        400,
        'reason_invalid',
      );
    });

    test('twenty times concurrently creates one', async () => {
      await cancel();
      const answers = await settleAll(20, (index) => requestRefund(paid, { by: index % 2 ? first : second }));
      expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      expect(await stateOf(order)).toMatchObject({ refunds: ['reversal approved'] });
    });

    test('can be withdrawn and requested again, but not withdrawn once sent to M-PESA', async () => {
      await cancel();
      await withdrawRefund(await requestRefund(paid), second);
      const again = await requestRefund(paid);
      await workOf(again);
      await expectRefusal(withdrawRefund(again), 409, 'refund_changed');
      await recordReversalPush(again);
      await settleReversal(again);
    });
  });

  describe('an order with a refund', () => {
    test('can be neither reopened nor recorded as refunded again', async () => {
      await cancel();
      const refund = await requestRefund(paid);
      await expectRefusal(setStatus(order, 'processing'), 409, 'refund_under_way');
      await expectRefusal(
        asStaff('resolve_paid_order', { order_id: order.id, resolution: 'refunded' }),
        409,
        'refund_by_receipt',
      );
      await expectRefusal(noteRefundByHand(paid), 409, 'refund_exists');
      await withdrawRefund(refund);
      await setStatus(order, 'processing');
      expect(await stateOf(order)).toMatchObject({ status: 'processing', money: 'paid', stock: 4 });
    });

    test('in review cannot be delivered', async () => {
      order = await place(product);
      const late = await prompt(order);
      await database.query(
        `update public.orders set reserved_until = null, status = 'cancelled' where id = $1`,
        [order.id],
      );
      await database.query(`update public.products set stock_quantity = 0 where id = $1`, [product]);
      initialStock(database).set(product, 1);
      paid = (await settle(late)).payment;
      expect(await stateOf(order)).toMatchObject({ money: 'needs_review' });
      const refund = await requestRefund(paid);
      await database.query(`update public.products set stock_quantity = 4 where id = $1`, [product]);
      initialStock(database).set(product, 5);
      await expectRefusal(
        asStaff('resolve_paid_order', { order_id: order.id, resolution: 'deliver' }),
        409,
        'refund_under_way',
      );
      await completeRefund(refund);
      expect(await stateOf(order)).toMatchObject({ status: 'cancelled', money: 'refunded', stock: 4 });
    });

    test('with another amount cannot be handed over', async () => {
      order = await place(product);
      const { payment } = await confirm(order, newReceipt(), { received_cents: 90_000 });
      const refund = await requestRefund(payment);
      for (const status of ['processing', 'shipped', 'out_for_delivery', 'delivered']) {
        await expectRefusal(setStatus(order, status), 409, 'refund_under_way');
      }
      await cancel();
      await withdrawRefund(refund);
      await setStatus(order, 'processing');
    });

    test('is either delivered or refunded when both are requested concurrently', async () => {
      await cancel();
      const [requested, taken] = await Promise.allSettled([
        requestRefund(paid),
        setStatus(order, 'processing'),
      ]);
      expect([requested.status, taken.status].filter((word) => word === 'fulfilled')).toHaveLength(1);
      expect(await stateOf(order)).toMatchObject(
        requested.status === 'fulfilled'
          ? { status: 'cancelled', refunds: ['reversal approved'] }
          : { status: 'processing', refunds: [] },
      );
    });
  });

  describe('a second payment of an order', () => {
    test('is refunded without changing the order, and the customer is notified', async () => {
      order = await place(product);
      const open = await prompt(order);
      await confirm(order);
      const { payment: twice } = await settle(open);
      expect(twice).toMatchObject({ status: 'completed', needs_refund: true });
      const refund = await requestRefund(twice);
      await completeRefund(refund);
      expect(await stateOf(order)).toMatchObject({ status: 'processing', money: 'paid', stock: 3 });
      expect(await customerMessages()).toEqual([refund.id]);
    });

    test('that is matched to a prompt after its refund is reported once, with its amount and receipts', async () => {
      order = await place(product);
      const open = await prompt(order);
      const [code, back] = [newReceipt(), newReceipt()];
      await confirm(order);
      const { payment: twice } = await confirm(order, code);
      const refund = await requestRefund(twice);
      await completeRefund(refund, { refund_receipt: back });
      expect(await settle(open, { receipt: code })).toMatchObject({
        payment: { id: open.id, receipt: code, needs_refund: true },
      });
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
        order = await place(product);
        const open = await prompt(order);
        const code = newReceipt();
        const { payment } = await confirm(order, code);
        await cancel();
        await withdrawRefund(await requestRefund(payment));
        if (isSent) {
          const refund = await requestRefund(payment);
          await completeRefund(refund);
        }
        await settle(open, { receipt: code });
        const { rows } = await database.query<{ receipt: string; status: string }>(
          `select p.receipt, r.status from public.refunds as r join public.payments as p on p.id = r.payment_id
           where p.order_id = $1 order by r.created_at`,
          [order.id],
        );
        expect(rows).toEqual([
          { receipt: code, status: 'withdrawn' },
          ...(isSent ? [{ receipt: code, status: 'completed' }] : []),
        ]);
        expect(await stateOf(order)).toMatchObject({
          status: 'cancelled',
          money: isSent ? 'refunded' : 'paid',
        });
      },
    );
  });

  describe('a result of M-PESA', () => {
    test('counts once, even if repeated and from several sources', async () => {
      const refund = await sendRefund();
      const back = newReceipt();
      const answers = await concurrently(20, (index) =>
        settleReversal(refund, {
          refund_receipt: back,
          source: index % 2 ? 'reversal_result' : 'status_result',
        }),
      );
      const outcomes = answers.map(({ outcome }) => outcome);
      expect(outcomes.filter((word) => word === 'completed')).toHaveLength(1);
      expect(outcomes.filter((word) => word === 'already_completed')).toHaveLength(19);
      const { rows } = await database.query(
        `select from public.payment_messages where refund_id = $1 and source in ('reversal_result', 'status_result')`,
        [refund.id],
      );
      expect(rows).toHaveLength(20);
      expect(await refundEvents()).toHaveLength(3);
    });

    test('counts before the request is answered', async () => {
      await cancel();
      const refund = await requestRefund(paid);
      await workOf(refund);
      await settleReversal(refund);
      expect(await recordReversalPush(refund)).toMatchObject({ status: 'completed', next_check_at: null });
    });

    test('of a failure allows another request; a later success still counts', async () => {
      const refund = await sendRefund();
      expect(await settleReversal(refund, reversalFailed)).toMatchObject({
        outcome: 'failed',
        refund: { status: 'failed' },
      });
      expect(await stateOf(order)).toMatchObject({ status: 'cancelled', money: 'paid' });
      const again = await requestRefund(paid);
      expect(await settleReversal(refund)).toMatchObject({ outcome: 'completed' });
      expect(await stateOf(order)).toMatchObject({
        money: 'refunded',
        refunds: ['reversal completed', 'reversal withdrawn'],
      });
      expect(await workOf(again)).toEqual([]);
      expect(await settleReversal(refund, reversalFailed)).toMatchObject({ outcome: 'superseded' });
      expect(await stateOf(order)).toMatchObject({ money: 'refunded' });
    });

    test('of a success after the order was reopened returns its units to stock', async () => {
      const refund = await sendRefund();
      await settleReversal(refund, reversalFailed);
      await setStatus(order, 'processing');
      expect(await stateOf(order)).toMatchObject({ status: 'processing', stock: 4 });
      await settleReversal(refund);
      expect(await stateOf(order)).toMatchObject({ status: 'cancelled', money: 'refunded', stock: 5 });
    });

    test('of a success after a refund by hand is recorded as a double refund', async () => {
      const refund = await sendRefund();
      await settleReversal(refund, reversalFailed);
      await noteRefundByHand(paid);
      const twice = newReceipt();
      for (const _ of [1, 2]) {
        expect(await settleReversal(refund, { refund_receipt: twice })).toMatchObject({
          outcome: 'sent_twice',
          refund: { status: 'failed', refund_receipt: twice, sent_twice_at: expect.any(String) },
        });
      }
      expect((await refundEvents()).filter((line) => line === 'mpesa refund_sent_twice')).toHaveLength(1);
      expect(await stateOf(order)).toMatchObject({ money: 'refunded' });
      const waiting = () =>
        asStaff<Record<string, number>>('payment_health', {}).then((health) => health.refunds_sent_twice);
      expect(await waiting()).toBe(1);

      // Listed until a staff member resolves it with a note.
      const seen = (note: string) => callAs(second, 'acknowledge_sent_twice', { refund_id: refund.id, note });
      await expectRefusal(seen('x'), 400, 'reason_invalid');
      expect(await seen(' She paid it back to the till ')).toMatchObject({
        status: 'failed',
        sent_twice_note: 'She paid it back to the till',
        sent_twice_seen_by: second.sub,
      });
      await expectRefusal(seen('Again'), 409, 'refund_changed');
      expect(await waiting()).toBe(0);
      expect((await refundEvents()).filter((line) => line.endsWith('refund_sent_twice_seen'))).toHaveLength(
        1,
      );
    });

    test('of a single refund cannot be resolved as a double one', async () => {
      const refund = await sendRefund();
      await expectRefusal(
        asStaff('acknowledge_sent_twice', { refund_id: refund.id, note: 'Dealt with' }),
        409,
        'refund_changed',
      );
    });

    test('with the receipt of a received payment, or another amount, does not complete the refund', async () => {
      const refund = await sendRefund();
      const other = await pay(await place(product));
      for (const code of [paid.receipt, other.payment.receipt]) {
        expect(await settleReversal(refund, { refund_receipt: code, source: 'status_result' })).toMatchObject(
          {
            outcome: 'receipt_of_payment',
            refund: { status: 'sent', refund_receipt: null },
          },
        );
      }
      for (const cents of [null, cheap - 100]) {
        expect(await settleReversal(refund, { source: 'status_result', refund_cents: cents })).toMatchObject({
          outcome: 'pending',
          refund: { status: 'sent' },
        });
      }
      expect(await stateOf(order)).toMatchObject({ money: 'paid' });
      expect(await settleReversal(refund, { source: 'status_result' })).toMatchObject({
        outcome: 'completed',
      });
    });

    test('about another request, in another amount, or under a receipt of another refund completes nothing', async () => {
      const done = await sendRefund();
      const back = newReceipt();
      await settleReversal(done, { refund_receipt: back });
      await placeAndPay();
      const refund = await sendRefund();
      expect(await settleReversal(refund, { originator_conversation_id: newConversationId() })).toMatchObject(
        {
          outcome: 'other_request',
        },
      );
      expect(await settleReversal(refund, { refund_receipt: back })).toMatchObject({
        outcome: 'receipt_replayed',
      });
      for (const cents of [0, 1, -cheap, cheap * 100]) {
        expect(await settleReversal(refund, { refund_cents: cents })).toMatchObject({
          outcome: 'wrong_amount',
          refund: { status: 'unknown' },
        });
      }
      expect(await stateOf(order)).toMatchObject({ money: 'paid' });
      expect(await settleReversal(refund)).toMatchObject({ outcome: 'completed' });
    });

    test('about an unsent refund completes nothing', async () => {
      await placeAndPay(2);
      await cancel();
      const refund = await requestRefund(paid);
      expect(await settleReversal(refund)).toMatchObject({
        outcome: 'not_sent',
        refund: { status: 'requested' },
      });
      await withdrawRefund(refund);
    });
  });

  describe('when it is unknown whether it was sent', () => {
    test('it is queried, and never sent again', async () => {
      const refund = await sendRefund(lost);
      expect(refund).toMatchObject({ status: 'unknown' });
      expect(await workOf(refund)).toEqual([]);
      await later(refund, 2);
      expect(await workOf(refund)).toMatchObject([{ work: 'query' }]);
      expect(await workOf(refund)).toEqual([]);
      await expectRefusal(requestRefund(paid), 409, 'refund_exists');
      await expectRefusal(withdrawRefund(refund), 409, 'refund_changed');
      expect(await settleByStatus(refund, 'pending')).toMatchObject({ outcome: 'pending' });
      expect(await settleByStatus(refund, 'succeeded')).toMatchObject({ outcome: 'completed' });
      expect(await stateOf(order)).toMatchObject({ money: 'refunded' });
    });

    test('it fails only after a while when M-PESA still reports the payment as completed', async () => {
      const refund = await sendRefund(lost);
      expect(await settleByStatus(refund, 'not_reversed')).toMatchObject({
        outcome: 'pending',
        refund: { status: 'unknown' },
      });
      await later(refund, 11);
      expect(await settleByStatus(refund, 'not_reversed')).toMatchObject({ outcome: 'failed' });
    });

    test('it does not fail by that status when M-PESA accepted the request', async () => {
      const refund = await sendRefund();
      await later(refund, 60);
      expect(await settleByStatus(refund, 'not_reversed')).toMatchObject({ outcome: 'pending' });
      expect(await stateOf(order)).toMatchObject({ money: 'paid' });
      expect(await settleByStatus(refund, 'succeeded')).toMatchObject({ outcome: 'completed' });
    });

    test('a refund interrupted between leasing and sending is queried by one of several processes', async () => {
      await cancel();
      const refund = await requestRefund(paid);
      const leases = (await concurrently(8, () => workOf(refund))).flat();
      expect(leases).toMatchObject([{ work: 'send' }]);
      expect(await workOf(refund)).toEqual([]);
      await later(refund, 3);
      const leased = (await concurrently(8, () => workOf(refund))).flat();
      expect(leased).toMatchObject([
        { work: 'query', secret: leases[0]?.secret, refund: { status: 'unknown' } },
      ]);
      await settleByStatus(refund, 'succeeded');
    });

    test('"already reversed" completes only with the status of the payment', async () => {
      const refused = await sendRefund({ ...lost, refusal_code: 'R000001', refusal_description: 'already' });
      expect(refused).toMatchObject({ status: 'unknown', result_code: 'R000001' });
      expect(await workOf(refused)).toMatchObject([{ work: 'query' }]);
      await later(refused, 60);
      expect(await settleByStatus(refused, 'not_reversed')).toMatchObject({ outcome: 'pending' });
      expect(await settleByStatus(refused, 'succeeded')).toMatchObject({ outcome: 'completed' });

      await placeAndPay();
      const refund = await sendRefund();
      expect(
        await settleReversal(refund, {
          ...reversalFailed,
          result: 'already_reversed',
          result_code: 'R000001',
        }),
      ).toMatchObject({
        outcome: 'already_reversed',
      });
      expect(await settleByStatus(refund, 'succeeded')).toMatchObject({ outcome: 'completed' });
    });

    test('is not ended by the status of the payment once M-PESA has reported a reversal, in whatever amount', async () => {
      const refund = await sendRefund(lost);
      await later(refund, 60);
      expect(
        await settleReversal(refund, { refund_cents: 100, originator_conversation_id: null }),
      ).toMatchObject({ outcome: 'wrong_amount', refund: { status: 'unknown' } });
      expect(await settleByStatus(refund, 'not_reversed')).toMatchObject({
        outcome: 'pending',
        refund: { status: 'unknown' },
      });
    });

    test('a staff member resolves it with the receipt of M-PESA’s portal', async () => {
      const found = await sendRefund(lost);
      await expectRefusal(asStaff('close_unknown_refund', { refund_id: found.id }), 409, 'refund_too_fresh');
      const back = newReceipt();
      expect(
        await asStaff('close_unknown_refund', { refund_id: found.id, refund_receipt: back }),
      ).toMatchObject({
        status: 'completed',
        refund_receipt: back,
      });
      expect(await stateOf(order)).toMatchObject({ money: 'refunded' });

      await placeAndPay();
      const none = await sendRefund(lost);
      await later(none, 31);
      expect(await asStaff('close_unknown_refund', { refund_id: none.id })).toMatchObject({
        status: 'failed',
      });
      await expectRefusal(asStaff('close_unknown_refund', { refund_id: none.id }), 409, 'refund_changed');
    });
  });

  describe('by hand', () => {
    test('is recorded with its receipt, once', async () => {
      await cancel();
      const back = newReceipt();
      const noted = await noteRefundByHand(paid, ` ${back.toLowerCase()} `);
      expect(noted).toMatchObject({ method: 'by_hand', status: 'completed', refund_receipt: back });
      expect(await noteRefundByHand(paid, back)).toMatchObject({ id: noted.id });
      expect(await stateOf(order)).toMatchObject({
        money: 'refunded',
        payments: ['prompt completed, sent back'],
        stock: 5,
      });
      expect(await refundEvents()).toEqual(['staff refund_completed']);
      await expectRefusal(noteRefundByHand(paid), 409, 'refund_exists');
    });

    test('rejects the receipt of a received payment, and that of another refund', async () => {
      await cancel();
      await expectRefusal(noteRefundByHand(paid, paid.receipt ?? ''), 409, 'receipt_of_payment');
      await expectRefusal(noteRefundByHand(paid, 'no'), 400, 'receipt_invalid');
      const back = newReceipt();
      await noteRefundByHand(paid, back);
      await placeAndPay();
      await cancel();
      await expectRefusal(noteRefundByHand(paid, back), 409, 'refund_receipt_used');
    });

    test('rejects the receipt of money that came in and that no order has got', async () => {
      const code = newReceipt();
      await receive('who knows', code, { received_cents: cheap });
      await expectRefusal(noteRefundByHand(code, code), 409, 'receipt_of_payment');
      await cancel();
      await expectRefusal(noteRefundByHand(paid, code), 409, 'receipt_of_payment');
      expect(await stateOf(order)).toMatchObject({ money: 'paid', refunds: [] });
      expect(await noteRefundByHand(code)).toMatchObject({ status: 'completed', transaction_receipt: code });
    });

    test('is recorded once by ten concurrent staff members', async () => {
      await cancel();
      const answers = await settleAll(10, () => noteRefundByHand(paid));
      expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      expect(await stateOf(order)).toMatchObject({ refunds: ['by_hand completed'] });
    });

    test('cannot be recorded by changing the order, without receipt and second staff member', async () => {
      await placeAndPay(2);
      await cancel();
      for (const who of [first, second, people.service]) {
        await expectRefusal(
          callAs(who, 'resolve_paid_order', { order_id: order.id, resolution: 'refunded' }),
          409,
          'refund_by_receipt',
        );
      }
      expect(await stateOf(order)).toMatchObject({ money: 'paid', refunds: [] });
      expect(await requestRefund(paid)).toMatchObject({ needs_approval: true });
    });
  });

  describe('a payment without an order', () => {
    const unmatched = (code: string, received_cents = cheap) =>
      receive('who knows', code, { source: 'statement', received_cents });
    const historyOf = (code: string) =>
      readColumn(
        `select kind || ' ' || note from public.reconciliation_events where receipt = $1 order by id`,
        [code],
      );

    test('is refunded by its receipt, once', async () => {
      const code = newReceipt();
      await unmatched(code);
      const requests = await Promise.allSettled([
        requestRefund(code),
        requestRefund(code),
        requestRefund(code),
      ]);
      expect(requests.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      const [{ work, refund } = { work: '', refund: {} as Refund }] = (await leaseRefunds()).filter(
        (leased) => leased.refund.receipt === code,
      );
      expect([work, refund.refund_cents]).toEqual(['send', cheap]);
      expect(await settleReversal(await recordReversalPush(refund))).toMatchObject({ outcome: 'completed' });
      await expectRefusal(requestRefund(code), 409, 'refund_exists');
    });

    test('above the limit needs another staff member', async () => {
      const code = newReceipt();
      await unmatched(code, dear);
      const refund = await requestRefund(code);
      expect(refund).toMatchObject({ status: 'requested', needs_approval: true });
      await expectRefusal(approveRefund(refund, first), 403, 'second_member_needed');
      expect(await approveRefund(refund)).toMatchObject({ status: 'approved' });
      await withdrawRefund(refund);
    });

    test('that is matched to an order before its refund was sent is not refunded', async () => {
      const code = newReceipt();
      await unmatched(code);
      await requestRefund(code);
      order = await place(product);
      await settle(await prompt(order), { receipt: code });
      expect(await stateOf(order)).toMatchObject({ money: 'paid', refunds: ['reversal withdrawn'] });
      expect((await leaseRefunds()).filter(({ refund }) => refund.receipt === code)).toEqual([]);
    });

    test('that is matched to an order after its refund was sent is refunded, and pays nothing', async () => {
      const code = newReceipt();
      await unmatched(code);
      const refund = await requestRefund(code);
      order = await place(product);
      const payment = await prompt(order);
      await workOf(refund);
      await settle(payment, { receipt: code });
      expect(await stateOf(order)).toMatchObject({ money: 'unpaid', refunds: ['reversal sending'] });
      await settleReversal(await recordReversalPush(refund));
      expect(await stateOf(order)).toMatchObject({
        status: 'pending',
        money: 'unpaid',
        refunds: ['reversal completed'],
      });
    });

    test('is open again after a withdrawn refund, which its history shows', async () => {
      const code = newReceipt();
      await unmatched(code);
      const failing = await requestRefund(code);
      await workOf(failing);
      await settleReversal(failing, reversalFailed);
      const refund = await requestRefund(code);
      await withdrawRefund(refund);
      expect(await historyOf(code)).toEqual([
        expect.stringMatching(/^refund /),
        expect.stringMatching(/^reopened The refund failed/),
        expect.stringMatching(/^refund /),
        'reopened The refund was withdrawn',
      ]);
    });

    test('can be refunded by hand, and pays no order', async () => {
      const code = newReceipt();
      await unmatched(code);
      const back = newReceipt();
      const note = () => noteRefundByHand(code, back);
      const noted = await note();
      expect(noted).toMatchObject({ status: 'completed', refund_cents: cheap });
      expect(await note()).toMatchObject({ id: noted.id });
      expect(await historyOf(code)).toEqual([`refund By hand, receipt ${back}: Sent by hand`]);
      expect(
        await readValue('select resolution from public.mpesa_transactions where receipt = $1', [code]),
      ).toBe('refund');
      await expectRefusal(requestRefund(paid.receipt ?? ''), 404, 'payment_not_found');
      await unmatched(paid.receipt ?? '');
      await expectRefusal(requestRefund(paid.receipt ?? ''), 409, 'nothing_to_send_back');
    });

    test('refunds no more than the amount that M-PESA reported after the request', async () => {
      order = await place(product);
      const code = newReceipt();
      const { payment } = await confirm(order, code);
      await cancel();
      const refund = await requestRefund(payment);
      await receive(order, code, { source: 'statement', received_cents: 5_000 });
      expect(await workOf(refund)).toEqual([]);
      expect(await stateOf(order)).toMatchObject({ refunds: ['reversal withdrawn'] });
      expect(await refundEvents()).toContain('shop refund_withdrawn');
      await expectRefusal(requestRefund(payment), 409, 'amount_differs');
    });

    test('refunds no more than the amount that M-PESA reported, even if staff entered more', async () => {
      order = await place(product);
      const code = newReceipt();
      const { payment } = await confirm(order, code);
      await cancel();
      await unmatched(code, 5_000);
      await expectRefusal(requestRefund(payment), 409, 'amount_differs');
    });
  });

  test.each([1, 2, 3, 4])(
    'concurrent calls in every order (seed %i): no money is refunded twice, and the records show every refund',
    async (seed) => {
      const draw = drawing(seed);
      const orders: { order: PlacedOrder; payment: Payment }[] = [];
      for (let count = 0; count < 5; count += 1) {
        const placed = await place(product, { quantity: 1 + (count % 2) });
        const { payment } = await pay(placed);
        await setStatus(placed, 'cancelled');
        orders.push({ order: placed, payment });
      }
      // Reversals by M-PESA, by receipt, and requests without a result.
      const reversed = new Set<string>();
      const handed = new Set<string>();
      const pendingResults: { refund: Refund; isDone: boolean }[] = [];
      const one = () => orders[draw(orders.length)] as (typeof orders)[number];
      const newestRefund = ({ id }: Payment) =>
        readRow<Refund>(
          'select * from public.refunds where payment_id = $1 order by created_at desc limit 1',
          [id],
        );
      const send = async () => {
        for (const { work, refund } of await leaseRefunds()) {
          if (work !== 'send') continue;
          const code = refund.receipt ?? '';
          const fate = draw(4);
          const isDone = fate < 3 && !reversed.has(code);
          if (isDone) reversed.add(code);
          if (fate < 3) pendingResults.push({ refund, isDone });
          // The shop may be killed before it records the answer.
          if (draw(5) === 0) continue;
          if (fate === 3) await recordReversalPush(refund, { ...lost, refusal_code: '400.002.02' });
          else await recordReversalPush(refund, fate === 2 ? lost : {});
        }
      };
      const deliverResult = async () => {
        const [next] = pendingResults.splice(draw(pendingResults.length), 1);
        if (!next) return;
        const { refund, isDone } = next;
        const back = newReceipt();
        const change = isDone
          ? { refund_receipt: back }
          : { ...reversalFailed, result: 'already_reversed', result_code: 'R000001' };
        await Promise.all([
          settleReversal(refund, { ...change, originator_conversation_id: null }),
          settleReversal(refund, { ...change, originator_conversation_id: null }),
        ]);
      };
      const acts: (() => Promise<unknown>)[] = [
        () => requestRefund(one().payment, { by: draw(2) ? first : second }),
        async () => {
          const refund = await newestRefund(one().payment);
          if (refund) await approveRefund(refund, draw(2) ? first : second);
        },
        async () => {
          const refund = await newestRefund(one().payment);
          if (refund && draw(3) === 0) await withdrawRefund(refund);
        },
        async () => {
          const { payment } = one();
          // Else all could go back by hand first, and M-PESA would have nothing to do.
          if (draw(4) === 0 && reversed.size > 0) {
            await noteRefundByHand(payment);
            expect(reversed, 'nothing goes back by hand that M-PESA has sent').not.toContain(payment.receipt);
            handed.add(payment.receipt ?? '');
          }
        },
        async () => setStatus(one().order, draw(2) ? 'processing' : 'cancelled'),
        send,
        send,
        deliverResult,
        deliverResult,
      ];
      for (let round = 0; round < 25 || (reversed.size === 0 && round < 100); round += 1) {
        const done = await settleAll(8, () => (acts[draw(acts.length)] as () => Promise<unknown>)());
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
      await leaseRefunds();
      for (const { payment } of orders) {
        const refund = await newestRefund(payment);
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
    await cancel();
    for (const who of [people.customer, people['former staff'], people['half-way staff']]) {
      await expectRefusal(requestRefund(paid, { by: who }), 403, 'staff_only');
    }
    const refund = await requestRefund(paid);
    for (const [procedure, given] of [
      ['lease_refunds', {}],
      ['settle_reversal', { refund_id: refund.id, source: 'reversal_result', body: '', result: 'succeeded' }],
      ['record_reversal_push', { refund_id: refund.id, body: '' }],
    ] as const) {
      await expect(callAs(first, procedure, given)).rejects.toMatchObject({ code: '42501' });
    }
  });

  // Positive controls: the invariants of refunds can fail.
  const insertRefund = (cents: string) =>
    `insert into public.refunds (payment_id, receipt, refund_cents, reason, method, status)
     select id, receipt, ${cents}, 'wrong', 'by_hand', 'completed' from public.payments where id = $1`;
  const markRefunded = 'update public.payments set refunded_at = now() where id = $1';
  test.each([
    ['a payment is refunded if and only if its refund is completed', [markRefunded]],
    ['a payment is refunded if and only if its refund is completed', [insertRefund('charge_cents')]],
    ['a payment is refunded once, up to its amount', [insertRefund('charge_cents + 100')]],
    [
      'an order is refunded if and only if its own money was refunded',
      [insertRefund('charge_cents'), markRefunded],
    ],
    [
      'a refund by M-PESA is completed by M-PESA or by staff',
      [insertRefund('charge_cents'), `update public.refunds set method = 'reversal' where payment_id = $1`],
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
