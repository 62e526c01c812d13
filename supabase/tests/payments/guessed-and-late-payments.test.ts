// Payments with a guessed tracking number, payments that are already being refunded, and late receipts.
import { randomBytes, randomInt, randomUUID } from 'node:crypto';
import type { Database } from '@jani-juice/backend/database';
import { testDatabases } from '@jani-juice/backend/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Database as Types } from '../../types.ts';
import {
  call,
  expectRefusal,
  makeProduct,
  openShopDatabase,
  orderForm,
  type PlacedOrder,
  personIds,
  stockOf,
} from '../shop-database.ts';
import { expectBalancedBooks } from './balanced-books.ts';

type Payment = Types['public']['Tables']['payments']['Row'];
type Refund = Types['public']['Tables']['refunds']['Row'];
interface Settled {
  outcome: string;
  payment: Payment | null;
}

const receipt = () => `UKL${randomBytes(4).toString('hex').toUpperCase().slice(0, 7)}`;
const charge = 95_100;
const today = () => new Date(Date.now() + 3 * 3_600_000).toISOString().slice(0, 10);

describe.each(testDatabases())('on %s', (kind) => {
  let database: Database;
  let product: string;
  let order: PlacedOrder;

  beforeAll(async () => {
    database = await openShopDatabase(kind);
  });
  afterAll(() => database.close());
  beforeEach(async () => {
    await database.execute('delete from private.rate_limits');
    product = await makeProduct(database, 5);
    order = await place();
  });
  afterEach(() => expectBalancedBooks(database));

  const service = <Answer>(procedure: string, given: Record<string, unknown> = {}) =>
    call<Answer>(database, 'service', procedure, given);
  const staff = <Answer>(procedure: string, given: Record<string, unknown> = {}) =>
    call<Answer>(database, 'staff', procedure, given);
  const place = () =>
    call<PlacedOrder>(database, 'visitor', 'place_order', {
      ...orderForm(product),
      quantity: 1,
      expected_total: charge,
    });
  const begin = (placed = order) =>
    service<{ is_new: boolean; payment: Payment }>('begin_payment', {
      order_id: placed.id,
      tracking_number: placed.tracking_number,
      phone: `07${String(randomInt(100_000_000)).padStart(8, '0')}`,
      callback_secret: randomBytes(32).toString('hex'),
    });
  const prompt = async (placed = order) =>
    service<Payment>('record_push', {
      payment_id: (await begin(placed)).payment.id,
      body: '{}',
      checkout_request_id: `ws_CO_${randomBytes(8).toString('hex')}`,
    });
  const callback = (payment: Payment, code = receipt()) =>
    service<Settled>('settle_payment', {
      payment_id: payment.id,
      source: 'callback',
      body: `{"receipt":"${code}"}`,
      result: 'succeeded',
      result_code: '0',
      received_cents: payment.charge_cents,
      receipt: code,
      checkout_request_id: payment.checkout_request_id,
    });
  /** M-PESA's answer to a query: neither amount nor receipt. */
  const query = (payment: Payment) =>
    service<Settled>('settle_payment', {
      payment_id: payment.id,
      source: 'query',
      body: '{}',
      result: 'succeeded',
      result_code: '0',
      checkout_request_id: payment.checkout_request_id,
    });
  const receive = (
    code: string,
    cents = charge,
    reference = order.tracking_number,
    source = 'confirmation',
  ) =>
    service<Settled>('receive_mpesa_transaction', {
      source,
      receipt: code,
      received_cents: cents,
      reference,
      body: '{}',
    });
  const confirm = (code: string, cents = charge, placed = order) =>
    staff<Settled>('confirm_till_payment', { order_id: placed.id, receipt: code, received_cents: cents });
  const give = (code: string, placed = order) =>
    staff<{ outcome: string }>('resolve_difference', {
      decision: 'give',
      receipt: code,
      order_id: placed.id,
    });
  const cancel = () => setStatus('cancelled');
  const setStatus = async (status: string) => {
    const answer = await database.query(`update public.orders set status = $2 where id = $1`, [
      order.id,
      status,
    ]);
    return answer;
  };
  const refundOf = async (code: string) =>
    (
      await database.query<Refund>(
        'select * from public.refunds where receipt = $1 order by created_at desc',
        [code],
      )
    ).rows[0];
  /** Sends every due refund, which M-PESA accepts. */
  const sendRefunds = () => service('lease_refunds', { at_most: 50 });
  const sentBack = async (code: string) => {
    const refund = await refundOf(code);
    return service<{ outcome: string }>('settle_reversal', {
      refund_id: refund?.id,
      source: 'reversal_result',
      body: '{}',
      result: 'succeeded',
      result_code: '0',
      refund_receipt: receipt(),
      refund_cents: refund?.refund_cents,
    });
  };
  const rowOf = async (code: string) =>
    (
      await staff<{ rows: { id: string; kind: string; is_open: boolean; order_id: string | null }[] }>(
        'reconciliation_day',
        { day: today() },
      )
    ).rows.find((row) => row.id === code);

  /** The state of an order and its payments. */
  async function books(placed = order) {
    const { rows } = await database.query<{ money: string; payments: string[] }>(
      `select o.status || ', ' || o.payment_status as money,
              coalesce((select json_agg(concat_ws(' ', p.method, p.status, p.receipt, p.charge_cents / 100)
                || case when p.needs_refund then ', needs refund' else '' end
                || case when p.refunded_at is not null then ', sent back' else '' end order by p.created_at, p.id)
                from public.payments as p where p.order_id = o.id), '[]') as payments
       from public.orders as o where o.id = $1`,
      [placed.id],
    );
    return { ...rows[0], stock: await stockOf(database, product) };
  }

  describe('less than the charge, with a typed tracking number', () => {
    test('leaves the order unpaid with its stock reserved, to be paid in full', async () => {
      const code = receipt();
      const payment = await prompt();
      expect(await receive(code, 100)).toMatchObject({ outcome: 'unmatched', payment: null });
      expect(await books()).toEqual({
        money: 'pending, unpaid',
        payments: ['prompt processing 951'],
        stock: 4,
      });
      expect(await callback(payment)).toMatchObject({ outcome: 'paid', payment: { needs_refund: false } });
      expect(await books()).toMatchObject({ money: 'processing, paid', stock: 4 });
    });

    test('is listed for staff with its order, and can be refunded', async () => {
      const code = receipt();
      await receive(code, 100);
      await receive(code, 100, order.tracking_number, 'statement');
      expect(await rowOf(code)).toMatchObject({ kind: 'wrong_amount', is_open: true, order_id: order.id });
      await staff('resolve_difference', { decision: 'refund', receipt: code });
      expect(await rowOf(code)).toMatchObject({ is_open: false });
      expect(await books()).toMatchObject({ money: 'pending, unpaid' });
    });

    test('is shown to its customer only', async () => {
      await receive(receipt(), 50_000);
      const look = (proof: Record<string, unknown>) =>
        call<{ payment_status: string; part_paid_cents?: number }>(database, 'visitor', 'track_order', {
          tracking_number: order.tracking_number,
          ...proof,
        });
      expect(await look({ access_key: order.access_key })).toMatchObject({
        payment_status: 'unpaid',
        part_paid_cents: 50_000,
      });
      expect(await look({})).not.toHaveProperty('part_paid_cents');
    });

    test('does not prevent the customer from paying', async () => {
      await receive(receipt(), 100);
      expect(await begin()).toMatchObject({
        is_new: true,
        payment: { status: 'initiating', charge_cents: charge },
      });
    });

    test('does not change a paid order', async () => {
      await receive(receipt());
      const code = receipt();
      await receive(code, 100);
      expect(await books()).toMatchObject({ money: 'processing, paid', payments: [expect.any(String)] });
      expect(await rowOf(code)).toMatchObject({ kind: 'wrong_amount', is_open: true });
    });

    test('pays the order once staff have assigned parts that add up to the charge', async () => {
      const [first, second] = [receipt(), receipt()];
      await receive(first, 50_000);
      await receive(second, 45_100);
      expect(await give(first)).toMatchObject({ outcome: 'paid_needs_review' });
      expect(await give(second)).toMatchObject({ outcome: 'paid' });
      expect(await books()).toEqual({
        money: 'processing, paid',
        payments: [`till completed ${first} 500`, `till completed ${second} 451`],
        stock: 4,
      });
      // Both are refunded before the order counts as refunded.
      await cancel();
      for (const [code, money] of [
        [first, 'cancelled, paid'],
        [second, 'cancelled, refunded'],
      ] as const) {
        const { rows } = await database.query<Payment>('select * from public.payments where receipt = $1', [
          code,
        ]);
        await staff('request_refund', { payment_id: rows[0]?.id, reason: 'Cancelled' });
        await sendRefunds();
        expect(await sentBack(code)).toMatchObject({ outcome: 'completed' });
        expect(await books()).toMatchObject({ money });
        if (code === first) await expectPartlyRefunded();
      }
    });

    async function expectPartlyRefunded(): Promise<void> {
      await expectRefusal(
        staff('set_order_status', {
          order_id: order.id,
          status: 'processing',
          expected_status: 'cancelled',
          expected_payment_status: 'paid',
        }),
        409,
        'partly_refunded',
      );
      const look = (proof: Record<string, unknown>) =>
        call(database, 'visitor', 'track_order', { tracking_number: order.tracking_number, ...proof });
      expect(await look({ access_key: order.access_key })).toMatchObject({
        paid_cents: 95_100,
        refunded_cents: 50_000,
      });
      expect(await look({})).not.toHaveProperty('refunded_cents');
    }

    test('in part needs review while another part is refunded', async () => {
      const [first, second] = [receipt(), receipt()];
      await confirm(first, 50_000);
      const { rows } = await database.query<Payment>('select * from public.payments where receipt = $1', [
        first,
      ]);
      await staff('request_refund', { payment_id: rows[0]?.id, reason: 'Too little' });
      expect(await confirm(second, 45_100)).toMatchObject({
        outcome: 'paid_needs_review',
        payment: { needs_refund: false },
      });
      expect(await books()).toMatchObject({ money: 'pending, needs_review' });
    });

    test('is refunded when it exceeds the rest of the charge', async () => {
      const [first, second] = [receipt(), receipt()];
      await confirm(first, 50_000);
      expect(await confirm(second, 50_000)).toMatchObject({
        outcome: 'paid_twice',
        payment: { needs_refund: true },
      });
      expect(await books()).toMatchObject({ money: 'pending, needs_review' });
    });
  });

  describe('an order in review because of another amount', () => {
    test('is paid by the full charge, and the first part is refunded, which is shown to the customer only', async () => {
      const payment = await prompt();
      const part = receipt();
      await confirm(part, 50_000);
      expect(await books()).toMatchObject({ money: 'pending, needs_review' });
      const code = receipt();
      expect(await callback(payment, code)).toMatchObject({
        outcome: 'paid',
        payment: { needs_refund: false },
      });
      expect(await books()).toEqual({
        money: 'processing, paid',
        payments: [`prompt completed ${code} 951`, `till completed ${part} 500, needs refund`],
        stock: 4,
      });
      const look = (proof: Record<string, unknown>) =>
        call(database, 'visitor', 'track_order', { tracking_number: order.tracking_number, ...proof });
      expect(await look({ access_key: order.access_key })).toMatchObject({
        payment_status: 'paid',
        paid_cents: 95_100,
        surplus_cents: 50_000,
      });
      expect(await look({})).not.toHaveProperty('surplus_cents');
    });

    test('answers a new payment with a promise to call, not with paid', async () => {
      await confirm(receipt(), 50_000);
      await expectRefusal(begin(), 409, 'payment_needs_review');
    });
  });

  describe('a payment with a refund', () => {
    const askBack = (code: string) =>
      staff('request_refund', {
        receipt: code,
        reason: 'Not for any order',
        is_sure: true,
      });

    test.each(['requested', 'sent', 'completed'])(
      'cannot be assigned to an order while its refund is %s',
      async (stage) => {
        const code = receipt();
        await receive(code, charge, 'NOTHING');
        await askBack(code);
        if (stage !== 'requested') await sendRefunds();
        if (stage === 'completed') await sentBack(code);
        await expectRefusal(confirm(code), 409, 'refund_exists');
        await expectRefusal(give(code), 409, 'refund_exists');
        expect(await books()).toMatchObject({ money: 'pending, unpaid', payments: [] });
      },
    );

    test('whose refund was only requested pays the order when the callback of its prompt arrives', async () => {
      const payment = await prompt();
      const code = receipt();
      await receive(code, charge, '');
      await staff('resolve_difference', { decision: 'refund', receipt: code, is_sure: true });
      expect(await callback(payment, code)).toMatchObject({ outcome: 'paid' });
      expect(await refundOf(code)).toMatchObject({ status: 'withdrawn' });
      await sendRefunds();
      expect(await refundOf(code)).toMatchObject({ status: 'withdrawn' });
      expect(await books()).toMatchObject({ money: 'processing, paid', stock: 4 });
      await setStatus('shipped');
    });

    test('whose refund was sent to M-PESA leaves the order unpaid, and the customer gets no receipt', async () => {
      const payment = await prompt();
      const code = receipt();
      await receive(code, charge, '');
      await askBack(code);
      await sendRefunds();
      expect(await callback(payment, code)).toMatchObject({
        outcome: 'goes_back',
        payment: { needs_refund: true },
      });
      expect(await books()).toMatchObject({ money: 'pending, unpaid', stock: 4 });
      expect(await service('find_payment', { reference: payment.id })).toMatchObject({ status: 'review' });
      const checked = async () =>
        (
          await call<{ payment_check?: string }>(database, 'visitor', 'track_order', {
            tracking_number: order.tracking_number,
          })
        ).payment_check;
      expect(await checked()).toBe('goes_back');
      expect(await sentBack(code)).toMatchObject({ outcome: 'completed' });
      expect(await books()).toMatchObject({
        money: 'pending, unpaid',
        payments: [`prompt completed ${code} 951, needs refund, sent back`],
      });
      expect(await checked()).toBeUndefined();
      // It can be paid again.
      const again = await prompt();
      expect(await callback(again)).toMatchObject({ outcome: 'paid' });
    });

    test('whose reference arrives later in the statement pays the order only before its refund was sent', async () => {
      const [early, late] = [receipt(), receipt()];
      for (const code of [early, late]) {
        await receive(code, charge, '');
        await askBack(code);
        if (code === late) await sendRefunds();
        else
          expect(await receive(code, charge, order.tracking_number, 'statement')).toMatchObject({
            outcome: 'paid',
          });
      }
      const second = await place();
      expect(await receive(late, charge, second.tracking_number, 'statement')).toMatchObject({
        outcome: 'goes_back',
      });
      expect(await books(second)).toMatchObject({ money: 'pending, unpaid' });
    });

    test('can be resolved again after a withdrawn or failed refund', async () => {
      const code = receipt();
      await receive(code, charge, '');
      for (const end of ['withdrawn', 'failed'] as const) {
        await staff('resolve_difference', { decision: 'refund', receipt: code, is_sure: true });
        const refund = await refundOf(code);
        if (end === 'withdrawn') await staff('withdraw_refund', { refund_id: refund?.id });
        else {
          await sendRefunds();
          await service('record_reversal_push', {
            refund_id: refund?.id,
            body: '{}',
            refusal_code: '404.001.04',
            refusal_description: 'no',
          });
        }
        expect(await refundOf(code)).toMatchObject({ status: end });
        expect(await rowOf(code)).toMatchObject({ is_open: true, kind: 'missing_here' });
      }
      expect(await give(code)).toMatchObject({ outcome: 'paid' });
    });
  });

  describe('a late receipt', () => {
    /** A prompt with a lost callback, whose order was cancelled, and whose payment staff refunded by hand. */
    async function sentBackByHand() {
      const payment = await prompt();
      await query(payment);
      await cancel();
      await staff('note_refund_by_hand', {
        payment_id: payment.id,
        refund_receipt: receipt(),
        reason: 'Cancelled by phone',
      });
      return payment;
    }

    test('of a payment that staff refunded by hand is matched, and not refunded again', async () => {
      const payment = await sentBackByHand();
      const code = receipt();
      expect(await receive(code, charge, order.tracking_number, 'statement')).toMatchObject({
        outcome: 'already_completed',
        payment: { id: payment.id },
      });
      expect(await callback(payment, code)).toMatchObject({ outcome: 'already_completed' });
      expect(await books()).toMatchObject({
        money: 'cancelled, refunded',
        payments: [`prompt completed ${code} 951, sent back`],
      });
      await expectRefusal(
        staff('request_refund', { payment_id: payment.id, reason: 'Paid twice' }),
        409,
        'refund_exists',
      );
    });

    test('of a payment that was refunded twice is stored without an error', async () => {
      const payment = await sentBackByHand();
      const code = receipt();
      await receive(code, charge, '');
      await staff('resolve_difference', { decision: 'refund', receipt: code, is_sure: true });
      expect(await callback(payment, code)).toMatchObject({ outcome: 'already_completed' });
      const { rows } = await database.query(
        `select m.outcome from public.payment_messages as m where m.payment_id = $1 and m.source = 'callback'`,
        [payment.id],
      );
      expect(rows).toEqual([{ outcome: 'already_completed' }]);
    });
  });

  describe('a payment with a lost callback and a confirmation without an order', () => {
    test('is suggested for its order first, and refunded only with explicit consent', async () => {
      const payment = await prompt();
      await query(payment);
      const code = receipt();
      await receive(code, charge, '');
      const found = await staff<{ id: string; lacks_receipt: boolean }>('suggest_orders', { receipt: code });
      expect(found).toMatchObject({ id: order.id, lacks_receipt: true });
      await expectRefusal(
        staff('resolve_difference', { decision: 'refund', receipt: code }),
        409,
        'may_be_of_order',
      );
      await expectRefusal(
        staff('request_refund', { receipt: code, reason: 'Not for any order' }),
        409,
        'may_be_of_order',
      );
      expect(await give(code)).toMatchObject({ outcome: 'joined' });
      expect(await books()).toEqual({
        money: 'processing, paid',
        payments: [`prompt completed ${code} 951`],
        stock: 4,
      });
    });
  });

  describe('an amount below the one that staff entered', () => {
    test('stops an order that has not been handed over', async () => {
      const code = receipt();
      await confirm(code);
      await receive(code, 100, order.tracking_number, 'statement');
      expect(await books()).toEqual({
        money: 'pending, needs_review',
        payments: [`till completed ${code} 1`],
        stock: 5,
      });
      expect(await rowOf(code)).toMatchObject({ kind: 'wrong_amount', is_open: true });
      await staff('resolve_paid_order', { order_id: order.id, resolution: 'deliver' });
      await receive(code, 100, order.tracking_number, 'statement');
      expect(await books()).toMatchObject({ money: 'processing, paid', stock: 4 });
    });

    test('is shown when the order has been handed over', async () => {
      const code = receipt();
      await confirm(code);
      await setStatus('shipped');
      await receive(code, 100, order.tracking_number, 'statement');
      expect(await books()).toMatchObject({ money: 'shipped, paid' });
      expect(await rowOf(code)).toMatchObject({ kind: 'wrong_amount', is_open: true });
    });
  });

  test('a stored callback is listed until it is settled, once', async () => {
    const payment = await prompt();
    const { rows } = await database.query<{ message_id: string }>(
      `select stored.message_id::text
       from private.payment_secrets as s, public.store_callback(s.callback_secret, '{"messageId":1}') as stored
       where s.payment_id = $1`,
      [payment.id],
    );
    const messageId = rows[0]?.message_id;
    await database.query(
      `update public.payment_messages set received_at = now() - interval '10 minutes' where id = $1`,
      [messageId],
    );
    const left = async () =>
      (await database.query<{ id: string }>('select id::text from public.list_unsettled_callbacks(50)')).rows;
    expect(await left()).toEqual([{ id: String(messageId) }]);
    expect(await staff('statement_status')).toMatchObject({ unsettled_messages: 1 });
    const settle = (result: string) =>
      service<{ outcome: string; payment: { status: string } }>('settle_payment', {
        payment_id: payment.id,
        message_id: messageId,
        source: 'callback',
        body: '{"messageId":1}',
        result,
        result_code: '1032',
      });
    expect(await settle('failed')).toMatchObject({ outcome: 'failed', payment: { status: 'failed' } });
    expect(await left()).toEqual([]);
    // A second process that has listed it, too.
    expect(await settle('pending')).toMatchObject({ outcome: 'failed', payment: { status: 'failed' } });
    const stored = await database.query(
      'select from public.payment_messages where payment_id = $1 and source = $2',
      [payment.id, 'callback'],
    );
    expect(stored.rowCount).toBe(1);
  });

  describe('the payment of a KSh 1 test', () => {
    const testPayment = async () =>
      service<{ id: string }>('begin_payment_test', {
        phone: '0712345678',
        callback_secret: randomUUID().repeat(2),
        requested_by: personIds.staff,
      });

    test('is matched by its confirmation when only a query had completed it', async () => {
      const { id } = await testPayment();
      await service('settle_payment', {
        payment_id: id,
        source: 'query',
        body: '{}',
        result: 'succeeded',
        result_code: '0',
      });
      const code = receipt();
      await receive(code, 100, 'TEST');
      const { rows } = await database.query('select receipt from public.payments where id = $1', [id]);
      expect(rows).toEqual([{ receipt: code }]);
      expect(await rowOf(code)).toBeUndefined();
    });

    test('cannot pay an order', async () => {
      const code = receipt();
      const { id } = await testPayment();
      await service('settle_payment', {
        payment_id: id,
        source: 'callback',
        body: '{}',
        result: 'succeeded',
        result_code: '0',
        received_cents: 100,
        receipt: code,
      });
      await expectRefusal(confirm(code), 409, 'receipt_of_test');
      await receive(code, charge, order.tracking_number, 'statement');
      expect(await books()).toMatchObject({ money: 'pending, unpaid', payments: [] });
    });
  });
});
