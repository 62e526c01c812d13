// Messages of M-PESA that cannot be read or understood: they wait for staff, each once, until they are entered, dismissed or explained.
import { randomUUID } from 'node:crypto';
import { testDatabases } from '@jani-juice/backend/testing';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { receiptExamples } from '../../../../domain/mpesa/examples.ts';
import type { Database as Types } from '../../../types.ts';
import { expectRefusal, makeProduct, type PlacedOrder, refusalOf } from '../../shop-database.ts';
import { byQuery, failed, newPhone, newReceipt, type Settlement, setUpShop } from '../../steps.ts';
import { expectBalancedBooks } from '../books/balanced-books.ts';

type MessageToCheck = Types['public']['Tables']['messages_to_check']['Row'];

const charge = 95_100;

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, callAs, asStaff, asService, readRows, place, expireReservations, setStatus } = shop;
  const { stateOf, prompt, settle, receive, confirm, paymentOf, requestRefund, leaseRefunds } = shop;
  const { refundOf, assign, payByCredit } = shop;
  let product: string;
  let order: PlacedOrder;

  beforeAll(async () => {
    product = await makeProduct(database, 1000);
  });
  beforeEach(async () => {
    order = await place(product);
  });
  afterEach(() => expectBalancedBooks(database));

  /** A row of the statement, for the order unless `reference` says otherwise. */
  const receiveRow = (change: Record<string, unknown> = {}) =>
    receive(order, newReceipt(), {
      source: 'statement',
      transacted_at: new Date().toISOString(),
      ...change,
    });
  const messages = (where = 'resolution is null') =>
    readRows<MessageToCheck>(`select * from public.messages_to_check where ${where} order by id`);
  /** The message that the last call left. */
  const lastMessage = async () => (await messages('true')).at(-1) as MessageToCheck;
  const books = () => stateOf(order, { withReceipts: true });
  const enter = (message: { id: number }, change: Record<string, unknown> = {}) =>
    asStaff<Settlement>('enter_message_to_check', {
      message_id: message.id,
      receipt: newReceipt(),
      received_cents: order.charge_cents,
      transacted_at: new Date().toISOString(),
      ...change,
    });
  const dismiss = (message: { id: number }, note = 'A test of the bank') =>
    asStaff('dismiss_message_to_check', { message_id: message.id, note });

  test.each(receiptExamples)('a receipt written as %j is %j in SQL, too', async (written, expected) => {
    expect(await readRows('select private.normalised_receipt($1) as receipt', [written])).toEqual([
      { receipt: expected },
    ]);
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
      order = await place(product);
      const attempt = await prompt(order);
      const code = newReceipt();
      for (const [source, written] of [
        [first, spell(code)],
        [second, code],
      ]) {
        if (source === 'callback') await settle(attempt, { receipt: written });
        else if (source === 'staff') await confirm(order, written);
        else await receiveRow({ source, receipt: written });
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
        expect((await receiveRow({ ...change, body: again })).outcome).toBe('unreadable');
      }
      expect((await messages()).length).toBe(before + 1);
      expect(await lastMessage()).toMatchObject({
        source: 'statement',
        problem: 'unreadable',
        body,
        unreadable,
      });
      expect(await books()).toMatchObject({ money: 'unpaid', payments: [] });
    });

    test('staff enter what it says: it is settled like every payment, and recorded', async () => {
      await receiveRow({ received_cents: null });
      const message = await lastMessage();
      const code = newReceipt();
      expect(await enter(message, { receipt: ` ${code.toLowerCase()}` })).toMatchObject({ outcome: 'paid' });
      expect(await books()).toMatchObject({ money: 'paid', payments: [`till completed ${code} 951`] });
      expect(await lastMessage()).toMatchObject({
        resolution: 'entered',
        resolved_by: expect.any(String),
        resolved_at: expect.any(String),
      });
      await expectRefusal(enter(message), 409, 'message_checked');
      await expectRefusal(dismiss(message), 409, 'message_checked');
      // The same line again is done.
      expect((await receiveRow({ received_cents: null, body: message.body })).outcome).toBe('checked');
    });

    test('staff note why it is no payment', async () => {
      await receiveRow({ receipt: '' });
      const message = await lastMessage();
      await expectRefusal(dismiss(message, ' x '), 400, 'reason_invalid');
      await dismiss(message, ' A charge of the bank ');
      expect(await lastMessage()).toMatchObject({
        resolution: 'not_a_payment',
        note: 'A charge of the bank',
      });
      expect((await receiveRow({ receipt: '', body: message.body })).outcome).toBe('checked');
    });

    test.each([
      ['an unknown message', { message_id: 0 }, 404, 'message_not_found'],
      ['a receipt that is none', { receipt: 'UKL12' }, 400, 'receipt_invalid'],
      ['no money', { received_cents: 0 }, 400, 'amount_invalid'],
      ['a time in the future', { transacted_at: '2099-01-01T00:00:00Z' }, 400, 'time_invalid'],
      ['no time', { transacted_at: null }, 400, 'time_invalid'],
    ])('%s is refused', async (_, change, status, code) => {
      await receiveRow({ receipt: '' });
      await expectRefusal(enter(await lastMessage(), change), status, code);
      expect(await lastMessage()).toMatchObject({ resolution: null });
    });

    test('only staff enter and dismiss', async () => {
      await receiveRow({ receipt: '' });
      const { id } = await lastMessage();
      for (const procedure of ['enter_message_to_check', 'dismiss_message_to_check']) {
        const input =
          procedure === 'enter_message_to_check'
            ? {
                message_id: id,
                receipt: newReceipt(),
                received_cents: 100,
                transacted_at: new Date().toISOString(),
              }
            : { message_id: id, note: 'a note' };
        await expectRefusal(callAs('customer', procedure, input), 403, 'staff_only');
      }
    });

    test('a readable message about the same receipt ends the wait', async () => {
      const code = newReceipt();
      await receiveRow({ receipt: code, received_cents: null, unreadable: ['amount'] });
      expect(await lastMessage()).toMatchObject({ receipt: code, resolution: null });
      await receiveRow({ source: 'confirmation', receipt: code });
      expect(await lastMessage()).toMatchObject({ resolution: 'read_later', resolved_by: null });
    });

    test('a confirmation with an unreadable time pays at once, and waits until the statement names the time', async () => {
      const code = newReceipt();
      const confirmation = {
        source: 'confirmation',
        receipt: code,
        transacted_at: null,
        unreadable: ['time'],
      };
      expect((await receiveRow(confirmation)).outcome).toBe('paid');
      expect(await lastMessage()).toMatchObject({ unreadable: ['time'], resolution: null });
      await receiveRow({ receipt: code });
      expect(await lastMessage()).toMatchObject({ resolution: 'read_later' });
      expect((await books()).payments).toEqual([`till completed ${code} 951`]);
    });

    test('it counts for staff, and keeps the statement from being complete', async () => {
      await receiveRow({ receipt: '' });
      const { to_check } = await asStaff<{ to_check: number }>('statement_status');
      expect(to_check).toBe((await messages()).length);
    });

    test('dismissing the only evidence ends the review of its attempt', async () => {
      const attempt = await prompt(order);
      await settle(attempt, { ...failed, receipt: newReceipt() });
      expect(await books()).toMatchObject({ payments: ['prompt review 951'] });
      await dismiss(await lastMessage(), 'Not in the portal');
      await expireReservations();
      expect(await books()).toMatchObject({ money: 'unpaid', payments: ['prompt failed 951'] });
      expect((await prompt(order)).status).toBe('processing');
    });

    test('entering what a contradicting callback says pays the order', async () => {
      const attempt = await prompt(order);
      const code = newReceipt();
      await settle(attempt, { ...failed, receipt: code });
      expect(await enter(await lastMessage(), { receipt: code })).toMatchObject({ outcome: 'paid' });
      expect(await books()).toMatchObject({ money: 'paid', payments: [`prompt completed ${code} 951`] });
      expect(await lastMessage()).toMatchObject({ resolution: 'entered' });
    });

    test.each([
      ['assigned to its order', 'give', 'own', ['prompt completed']],
      ['assigned to another order', 'give', 'other', ['prompt failed']],
      ['noted as no payment of an order', 'not_an_order', null, ['prompt completed']],
    ] as const)(
      'money of a contradicting callback that staff have %s is not booked again when a query confirms the prompt',
      async (_, decision, to, payments) => {
        const attempt = await prompt(order);
        const code = newReceipt();
        const settled = await settle(attempt, { result: 'failed', result_code: '1032', receipt: code });
        expect(settled.outcome).toBe('contradiction');
        const other = await place(product);
        await asStaff('resolve_difference', {
          decision,
          receipt: code,
          order_id: to && { own: order.id, other: other.id }[to],
        });
        await settle(attempt, byQuery);
        await expireReservations();
        await settle(attempt, byQuery);
        const ownReceipt = payments[0] === 'prompt completed' ? ` ${code} 951` : ' 951';
        expect((await books()).payments).toEqual(payments.map((payment) => payment + ownReceipt));
        const { rows } = await database.query(
          'select receipt from public.payments where order_id in ($1, $2) and status = $3',
          [order.id, other.id, 'completed'],
        );
        expect(rows).toEqual([{ receipt: code }]);
      },
    );

    test('the raw text is deleted with other messages of M-PESA, once it is checked', async () => {
      await receiveRow({ receipt: '' });
      const message = await lastMessage();
      const age = () =>
        database.query(
          `update public.messages_to_check set received_at = now() - interval '73 months' where id = $1`,
          [message.id],
        );
      await age();
      await asService('forget_old_rows');
      expect(await lastMessage()).toMatchObject({ body: message.body });
      await dismiss(message);
      await asService('forget_old_rows');
      expect(await lastMessage()).toMatchObject({ body: '{}', note: null, resolution: 'not_a_payment' });
    });
  });

  describe('a kind of transaction', () => {
    test('that is unknown waits, with everything that can be read', async () => {
      const code = newReceipt();
      expect((await receiveRow({ kind: 'unknown', receipt: code })).outcome).toBe('unreadable');
      expect(await lastMessage()).toMatchObject({ problem: 'unknown_kind', receipt: code, unreadable: [] });
      expect((await enter(await lastMessage(), { receipt: code })).outcome).toBe('paid');
    });

    test('that takes other money away is no payment and does not wait', async () => {
      const before = (await messages()).length;
      expect((await receiveRow({ kind: 'outgoing' })).outcome).toBe('outgoing');
      expect((await messages()).length).toBe(before);
      expect(await books()).toMatchObject({ money: 'unpaid', payments: [] });
    });
  });

  describe('a reversal in the statement', () => {
    const reverse = (change: Record<string, unknown> = {}) =>
      receiveRow({ kind: 'reversal', received_cents: -order.charge_cents, ...change });
    async function payAndCancel(): Promise<string> {
      const code = newReceipt();
      await receiveRow({ receipt: code });
      await setStatus(order, 'cancelled');
      return code;
    }
    async function sendRefund(code: string): Promise<void> {
      await requestRefund(await paymentOf(code));
      await database.query(`update public.refunds set status = 'approved' where receipt = $1`, [code]);
      await leaseRefunds();
    }

    test('pays no order, with or without its number', async () => {
      await reverse();
      await reverse({ received_cents: order.charge_cents });
      expect(await books()).toMatchObject({ money: 'unpaid', payments: [] });
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
      const own = newReceipt();
      expect((await reverse({ receipt: own, ...named(code) })).outcome).toBe('completed');
      expect(await refundOf(code)).toMatchObject({ status: 'completed', refund_receipt: own });
      expect((await reverse({ receipt: own, ...named(code) })).outcome).toBe('already_completed');
    });

    test('takes money that belongs to no order: it pays none, whatever staff noted about the message', async () => {
      const [reversed, other] = [newReceipt(), newReceipt()];
      await receiveRow({ receipt: reversed, reference: 'who knows' });
      await receiveRow({ receipt: other, reference: 'who knows' });
      await reverse({ reversed_receipt: reversed });
      await expectRefusal(confirm(order, reversed, { by: 'assistant' }), 409, 'money_reversed');
      await dismiss(await lastMessage(), 'The payer had it reversed');
      await expectRefusal(assign(order, reversed), 409, 'money_reversed');
      expect(await books()).toMatchObject({ money: 'unpaid', payments: [] });
      expect(await assign(order, other)).toMatchObject({ outcome: 'paid' });
    });

    test('takes money that is reported under the number of an order only later', async () => {
      const code = newReceipt();
      await reverse({ reversed_receipt: code });
      expect((await receiveRow({ receipt: code })).outcome).toBe('unmatched');
      expect((await books()).money).toBe('unpaid');
      expect((await receiveRow()).outcome).toBe('paid');
    });

    test.each([true, false])('takes what is owed of it, too (reversed: %s)', async (isReversed) => {
      const phone = newPhone();
      order = await place(product, { customer_phone: phone });
      const [code, received] = [newReceipt(), 2 * order.charge_cents];
      await receiveRow({ receipt: code, received_cents: received });
      await asStaff('resolve_review', {
        order_id: order.id,
        decision: 'deliver_with_credit',
        seen_cents: received,
      });
      if (isReversed) await reverse({ reversed_receipt: code, received_cents: -received });
      const next = await place(product, { customer_phone: phone });
      const refusal = await refusalOf(payByCredit(next));
      expect([refusal, (await stateOf(next)).money]).toEqual(
        isReversed ? ['credit_too_low', 'unpaid'] : [null, 'paid'],
      );
    });

    test('that no refund asked for puts the order under review, once', async () => {
      const code = newReceipt();
      await receiveRow({ receipt: code });
      const line = { reversed_receipt: code, body: JSON.stringify({ id: randomUUID() }) };
      expect((await reverse(line)).outcome).toBe('reversed');
      expect((await books()).money).toBe('needs_review');
      const message = await lastMessage();
      expect(message).toMatchObject({ problem: 'reversed', payment_id: expect.any(String), reference: code });
      await expectRefusal(enter(message), 409, 'message_of_refund');
      await asStaff('resolve_paid_order', {
        order_id: order.id,
        resolution: 'deliver',
      }).catch(() => {});
      expect((await reverse(line)).outcome).toBe('reversed');
      expect((await books()).money).toBe('paid');
      await dismiss(message, 'The customer keeps the drinks');
      expect((await reverse(line)).outcome).toBe('checked');
    });
  });
});
