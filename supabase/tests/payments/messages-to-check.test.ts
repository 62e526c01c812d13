// Messages of M-PESA that cannot be read or understood: they wait for staff, each once, until they are entered, dismissed or explained.
import { randomBytes, randomInt, randomUUID } from 'node:crypto';
import type { Database } from '@jani-juice/backend/database';
import { testDatabases } from '@jani-juice/backend/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { receiptExamples } from '../../../domain/mpesa-examples.ts';
import type { Database as Types } from '../../types.ts';
import {
  call,
  expectRefusal,
  makeProduct,
  openShopDatabase,
  orderForm,
  type PlacedOrder,
} from '../shop-database.ts';
import { expectBalancedBooks } from './balanced-books.ts';

type Tables = Types['public']['Tables'];
type Payment = Tables['payments']['Row'];
interface Settled {
  outcome: string;
  payment: Payment | null;
}

const receipt = () => `UKL${randomBytes(4).toString('hex').toUpperCase().slice(0, 7)}`;
const charge = 95_100;

describe.each(testDatabases())('on %s', (kind) => {
  let database: Database;
  let product: string;
  let order: PlacedOrder;

  beforeAll(async () => {
    database = await openShopDatabase(kind);
    product = await makeProduct(database, 1000);
  });
  afterAll(() => database.close());
  beforeEach(async () => {
    order = await call<PlacedOrder>(database, 'visitor', 'place_order', orderForm(product));
  });
  afterEach(() => expectBalancedBooks(database));

  const receive = (change: Record<string, unknown> = {}) =>
    call<Settled>(database, 'service', 'receive_mpesa_transaction', {
      source: 'statement',
      receipt: receipt(),
      received_cents: order.charge_cents,
      reference: order.tracking_number,
      transacted_at: new Date().toISOString(),
      body: JSON.stringify({ id: randomUUID() }),
      ...change,
    });
  async function prompt(): Promise<Payment> {
    const { payment } = await call<{ payment: Payment }>(database, 'service', 'begin_payment', {
      order_id: order.id,
      tracking_number: order.tracking_number,
      phone: `07${String(randomInt(100_000_000)).padStart(8, '0')}`,
      callback_secret: randomBytes(32).toString('hex'),
    });
    return call<Payment>(database, 'service', 'record_push', {
      payment_id: payment.id,
      body: '{}',
      checkout_request_id: `ws_CO_${randomBytes(8).toString('hex')}`,
    });
  }
  const settle = (payment: Payment, change: Record<string, unknown> = {}) =>
    call<Settled>(database, 'service', 'settle_payment', {
      payment_id: payment.id,
      source: 'callback',
      body: JSON.stringify({ id: randomUUID() }),
      result: 'succeeded',
      result_code: '0',
      received_cents: payment.charge_cents,
      receipt: receipt(),
      checkout_request_id: payment.checkout_request_id,
      ...change,
    });
  const messages = async (where = 'resolution is null') =>
    (
      await database.query<Tables['messages_to_check']['Row']>(
        `select * from public.messages_to_check where ${where} order by id`,
      )
    ).rows;
  /** The message that the last call left. */
  const lastMessage = async () => (await messages('true')).at(-1) as Tables['messages_to_check']['Row'];
  const money = async () =>
    (
      await database.query<{ money: string; payments: string[] }>(
        `select o.payment_status as money, coalesce((select json_agg(concat_ws(' ', p.method, p.status, p.receipt) order by p.created_at)
           from public.payments as p where p.order_id = o.id), '[]') as payments from public.orders as o where o.id = $1`,
        [order.id],
      )
    ).rows[0];
  const enter = (message: { id: number }, change: Record<string, unknown> = {}, person = 'staff' as const) =>
    call<Settled>(database, person, 'enter_message_to_check', {
      message_id: message.id,
      receipt: receipt(),
      received_cents: order.charge_cents,
      transacted_at: new Date().toISOString(),
      ...change,
    });
  const dismiss = (message: { id: number }, note = 'A test of the bank') =>
    call(database, 'staff', 'dismiss_message_to_check', { message_id: message.id, note });

  test.each(receiptExamples)('a receipt written as %j is %j in SQL, too', async (written, expected) => {
    const { rows } = await database.query('select private.normalised_receipt($1) as receipt', [written]);
    expect(rows).toEqual([{ receipt: expected }]);
  });

  test.each([
    ['a callback, then a confirmation', 'callback', 'confirmation'],
    ['a confirmation, then a callback', 'confirmation', 'callback'],
    ['a confirmation, then the statement', 'confirmation', 'statement'],
    ['the statement, then a confirmation', 'statement', 'confirmation'],
    ['a callback, then staff', 'callback', 'staff'],
    ['staff, then a confirmation', 'staff', 'confirmation'],
  ])('%s with the receipt in another spelling are one payment', async (_, first, second) => {
    const spellings = [
      (code: string) => ` ${code.toLowerCase()} `,
      (code: string) => `${code.slice(0, 3)} ${code.slice(3)}`,
    ];
    for (const spell of spellings) {
      order = await call<PlacedOrder>(database, 'visitor', 'place_order', orderForm(product));
      const attempt = await prompt();
      const code = receipt();
      for (const [source, written] of [
        [first, spell(code)],
        [second, code],
      ]) {
        if (source === 'callback') await settle(attempt, { receipt: written });
        else if (source === 'staff')
          await call(database, 'staff', 'confirm_till_payment', {
            order_id: order.id,
            receipt: written,
            received_cents: order.charge_cents,
          });
        else await receive({ source, receipt: written });
      }
      const { rows } = await database.query(
        'select receipt, needs_refund from public.payments where order_id = $1 and receipt is not null',
        [order.id],
      );
      expect(rows).toEqual([{ receipt: code, needs_refund: false }]);
    }
  });

  describe('what cannot be read', () => {
    test.each([
      ['no receipt', { receipt: '' }, ['receipt']],
      ['a receipt that is none', { receipt: 'UKL12' }, ['receipt']],
      ['no amount', { received_cents: null }, ['amount']],
      ['no money', { received_cents: 0 }, ['amount']],
      ['money that leaves', { received_cents: -charge }, ['amount']],
      ['a time that cannot be read', { transacted_at: null, unreadable: ['time'] }, ['time']],
      [
        'nothing',
        { receipt: '', received_cents: null, unreadable: ['receipt', 'amount', 'time'] },
        ['amount', 'receipt', 'time'],
      ],
    ])('(%s) waits once, pays nothing, and keeps the raw text', async (_, change, unreadable) => {
      const before = (await messages()).length;
      const body = JSON.stringify({ transactionId: randomUUID() });
      for (const again of [body, body, ` ${body}\n`]) {
        expect((await receive({ ...change, body: again })).outcome).toBe('unreadable');
      }
      expect((await messages()).length).toBe(before + 1);
      expect(await lastMessage()).toMatchObject({
        source: 'statement',
        problem: 'unreadable',
        body,
        unreadable,
      });
      expect(await money()).toEqual({ money: 'unpaid', payments: [] });
    });

    test('staff enter what it says: it is settled like every payment, and recorded', async () => {
      await receive({ received_cents: null });
      const message = await lastMessage();
      const code = receipt();
      expect(await enter(message, { receipt: ` ${code.toLowerCase()}` })).toMatchObject({ outcome: 'paid' });
      expect(await money()).toEqual({ money: 'paid', payments: [`till completed ${code}`] });
      expect(await lastMessage()).toMatchObject({
        resolution: 'entered',
        resolved_by: expect.any(String),
        resolved_at: expect.any(String),
      });
      await expectRefusal(enter(message), 409, 'message_checked');
      await expectRefusal(dismiss(message), 409, 'message_checked');
      // The same line again is done.
      expect((await receive({ received_cents: null, body: message.body })).outcome).toBe('checked');
    });

    test('staff note why it is no payment', async () => {
      await receive({ receipt: '' });
      const message = await lastMessage();
      await expectRefusal(dismiss(message, ' x '), 400, 'reason_invalid');
      await dismiss(message, ' A charge of the bank ');
      expect(await lastMessage()).toMatchObject({
        resolution: 'not_a_payment',
        note: 'A charge of the bank',
      });
      expect((await receive({ receipt: '', body: message.body })).outcome).toBe('checked');
    });

    test.each([
      ['an unknown message', { message_id: 0 }, 404, 'message_not_found'],
      ['a receipt that is none', { receipt: 'UKL12' }, 400, 'receipt_invalid'],
      ['no money', { received_cents: 0 }, 400, 'amount_invalid'],
      ['a time in the future', { transacted_at: '2099-01-01T00:00:00Z' }, 400, 'time_invalid'],
      ['no time', { transacted_at: null }, 400, 'time_invalid'],
    ])('%s is refused', async (_, change, status, code) => {
      await receive({ receipt: '' });
      await expectRefusal(enter(await lastMessage(), change), status, code);
      expect(await lastMessage()).toMatchObject({ resolution: null });
    });

    test('only staff enter and dismiss', async () => {
      await receive({ receipt: '' });
      const { id } = await lastMessage();
      for (const procedure of ['enter_message_to_check', 'dismiss_message_to_check']) {
        const input =
          procedure === 'enter_message_to_check'
            ? {
                message_id: id,
                receipt: receipt(),
                received_cents: 100,
                transacted_at: new Date().toISOString(),
              }
            : { message_id: id, note: 'a note' };
        await expectRefusal(call(database, 'customer', procedure, input), 403, 'staff_only');
      }
    });

    test('a readable message about the same receipt ends the wait', async () => {
      const code = receipt();
      await receive({ receipt: code, received_cents: null, unreadable: ['amount'] });
      expect(await lastMessage()).toMatchObject({ receipt: code, resolution: null });
      await receive({ source: 'confirmation', receipt: code });
      expect(await lastMessage()).toMatchObject({ resolution: 'read_later', resolved_by: null });
    });

    test('a confirmation with an unreadable time pays at once, and waits until the statement names the time', async () => {
      const code = receipt();
      const confirmation = {
        source: 'confirmation',
        receipt: code,
        transacted_at: null,
        unreadable: ['time'],
      };
      expect((await receive(confirmation)).outcome).toBe('paid');
      expect(await lastMessage()).toMatchObject({ unreadable: ['time'], resolution: null });
      await receive({ receipt: code });
      expect(await lastMessage()).toMatchObject({ resolution: 'read_later' });
      expect((await money())?.payments).toEqual([`till completed ${code}`]);
    });

    test('it counts for staff, and keeps the statement from being complete', async () => {
      await receive({ receipt: '' });
      const { to_check } = await call<{ to_check: number }>(database, 'staff', 'statement_status');
      expect(to_check).toBe((await messages()).length);
    });

    test('dismissing the only evidence ends the review of its attempt', async () => {
      const attempt = await prompt();
      await settle(attempt, { result: 'failed', result_code: '1032', received_cents: null });
      expect(await money()).toMatchObject({ payments: ['prompt review'] });
      await dismiss(await lastMessage(), 'Not in the portal');
      await call(database, 'service', 'expire_reservations');
      expect(await money()).toEqual({ money: 'unpaid', payments: ['prompt failed'] });
      expect((await prompt()).status).toBe('processing');
    });

    test('entering what a contradicting callback says pays the order', async () => {
      const attempt = await prompt();
      const code = receipt();
      await settle(attempt, { result: 'failed', result_code: '1032', received_cents: null, receipt: code });
      expect(await enter(await lastMessage(), { receipt: code })).toMatchObject({ outcome: 'paid' });
      expect(await money()).toEqual({ money: 'paid', payments: [`prompt completed ${code}`] });
      expect(await lastMessage()).toMatchObject({ resolution: 'entered' });
    });

    test.each([
      ['assigned to its order', 'give', 'own', ['prompt completed']],
      ['assigned to another order', 'give', 'other', ['prompt failed']],
      ['noted as no payment of an order', 'not_an_order', null, ['prompt completed']],
    ] as const)(
      'money of a contradicting callback that staff have %s is not booked again when a query confirms the prompt',
      async (_, decision, to, payments) => {
        const attempt = await prompt();
        const code = receipt();
        const settled = await settle(attempt, { result: 'failed', result_code: '1032', receipt: code });
        expect(settled.outcome).toBe('contradiction');
        const other = await call<PlacedOrder>(database, 'visitor', 'place_order', orderForm(product));
        await call(database, 'staff', 'resolve_difference', {
          decision,
          receipt: code,
          order_id: to && { own: order.id, other: other.id }[to],
        });
        await settle(attempt, { source: 'query', received_cents: null, receipt: null });
        await call(database, 'service', 'expire_reservations');
        await settle(attempt, { source: 'query', received_cents: null, receipt: null });
        const ownReceipt = payments[0] === 'prompt completed' ? ` ${code}` : '';
        expect((await money())?.payments).toEqual(payments.map((payment) => payment + ownReceipt));
        const { rows } = await database.query(
          'select receipt from public.payments where order_id in ($1, $2) and status = $3',
          [order.id, other.id, 'completed'],
        );
        expect(rows).toEqual([{ receipt: code }]);
      },
    );

    test('the raw text is deleted with other messages of M-PESA, once it is checked', async () => {
      await receive({ receipt: '' });
      const message = await lastMessage();
      const age = () =>
        database.query(
          `update public.messages_to_check set received_at = now() - interval '73 months' where id = $1`,
          [message.id],
        );
      await age();
      await call(database, 'service', 'forget_old_rows');
      expect(await lastMessage()).toMatchObject({ body: message.body });
      await dismiss(message);
      await call(database, 'service', 'forget_old_rows');
      expect(await lastMessage()).toMatchObject({ body: '{}', note: null, resolution: 'not_a_payment' });
    });
  });

  describe('a kind of transaction', () => {
    test('that is unknown waits, with everything that can be read', async () => {
      const code = receipt();
      expect((await receive({ kind: 'unknown', receipt: code })).outcome).toBe('unreadable');
      expect(await lastMessage()).toMatchObject({ problem: 'unknown_kind', receipt: code, unreadable: [] });
      expect((await enter(await lastMessage(), { receipt: code })).outcome).toBe('paid');
    });

    test('that takes other money away is no payment and does not wait', async () => {
      const before = (await messages()).length;
      expect((await receive({ kind: 'outgoing' })).outcome).toBe('outgoing');
      expect((await messages()).length).toBe(before);
      expect(await money()).toEqual({ money: 'unpaid', payments: [] });
    });
  });

  describe('a reversal in the statement', () => {
    const reverse = (change: Record<string, unknown> = {}) =>
      receive({ kind: 'reversal', received_cents: -order.charge_cents, ...change });
    async function payAndCancel(): Promise<string> {
      const code = receipt();
      await receive({ receipt: code });
      await database.query(`update public.orders set status = 'cancelled' where id = $1`, [order.id]);
      return code;
    }
    async function sendRefund(code: string) {
      const { rows } = await database.query<{ id: string }>(
        'select id from public.payments where receipt = $1',
        [code],
      );
      await call(database, 'staff', 'request_refund', { reason: 'cancelled', payment_id: rows[0]?.id });
      await database.query(`update public.refunds set status = 'approved' where receipt = $1`, [code]);
      await call(database, 'service', 'lease_refunds', { at_most: 50 });
    }
    const refundOf = async (code: string) =>
      (await database.query('select status, refund_receipt from public.refunds where receipt = $1', [code]))
        .rows;

    test('pays no order, with or without its number', async () => {
      await reverse();
      await reverse({ received_cents: order.charge_cents });
      expect(await money()).toEqual({ money: 'unpaid', payments: [] });
      expect(await lastMessage()).toMatchObject({ problem: 'reversed', payment_id: null });
    });

    test.each([
      ['names the payment', (code: string) => ({ reversed_receipt: code })],
      [
        'has the receipt of the payment as its reference',
        (code: string) => ({ reference: code.toLowerCase() }),
      ],
    ])('that %s completes the refund that asked for it', async (_, named) => {
      const code = await payAndCancel();
      await sendRefund(code);
      const own = receipt();
      expect((await reverse({ receipt: own, ...named(code) })).outcome).toBe('completed');
      expect(await refundOf(code)).toEqual([{ status: 'completed', refund_receipt: own }]);
      expect((await reverse({ receipt: own, ...named(code) })).outcome).toBe('already_completed');
    });

    test('that no refund asked for puts the order under review, once', async () => {
      const code = receipt();
      await receive({ receipt: code });
      const line = { reversed_receipt: code, body: JSON.stringify({ id: randomUUID() }) };
      expect((await reverse(line)).outcome).toBe('reversed');
      expect((await money())?.money).toBe('needs_review');
      const message = await lastMessage();
      expect(message).toMatchObject({ problem: 'reversed', payment_id: expect.any(String), reference: code });
      await expectRefusal(enter(message), 409, 'message_of_refund');
      await call(database, 'staff', 'resolve_paid_order', {
        order_id: order.id,
        resolution: 'deliver',
      }).catch(() => {});
      expect((await reverse(line)).outcome).toBe('reversed');
      expect((await money())?.money).toBe('paid');
      await dismiss(message, 'The customer keeps the drinks');
      expect((await reverse(line)).outcome).toBe('checked');
    });
  });
});
