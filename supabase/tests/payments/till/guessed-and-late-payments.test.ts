// Payments with a guessed tracking number, payments that are already being refunded, and late receipts.
import { testDatabases } from '@jani-juice/backend/testing';
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest';
import { expectRefusal, makeProduct, type PlacedOrder } from '../../shop-database.ts';
import { byQuery, failed, newReceipt, setUpShop } from '../../steps.ts';
import { expectBalancedBooks } from '../books/balanced-books.ts';
import { expectExplainedDays } from '../books/explained-days.ts';

const charge = 95_100;

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, asStaff, asService, readRows, readColumn, readValue, place, track } = shop;
  const { trackAsCustomer, setStatus, stateOf, begin, prompt, beginTest, settle, receive, confirm } = shop;
  const { assign, paymentOf, reconciliationRow, requestRefund, withdrawRefund, noteRefundByHand } = shop;
  const { leaseRefunds, recordReversalPush, settleReversal, refundOf } = shop;
  let product: string;
  let order: PlacedOrder;

  beforeEach(async () => {
    await database.execute('delete from private.rate_limits');
    product = await makeProduct(database, 5);
    order = await place(product);
  });
  afterEach(() => expectBalancedBooks(database));
  afterAll(() => expectExplainedDays(shop));

  const books = (placed = order) => stateOf(placed, { withReceipts: true });

  describe('less than the charge, with a typed tracking number', () => {
    test('leaves the order unpaid with its stock reserved, to be paid in full', async () => {
      const code = newReceipt();
      const payment = await prompt(order);
      expect(await receive(order, code, { received_cents: 100 })).toMatchObject({
        outcome: 'unmatched',
        payment: null,
      });
      expect(await books()).toMatchObject({
        status: 'pending',
        money: 'unpaid',
        payments: ['prompt processing 951'],
        stock: 4,
      });
      expect(await settle(payment)).toMatchObject({ outcome: 'paid', payment: { needs_refund: false } });
      expect(await books()).toMatchObject({ status: 'processing', money: 'paid', stock: 4 });
    });

    test('is listed for staff with its order, and can be refunded', async () => {
      const code = newReceipt();
      await receive(order, code, { received_cents: 100 });
      await receive(order, code, { source: 'statement', received_cents: 100 });
      expect(await reconciliationRow(code)).toMatchObject({
        kind: 'wrong_amount',
        is_open: true,
        order_id: order.id,
      });
      await asStaff('resolve_difference', { decision: 'refund', receipt: code });
      expect(await reconciliationRow(code)).toMatchObject({ is_open: false });
      expect(await books()).toMatchObject({ status: 'pending', money: 'unpaid' });
    });

    test('is shown to its customer only', async () => {
      await receive(order, newReceipt(), { received_cents: 50_000 });
      expect(await trackAsCustomer(order)).toMatchObject({
        payment_status: 'unpaid',
        part_paid_cents: 50_000,
      });
      expect(await track(order)).not.toHaveProperty('part_paid_cents');
    });

    test('does not prevent the customer from paying', async () => {
      await receive(order, newReceipt(), { received_cents: 100 });
      expect(await begin(order)).toMatchObject({
        is_new: true,
        payment: { status: 'initiating', charge_cents: charge },
      });
    });

    test('does not change a paid order', async () => {
      await receive(order);
      const code = newReceipt();
      await receive(order, code, { received_cents: 100 });
      expect(await books()).toMatchObject({
        status: 'processing',
        money: 'paid',
        payments: [expect.any(String)],
      });
      expect(await reconciliationRow(code)).toMatchObject({ kind: 'wrong_amount', is_open: true });
    });

    test('pays the order once staff have assigned parts that add up to the charge', async () => {
      const [first, second] = [newReceipt(), newReceipt()];
      await receive(order, first, { received_cents: 50_000 });
      await receive(order, second, { received_cents: 45_100 });
      expect(await assign(order, first)).toMatchObject({ outcome: 'paid_needs_review' });
      expect(await assign(order, second)).toMatchObject({ outcome: 'paid' });
      expect(await books()).toMatchObject({
        status: 'processing',
        money: 'paid',
        payments: [`till completed ${first} 500`, `till completed ${second} 451`],
        stock: 4,
      });
      // Both are refunded before the order counts as refunded.
      await setStatus(order, 'cancelled');
      for (const [code, money] of [
        [first, 'paid'],
        [second, 'refunded'],
      ] as const) {
        await requestRefund(await paymentOf(code));
        await leaseRefunds();
        expect(await settleReversal(await refundOf(code))).toMatchObject({ outcome: 'completed' });
        expect(await books()).toMatchObject({ status: 'cancelled', money });
        if (code === first) await expectPartlyRefunded();
      }
    });

    async function expectPartlyRefunded(): Promise<void> {
      await expectRefusal(
        asStaff('set_order_status', {
          order_id: order.id,
          status: 'processing',
          expected_status: 'cancelled',
          expected_payment_status: 'paid',
        }),
        409,
        'partly_refunded',
      );
      expect(await trackAsCustomer(order)).toMatchObject({
        paid_cents: 95_100,
        refunded_cents: 50_000,
      });
      expect(await track(order)).not.toHaveProperty('refunded_cents');
    }

    test('in part needs review while another part is refunded', async () => {
      const [first, second] = [newReceipt(), newReceipt()];
      const { payment } = await confirm(order, first, { received_cents: 50_000 });
      await requestRefund(payment);
      expect(await confirm(order, second, { received_cents: 45_100 })).toMatchObject({
        outcome: 'paid_needs_review',
        payment: { needs_refund: false },
      });
      expect(await books()).toMatchObject({ status: 'pending', money: 'needs_review' });
    });

    test('is refunded when it exceeds the rest of the charge', async () => {
      const [first, second] = [newReceipt(), newReceipt()];
      await confirm(order, first, { received_cents: 50_000 });
      expect(await confirm(order, second, { received_cents: 50_000 })).toMatchObject({
        outcome: 'paid_twice',
        payment: { needs_refund: true },
      });
      expect(await books()).toMatchObject({ status: 'pending', money: 'needs_review' });
    });
  });

  describe('an order in review because of another amount', () => {
    test('is paid by the full charge, and the first part is refunded, which is shown to the customer only', async () => {
      const payment = await prompt(order);
      const part = newReceipt();
      await confirm(order, part, { received_cents: 50_000 });
      expect(await books()).toMatchObject({ status: 'pending', money: 'needs_review' });
      const code = newReceipt();
      expect(await settle(payment, { receipt: code })).toMatchObject({
        outcome: 'paid',
        payment: { needs_refund: false },
      });
      expect(await books()).toMatchObject({
        status: 'processing',
        money: 'paid',
        payments: [`prompt completed ${code} 951`, `till completed ${part} 500, needs refund`],
        stock: 4,
      });
      expect(await trackAsCustomer(order)).toMatchObject({
        payment_status: 'paid',
        paid_cents: 95_100,
        surplus_cents: 50_000,
      });
      expect(await track(order)).not.toHaveProperty('surplus_cents');
    });

    test('answers a new payment with a promise to call, not with paid', async () => {
      await confirm(order, newReceipt(), { received_cents: 50_000 });
      await expectRefusal(begin(order), 409, 'payment_needs_review');
    });
  });

  describe('a payment with a refund', () => {
    test.each(['requested', 'sent', 'completed'])(
      'cannot be assigned to an order while its refund is %s',
      async (stage) => {
        const code = newReceipt();
        await receive('NOTHING', code);
        await requestRefund(code);
        if (stage !== 'requested') await leaseRefunds();
        if (stage === 'completed') await settleReversal(await refundOf(code));
        await expectRefusal(confirm(order, code), 409, 'refund_exists');
        await expectRefusal(assign(order, code), 409, 'refund_exists');
        expect(await books()).toMatchObject({ status: 'pending', money: 'unpaid', payments: [] });
      },
    );

    test('whose refund was only requested pays the order when the callback of its prompt arrives', async () => {
      const payment = await prompt(order);
      const code = newReceipt();
      await receive('', code);
      await asStaff('resolve_difference', { decision: 'refund', receipt: code, is_sure: true });
      expect(await settle(payment, { receipt: code })).toMatchObject({ outcome: 'paid' });
      expect(await refundOf(code)).toMatchObject({ status: 'withdrawn' });
      await leaseRefunds();
      expect(await refundOf(code)).toMatchObject({ status: 'withdrawn' });
      expect(await books()).toMatchObject({ status: 'processing', money: 'paid', stock: 4 });
      await setStatus(order, 'shipped');
    });

    test('whose refund was sent to M-PESA leaves the order unpaid, and the customer gets no receipt', async () => {
      const payment = await prompt(order);
      const code = newReceipt();
      await receive('', code);
      await requestRefund(code);
      await leaseRefunds();
      expect(await settle(payment, { receipt: code })).toMatchObject({
        outcome: 'goes_back',
        payment: { needs_refund: true },
      });
      expect(await books()).toMatchObject({ status: 'pending', money: 'unpaid', stock: 4 });
      expect(await asService('find_payment', { reference: payment.id })).toMatchObject({ status: 'review' });
      const checked = async () => (await track(order)).payment_check;
      expect(await checked()).toBe('goes_back');
      expect(await settleReversal(await refundOf(code))).toMatchObject({ outcome: 'completed' });
      expect(await books()).toMatchObject({
        status: 'pending',
        money: 'unpaid',
        payments: [`prompt completed ${code} 951, needs refund, sent back`],
      });
      expect(await checked()).toBeUndefined();
      // It can be paid again.
      const again = await prompt(order);
      expect(await settle(again)).toMatchObject({ outcome: 'paid' });
    });

    test('whose reference arrives later in the statement pays the order only before its refund was sent', async () => {
      const [early, late] = [newReceipt(), newReceipt()];
      for (const code of [early, late]) {
        await receive('', code);
        await requestRefund(code);
        if (code === late) await leaseRefunds();
        else
          expect(await receive(order, code, { source: 'statement' })).toMatchObject({
            outcome: 'paid',
          });
      }
      const second = await place(product);
      expect(await receive(second, late, { source: 'statement' })).toMatchObject({
        outcome: 'goes_back',
      });
      expect(await books(second)).toMatchObject({ status: 'pending', money: 'unpaid' });
    });

    test('can be resolved again after a withdrawn or failed refund', async () => {
      const code = newReceipt();
      await receive('', code);
      for (const end of ['withdrawn', 'failed'] as const) {
        await asStaff('resolve_difference', { decision: 'refund', receipt: code, is_sure: true });
        const refund = await refundOf(code);
        if (end === 'withdrawn') await withdrawRefund(refund);
        else {
          await leaseRefunds();
          await recordReversalPush(refund, { refusal_code: '404.001.04', refusal_description: 'no' });
        }
        expect(await refundOf(code)).toMatchObject({ status: end });
        expect(await reconciliationRow(code)).toMatchObject({ is_open: true, kind: 'missing_here' });
      }
      expect(await assign(order, code)).toMatchObject({ outcome: 'paid' });
    });
  });

  describe('a late receipt', () => {
    /** A prompt with a lost callback, whose order was cancelled, and whose payment staff refunded by hand. */
    async function sentBackByHand() {
      const payment = await prompt(order);
      await settle(payment, byQuery);
      await setStatus(order, 'cancelled');
      await noteRefundByHand(payment);
      return payment;
    }

    test('of a payment that staff refunded by hand is matched, and not refunded again', async () => {
      const payment = await sentBackByHand();
      const code = newReceipt();
      expect(await receive(order, code, { source: 'statement' })).toMatchObject({
        outcome: 'already_completed',
        payment: { id: payment.id },
      });
      expect(await settle(payment, { receipt: code })).toMatchObject({ outcome: 'already_completed' });
      expect(await books()).toMatchObject({
        status: 'cancelled',
        money: 'refunded',
        payments: [`prompt completed ${code} 951, sent back`],
      });
      await expectRefusal(requestRefund(payment), 409, 'refund_exists');
    });

    test('of a payment that was refunded twice is stored without an error', async () => {
      const payment = await sentBackByHand();
      const code = newReceipt();
      await receive('', code);
      await asStaff('resolve_difference', { decision: 'refund', receipt: code, is_sure: true });
      expect(await settle(payment, { receipt: code })).toMatchObject({ outcome: 'already_completed' });
      const { rows } = await database.query(
        `select m.outcome from public.payment_messages as m where m.payment_id = $1 and m.source = 'callback'`,
        [payment.id],
      );
      expect(rows).toEqual([{ outcome: 'already_completed' }]);
    });
  });

  describe('a payment with a lost callback and a confirmation without an order', () => {
    test('is suggested for its order first, and refunded only with explicit consent', async () => {
      const payment = await prompt(order);
      await settle(payment, byQuery);
      const code = newReceipt();
      await receive('', code);
      const found = await asStaff<{ id: string; lacks_receipt: boolean }>('suggest_orders', {
        receipt: code,
      });
      expect(found).toMatchObject({ id: order.id, lacks_receipt: true });
      await expectRefusal(
        asStaff('resolve_difference', { decision: 'refund', receipt: code }),
        409,
        'may_be_of_order',
      );
      await expectRefusal(
        asStaff('request_refund', { receipt: code, reason: 'Not for any order' }),
        409,
        'may_be_of_order',
      );
      expect(await assign(order, code)).toMatchObject({ outcome: 'joined' });
      expect(await books()).toMatchObject({
        status: 'processing',
        money: 'paid',
        payments: [`prompt completed ${code} 951`],
        stock: 4,
      });
    });
  });

  describe('an amount below the one that staff entered', () => {
    test('stops an order that has not been handed over', async () => {
      const code = newReceipt();
      await confirm(order, code);
      await receive(order, code, { source: 'statement', received_cents: 100 });
      expect(await books()).toMatchObject({
        status: 'pending',
        money: 'needs_review',
        payments: [`till completed ${code} 1`],
        stock: 5,
      });
      expect(await reconciliationRow(code)).toMatchObject({ kind: 'wrong_amount', is_open: true });
      await asStaff('resolve_paid_order', { order_id: order.id, resolution: 'deliver' });
      await receive(order, code, { source: 'statement', received_cents: 100 });
      expect(await books()).toMatchObject({ status: 'processing', money: 'paid', stock: 4 });
    });

    test('is shown when the order has been handed over', async () => {
      const code = newReceipt();
      await confirm(order, code);
      await setStatus(order, 'shipped');
      await receive(order, code, { source: 'statement', received_cents: 100 });
      expect(await books()).toMatchObject({ status: 'shipped', money: 'paid' });
      expect(await reconciliationRow(code)).toMatchObject({ kind: 'wrong_amount', is_open: true });
    });
  });

  test('a stored callback is listed until it is settled, once', async () => {
    const payment = await prompt(order);
    const messageId = await readValue(
      `select stored.message_id::text
       from private.payment_secrets as s, public.store_callback(s.callback_secret, '{"messageId":1}') as stored
       where s.payment_id = $1`,
      [payment.id],
    );
    await database.query(
      `update public.payment_messages set received_at = now() - interval '10 minutes' where id = $1`,
      [messageId],
    );
    const unsettled = () => readColumn('select id::text from public.list_unsettled_callbacks(50)');
    expect(await unsettled()).toEqual([messageId]);
    expect(await asStaff('statement_status')).toMatchObject({ unsettled_messages: 1 });
    const settleStored = (result: string) =>
      settle(payment, { ...failed, message_id: messageId, body: '{"messageId":1}', result });
    expect(await settleStored('failed')).toMatchObject({ outcome: 'failed', payment: { status: 'failed' } });
    expect(await unsettled()).toEqual([]);
    // A second process that has listed it, too.
    expect(await settleStored('pending')).toMatchObject({ outcome: 'failed', payment: { status: 'failed' } });
    const stored = await readRows(
      'select from public.payment_messages where payment_id = $1 and source = $2',
      [payment.id, 'callback'],
    );
    expect(stored).toHaveLength(1);
  });

  describe('the payment of a KSh 1 test', () => {
    test('is matched by its confirmation when only a query had completed it', async () => {
      const payment = await beginTest();
      await settle(payment, byQuery);
      const code = newReceipt();
      await receive('TEST', code, { received_cents: 100 });
      expect(await readRows('select receipt from public.payments where id = $1', [payment.id])).toEqual([
        { receipt: code },
      ]);
      expect(await reconciliationRow(code)).toBeUndefined();
    });

    test('cannot pay an order', async () => {
      const code = newReceipt();
      await settle(await beginTest(), { receipt: code });
      await expectRefusal(confirm(order, code), 409, 'receipt_of_test');
      await receive(order, code, { source: 'statement' });
      expect(await books()).toMatchObject({ status: 'pending', money: 'unpaid', payments: [] });
    });
  });
});
