// Decisions of staff about money for an order: finding its order, taking an assignment back, an amount that differs from the charge,
// change, and receipts that M-PESA has not reported.
import { createHash, randomBytes } from 'node:crypto';
import { type Database, DatabaseError } from '@jani-juice/backend/database';
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { isExhaustive } from '../../../scripts/test-depth.ts';
import {
  call,
  expectRefusal,
  makeProduct,
  openShopDatabase,
  orderForm,
  type PlacedOrder,
  people,
  stockOf,
} from '../shop-database.ts';
import { expectBalancedBooks } from './balanced-books.ts';

interface Suggestion {
  id: string;
  customer_phone: string;
  items: string;
  phone_match: string | null;
  shares_name: boolean | null;
  fits_amount: boolean;
  is_named: boolean;
  is_certain: boolean;
}

const receipt = () => `UKL${randomBytes(4).toString('hex').toUpperCase().slice(0, 7)}`;
const charge = 95_100;
const hashOf = (number: string) => createHash('sha256').update(number).digest('hex');

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
    await database.execute(
      'delete from public.statement_pulls where true; delete from private.mpesa_registrations where true',
    );
    // Other tests' orders are no candidates.
    await database.execute(
      `update public.orders set created_at = created_at - interval '10 days' where true`,
    );
    order = await place();
  });
  afterEach(() => expectBalancedBooks(database));

  const place = (change: Record<string, unknown> = {}) =>
    call<PlacedOrder>(database, 'visitor', 'place_order', { ...orderForm(product), ...change });
  const receive = (code: string, change: Record<string, unknown> = {}) =>
    call<{ outcome: string; payment: { id: string } | null }>(
      database,
      'service',
      'receive_mpesa_transaction',
      {
        source: 'confirmation',
        receipt: code,
        received_cents: charge,
        reference: 'juice',
        ...change,
      },
    );
  const staff = <Answer>(procedure: string, given: Record<string, unknown>) =>
    call<Answer>(database, 'staff', procedure, given);
  const assign = (code: string, to = order) =>
    staff<{ outcome: string; payment_id: string }>('resolve_difference', {
      decision: 'give',
      receipt: code,
      order_id: to.id,
    });
  const takeBack = (payment_id: string, note?: string) =>
    staff<string>('take_back_payment', { payment_id, note: note ?? null });
  const confirm = (code: string, change: Record<string, unknown> = {}) =>
    staff<{ outcome: string; payment: { id: string; receipt: string } }>('confirm_till_payment', {
      order_id: order.id,
      receipt: code,
      received_cents: charge,
      ...change,
    });
  const suggest = async (code: string, search = '') =>
    (
      await asRole(database, people.staff, (session) =>
        session.query<Suggestion>('select * from public.suggest_orders($1, $2)', [code, search]),
      )
    ).rows;
  const stateOf = async ({ id }: PlacedOrder = order) =>
    (
      await database.query<Record<string, unknown>>(
        `select o.status, o.payment_status as money, o.reserved_until is not null as reserved,
           exists (select from public.deliveries as d where d.order_id = o.id) as delivery,
           (select count(*)::integer from public.payments as p where p.order_id = o.id and p.status = 'completed') as payments
         from public.orders as o where o.id = $1`,
        [id],
      )
    ).rows[0];
  const transaction = async (code: string) =>
    (
      await database.query<Record<string, unknown>>(
        'select payment_id, resolution from public.mpesa_transactions where receipt = $1',
        [code],
      )
    ).rows[0];
  const rowOf = async (id: string) =>
    (
      await staff<{ rows: Record<string, unknown>[] }>('reconciliation_day', {
        day: new Date(Date.now() + 3 * 3_600_000).toISOString().slice(0, 10),
      })
    ).rows.find((row) => row.id === id);
  const messages = async ({ id }: PlacedOrder = order) =>
    (
      await database.query<{ line: string }>(
        `select kind || ' ' || status as line from public.outbox_messages
         where order_id = $1 and channel = 'text' order by created_at, kind`,
        [id],
      )
    ).rows.map(({ line }) => line);
  const sendMessages = () =>
    database.query(
      `update public.outbox_messages set status = 'sent', attempts = 1, next_attempt_at = null where status = 'waiting'`,
    );

  describe('the order of a payment', () => {
    test.each([
      ['254712345678', '+254712345678', 'whole'],
      ['0712 345 678', '+254712345678', 'whole'],
      ['254712345679', '+254712345678', 'differs'],
      ['2547*****678', '+254712345678', 'digits'],
      ['254 7** *** 678', '+254712345678', 'digits'],
      ['+254 7•• ••• 678', '+254712345678', 'digits'],
      ['0712***678', '+254712345678', 'digits'],
      ['0712xxx678', '+254712345678', 'digits'],
      ['07******78', '+254712345678', null],
      ['254***678', '+254712345678', 'digits'],
      ['*******678', '+254712345678', 'digits'],
      ['2547*****679', '+254712345678', 'differs'],
      ['2541*****678', '+254712345678', 'differs'],
      ['0799***678', '+254712345678', 'differs'],
      ['2541*****678', '+254112345678', 'digits'],
      [hashOf('254712345678'), '+254712345678', 'whole'],
      [hashOf('254712345678').toUpperCase(), '+254712345678', 'whole'],
      [hashOf('0712345678'), '+254712345678', 'whole'],
      [hashOf('254712345679'), '+254712345678', null],
      ['************', '+254712345678', null],
      ['', '+254712345678', null],
      [null, '+254712345678', null],
      ['JANE', '+254712345678', null],
      ['2547*****678', '', null],
    ])('the payer %j beside the customer %j is: %j', async (payer, customer, match) => {
      const { rows } = await database.query<{ match: string | null }>(
        'select private.compare_payer_phone($1, $2) as match',
        [payer, customer],
      );
      expect(rows[0]?.match).toBe(match);
    });

    test('is certain if amount and digits fit one order alone', async () => {
      const other = await place({ customer_phone: '0722000111', customer_name: 'Jane Wanjiku' });
      const code = receipt();
      await receive(code, { payer_phone: '2547*****111', payer_name: 'JANE W' });
      const [first, second] = await suggest(code);
      expect(first).toMatchObject({
        id: other.id,
        customer_phone: '+254722000111',
        items: '1 × Test drink',
        phone_match: 'digits',
        shares_name: true,
        fits_amount: true,
        is_certain: true,
      });
      expect(second).toMatchObject({ id: order.id, phone_match: 'differs', is_certain: false });
    });

    test('is not certain if the digits fit two orders, or the reference names another', async () => {
      const code = receipt();
      const other = await place({ customer_phone: '0799999678' });
      await receive(code, { payer_phone: '2547*****678' });
      expect((await suggest(code)).map(({ is_certain }) => is_certain)).toEqual([false, false]);

      const [named, also] = [receipt(), await place({ customer_phone: '0722000333' })];
      await receive(named, {
        payer_phone: '2547*****333',
        reference: `${order.tracking_number} ${other.tracking_number}`,
      });
      expect((await suggest(named)).find(({ id }) => id === also.id)).toMatchObject({
        phone_match: 'digits',
        is_certain: false,
      });
    });

    test('is among the suggestions when the reference names it, however old it is', async () => {
      const old = await place();
      await database.query(`update public.orders set created_at = now() - interval '9 days' where id = $1`, [
        old.id,
      ]);
      for (let index = 0; index < 6; index += 1) await place();
      const code = receipt();
      await receive(code, { reference: `${old.tracking_number} JANE`, received_cents: charge - 100 });
      const [first, ...others] = await suggest(code);
      expect(first).toMatchObject({ id: old.id, is_named: true, fits_amount: false });
      expect(others.length).toBeLessThan(5);
    });

    test('is found by a search with the same hints', async () => {
      const other = await place({ customer_phone: '0722000444', customer_name: 'Achieng Otieno' });
      const code = receipt();
      await receive(code, { payer_phone: '254 7** *** 444', received_cents: 50_000 });
      expect(await suggest(code, 'achieng')).toMatchObject([
        { id: other.id, phone_match: 'digits', fits_amount: false, is_certain: false },
      ]);
    });
  });

  describe('an assignment that is taken back', () => {
    test('leaves the order unpaid with a new time for payment, and the money unassigned, and can be assigned again', async () => {
      const before = await stockOf(database, product);
      const other = await place();
      const code = receipt();
      await receive(code);
      const { payment_id } = await assign(code);
      expect(await stateOf()).toMatchObject({ status: 'processing', money: 'paid', delivery: true });
      expect(await takeBack(payment_id, 'Wrong customer')).toBe('unpaid');
      expect(await stateOf()).toEqual({
        status: 'pending',
        money: 'unpaid',
        reserved: true,
        delivery: false,
        payments: 0,
      });
      expect(await stockOf(database, product)).toBe(before - 1);
      expect(await transaction(code)).toEqual({ payment_id: null, resolution: null });
      expect(await rowOf(code)).toMatchObject({ kind: 'missing_here', is_open: true });
      expect(await assign(code, other)).toMatchObject({ outcome: 'paid' });
      const { rows } = await database.query<{ line: string }>(
        `select concat_ws(' ', kind, note, actor_email) as line from public.reconciliation_events where receipt = $1 order by id`,
        [code],
      );
      expect(rows.map(({ line }) => line)).toEqual([
        'given staff@jani.example',
        'taken_back Wrong customer staff@jani.example',
        'given staff@jani.example',
      ]);
      // The same money, reported again, stays where it is.
      expect((await receive(code, { source: 'statement' })).outcome).toBe('already_completed');
    });

    test('leaves an order cancelled, and its units in stock, whose time had passed before', async () => {
      await database.query(
        `update public.orders set expires_at = now() - interval '1 minute', reserved_until = now() - interval '1 minute' where id = $1`,
        [order.id],
      );
      await call(database, 'service', 'expire_reservations');
      const code = receipt();
      await receive(code);
      const before = await stockOf(database, product);
      const { payment_id } = await assign(code);
      expect(await takeBack(payment_id)).toBe('unpaid');
      expect(await stateOf()).toMatchObject({ status: 'cancelled', money: 'unpaid', reserved: false });
      expect(await stockOf(database, product)).toBe(before);
    });

    test('leaves an order under review that has another part, and an order paid that has other money', async () => {
      const [part, rest, extra] = [receipt(), receipt(), receipt()];
      await receive(part, { received_cents: 40_000 });
      await receive(rest, { received_cents: charge - 40_000 });
      await assign(part);
      const second = await assign(rest);
      expect(await stateOf()).toMatchObject({ money: 'paid' });
      expect(await takeBack(second.payment_id)).toBe('needs_review');
      expect(await stateOf()).toMatchObject({ money: 'needs_review', delivery: false, payments: 1 });

      const paidTwice = await place();
      const wrong = receipt();
      await receive(wrong);
      const { payment_id } = await assign(wrong, paidTwice);
      await receive(extra, { reference: paidTwice.tracking_number });
      expect(await takeBack(payment_id)).toBe('paid');
      expect(await stateOf(paidTwice)).toMatchObject({ money: 'paid', delivery: true, payments: 1 });
      const { rows } = await database.query<{ needs_refund: boolean }>(
        `select needs_refund from public.payments where order_id = $1`,
        [paidTwice.id],
      );
      expect(rows).toEqual([{ needs_refund: false }]);
    });

    test('withdraws an unsent refund of other money, which pays the order', async () => {
      const wrong = receipt();
      await receive(wrong);
      const { payment_id } = await assign(wrong);
      const { payment } = await receive(receipt(), { reference: order.tracking_number });
      const refund = await staff<{ id: string }>('request_refund', {
        payment_id: payment?.id,
        reason: 'Paid twice',
      });
      expect(await takeBack(payment_id)).toBe('paid');
      const { rows } = await database.query(
        'select r.status, p.needs_refund from public.refunds as r join public.payments as p on p.id = r.payment_id where r.id = $1',
        [refund.id],
      );
      expect(rows).toEqual([{ status: 'withdrawn', needs_refund: false }]);
    });

    test('a receipt that staff corrected after a withdrawn refund is joined with its prompt', async () => {
      const begun = await call<{ payment: { id: string } }>(database, 'service', 'begin_payment', {
        order_id: order.id,
        tracking_number: order.tracking_number,
        phone: '0712345678',
        callback_secret: randomBytes(16).toString('hex'),
      });
      await call(database, 'service', 'record_push', {
        payment_id: begun.payment.id,
        body: '{}',
        checkout_request_id: receipt(),
      });
      const [wrong, right] = [receipt(), receipt()];
      const { payment } = await confirm(wrong, { received_cents: charge + 1000 });
      const refund = await staff<{ id: string }>('request_refund', {
        payment_id: payment.id,
        reason: 'Too much',
      });
      await staff('withdraw_refund', { refund_id: refund.id });
      await receive(right);
      await staff('correct_till_payment', {
        payment_id: payment.id,
        seen_receipt: wrong,
        seen_cents: charge + 1000,
        receipt: right,
        received_cents: charge,
      });
      const { rows } = await database.query(
        'select p.receipt, p.method, r.receipt as refunded from public.payments as p join public.refunds as r on r.payment_id = p.id where p.order_id = $1',
        [order.id],
      );
      expect(rows).toEqual([{ receipt: right, method: 'prompt', refunded: wrong }]);
    });

    test('leaves an order unpaid whose only money was of another amount', async () => {
      const code = receipt();
      await receive(code, { received_cents: 40_000 });
      const { payment_id } = await assign(code);
      expect(await takeBack(payment_id)).toBe('unpaid');
      expect(await stateOf()).toMatchObject({ status: 'pending', money: 'unpaid', reserved: true });
    });

    test('takes back a receipt that staff typed for the wrong order', async () => {
      const { payment } = await confirm(receipt());
      expect(await takeBack(payment.id)).toBe('unpaid');
      expect(await stateOf()).toMatchObject({ payments: 0 });
    });

    test('keeps a refund that was withdrawn with its money, and none of a receipt that only staff typed', async () => {
      const code = receipt();
      await receive(code, { received_cents: charge + 1000 });
      const { payment_id } = await assign(code);
      const typed = await confirm(receipt(), { order_id: (await place()).id, received_cents: charge + 1000 });
      for (const id of [payment_id, typed.payment.id]) {
        const refund = await staff<{ id: string }>('request_refund', { payment_id: id, reason: 'Too much' });
        await staff('withdraw_refund', { refund_id: refund.id });
        expect(await takeBack(id)).toBe('unpaid');
      }
      const { rows } = await database.query(
        'select status, payment_id, transaction_receipt from public.refunds where receipt in ($1, $2)',
        [code, typed.payment.receipt],
      );
      expect(rows).toEqual([{ status: 'withdrawn', payment_id: null, transaction_receipt: code }]);
      // It goes with the money to its next order.
      expect(await assign(code)).toMatchObject({ outcome: 'paid_needs_review' });
    });

    test('withdraws the message about the payment, or corrects it once it was sent, and the next payment is reported again', async () => {
      const code = receipt();
      await receive(code);
      const first = await assign(code);
      expect(await messages()).toEqual(['order_paid waiting']);
      await takeBack(first.payment_id);
      expect(await messages()).toEqual([]);
      const second = await assign(code);
      await sendMessages();
      await takeBack(second.payment_id);
      expect(await messages()).toEqual(['order_paid sent', 'order_payment_corrected waiting']);
      await sendMessages();
      await assign(code);
      expect(await messages()).toEqual([
        'order_paid sent',
        'order_payment_corrected sent',
        'order_paid waiting',
      ]);
    });

    const set = (status: string) =>
      staff('set_order_status', {
        order_id: order.id,
        status,
        expected_status: 'processing',
        expected_payment_status: 'paid',
      });
    test.each([
      ['the order was shipped', () => set('shipped'), 409, 'order_left'],
      ['the order was delivered', () => set('delivered'), 409, 'order_left'],
      [
        'the rider has it',
        () =>
          database.query(`update public.deliveries set delivery_status = 'picked_up' where order_id = $1`, [
            order.id,
          ]),
        409,
        'order_left',
      ],
      [
        'its money is being sent back',
        async (payment_id: string) => {
          await set('cancelled');
          await staff('request_refund', { payment_id, reason: 'Cancelled' });
        },
        409,
        'refund_exists',
      ],
      [
        'change was noted',
        (payment_id: string) =>
          staff('note_change', { payment_id, kind: 'credit', amount_cents: 100, note: 'Next order' }),
        409,
        'change_noted',
      ],
    ])('is refused once %s', async (_, happens, status, code) => {
      const money = receipt();
      await receive(money);
      const { payment_id } = await assign(money);
      await happens(payment_id);
      await expectRefusal(takeBack(payment_id), status, code);
      expect(await stateOf()).toMatchObject({ money: 'paid', payments: 1 });
    });

    test('is refused for money that its payer assigned by the reference', async () => {
      const { payment } = await receive(receipt(), { reference: order.tracking_number });
      await expectRefusal(takeBack(payment?.id ?? ''), 409, 'not_assigned_by_staff');
      const code = receipt();
      const other = await place();
      const typed = await confirm(code, { order_id: other.id });
      await receive(code, { reference: other.tracking_number });
      await expectRefusal(takeBack(typed.payment.id), 409, 'named_by_payer');
      await expectRefusal(takeBack('5a000000-0000-4000-8000-00000000ffff'), 404, 'payment_not_found');
    });
  });

  describe('an amount that differs from the charge', () => {
    const come = async (cents: number) => {
      const code = receipt();
      await receive(code, { received_cents: cents });
      const { payment_id } = await assign(code);
      return { code, payment_id };
    };
    const decide = (decision: string, seen_cents: number, change: Record<string, unknown> = {}) =>
      staff('resolve_review', { order_id: order.id, decision, seen_cents, ...change });
    const changes = async (payment_id: string) =>
      (
        await database.query<{ line: string }>(
          `select kind || ' ' || amount_cents as line from public.change_notes where payment_id = $1 order by noted_at`,
          [payment_id],
        )
      ).rows.map(({ line }) => line);

    test.each([
      ['deliver', charge - 20_000, []],
      ['deliver_with_credit', charge + 20_000, ['credit 20000']],
      ['deliver_and_return', charge + 20_000, ['to_return 20000']],
    ])('%s decides the difference and the order in one step', async (decision, cents, noted) => {
      const { code, payment_id } = await come(cents);
      expect(await rowOf(code)).toMatchObject({ kind: 'wrong_amount', is_open: true });
      await decide(decision, cents);
      expect(await stateOf()).toMatchObject({ status: 'processing', money: 'paid', delivery: true });
      expect(await rowOf(code)).toMatchObject({ is_open: false });
      expect(await changes(payment_id)).toEqual(noted);
    });

    test('cancel_and_refund sends all of it back, and ends the order with it', async () => {
      const { code, payment_id } = await come(charge + 20_000);
      await decide('cancel_and_refund', charge + 20_000, { note: 'Not in stock' });
      expect(await rowOf(code)).toMatchObject({ is_open: false, refund_status: expect.any(String) });
      expect(await stateOf()).toMatchObject({ money: 'needs_review' });
      await expectRefusal(decide('deliver_with_credit', charge + 20_000), 409, 'nothing_to_resolve');
      expect(await changes(payment_id)).toEqual([]);
    });

    test('deliver assigns money under the order’s number and forgives the rest', async () => {
      const code = receipt();
      await receive(code, { reference: order.tracking_number, received_cents: charge - 10_000 });
      expect(await rowOf(code)).toMatchObject({ kind: 'wrong_amount', order_waiting_cents: charge - 10_000 });
      await decide('deliver', charge - 10_000, { receipt: code });
      expect(await stateOf()).toMatchObject({ money: 'paid' });
      expect(await rowOf(code)).toMatchObject({ is_open: false });
    });

    test('parts that add up to the charge are no difference', async () => {
      const first = await come(40_000);
      const second = await come(charge - 40_000);
      for (const { code } of [first, second]) {
        expect(await rowOf(code)).toMatchObject({
          kind: 'matched',
          is_open: false,
          order_booked_cents: charge,
        });
      }
    });

    test.each([
      ['deliver', charge + 20_000, 400, 'decision_unknown'],
      ['deliver_with_credit', charge - 20_000, 400, 'decision_unknown'],
      ['deliver_and_return', charge - 20_000, 400, 'decision_unknown'],
      ['keep', charge - 20_000, 400, 'decision_unknown'],
    ])('%s of %i cents is refused', async (decision, cents, status, code) => {
      await come(cents);
      await expectRefusal(decide(decision, cents), status, code);
      expect(await stateOf()).toMatchObject({ money: 'needs_review' });
    });

    test('is not decided by staff who saw another amount, twice, or by accepting the money alone', async () => {
      const { code } = await come(charge - 20_000);
      await expectRefusal(decide('deliver', charge), 409, 'order_changed');
      await expectRefusal(
        staff('resolve_difference', { decision: 'accept', receipt: code }),
        409,
        'decide_order',
      );
      await decide('deliver', charge - 20_000);
      await expectRefusal(decide('deliver', charge - 20_000), 409, 'nothing_to_resolve');
    });

    test('a second payment that the shop keeps is owed as credit', async () => {
      await receive(receipt(), { reference: order.tracking_number });
      const twice = receipt();
      const { payment } = await receive(twice, { reference: order.tracking_number });
      await staff('resolve_difference', { decision: 'accept', receipt: twice });
      expect(await changes(payment?.id ?? '')).toEqual([`credit ${charge}`]);
      expect(await rowOf(twice)).toMatchObject({ is_open: false, owed_cents: charge, returned_cents: 0 });
    });
  });

  describe('change', () => {
    const note = (
      payment_id: string,
      kind_: string,
      amount_cents: number,
      change: Record<string, unknown> = {},
    ) => staff('note_change', { payment_id, kind: kind_, amount_cents, ...change });

    test('that went back in part lowers what is owed and what the books have, and the rest can be refunded by hand', async () => {
      const code = receipt();
      const { payment } = await receive(code, { reference: order.tracking_number });
      const id = payment?.id ?? '';
      await note(id, 'to_return', 20_000);
      expect(await rowOf(code)).toMatchObject({ owed_cents: 20_000, returned_cents: 0 });
      const back = receipt();
      await note(id, 'returned', 20_000, { receipt: back.toLowerCase(), note: 'From the portal' });
      expect(await rowOf(code)).toMatchObject({ owed_cents: 0, returned_cents: 20_000 });
      await expectRefusal(note(id, 'returned', 100, { receipt: back }), 409, 'refund_receipt_used');
      await staff('set_order_status', {
        order_id: order.id,
        status: 'cancelled',
        expected_status: 'processing',
        expected_payment_status: 'paid',
      });
      await expectRefusal(
        staff('request_refund', { payment_id: id, reason: 'Cancelled' }),
        409,
        'partly_returned',
      );
      const refund = await staff<{ refund_cents: number }>('note_refund_by_hand', {
        payment_id: id,
        refund_receipt: receipt(),
        reason: 'The rest',
      });
      expect(refund.refund_cents).toBe(charge - 20_000);
      await expectRefusal(note(id, 'returned', 100), 409, 'refund_exists');
    });

    test.each([
      ['returned', charge, [], 409, 'change_exceeds_payment'],
      ['returned', 1100, [['returned', charge - 1000]], 409, 'change_exceeds_payment'],
      ['credit', charge + 100, [], 409, 'change_exceeds_payment'],
      ['credit', 1100, [['to_return', charge - 1000]], 409, 'change_exceeds_payment'],
      ['credit', 1100, [['returned', charge - 1000]], 409, 'change_exceeds_payment'],
      ['returned', 150, [], 400, 'amount_invalid'],
      ['returned', 0, [], 400, 'amount_invalid'],
      ['kept', 100, [], 400, 'decision_unknown'],
    ] as const)(
      '%s %i after %j is refused: never more than came',
      async (kind_, cents, earlier, status, code) => {
        const { payment } = await receive(receipt(), { reference: order.tracking_number });
        const id = payment?.id ?? '';
        for (const [earlierKind, earlierCents] of earlier) await note(id, earlierKind, earlierCents);
        await expectRefusal(note(id, kind_, cents), status, code);
      },
    );

    test('of more than staff typed books all that M-PESA reported, so that the figures lose only what went back', async () => {
      const figures = () => staff<{ received: number }>('dashboard_figures', {});
      const { received } = await figures();
      const code = receipt();
      const { payment } = await confirm(code);
      await receive(code, { received_cents: charge + 50_000 });
      await note(payment.id, 'returned', 20_000);
      expect((await figures()).received - received).toBe(charge + 30_000);
      await note(payment.id, 'credit', 30_000);
      expect((await figures()).received - received).toBe(charge + 30_000);
      expect(await rowOf(code)).toMatchObject({
        our_cents: charge + 50_000,
        is_open: false,
        owed_cents: 10_000,
      });
    });

    test.each([
      ['M-PESA reports', charge - 10_000, charge, 'paid', charge],
      ['M-PESA reports', charge - 10_000, charge - 20_000, 'needs_review', charge - 20_000],
      ['staff correct it to', charge - 10_000, charge, 'paid', charge],
      ['staff correct it to', charge - 10_000, charge - 20_000, 'needs_review', charge - 20_000],
    ])(
      'an accepted shortfall: %s, typed %i, then %i: the order is %s',
      async (how, typed, then, payment_status, booked) => {
        const code = receipt();
        const { payment } = await confirm(code, { received_cents: typed });
        await staff('resolve_review', { order_id: order.id, decision: 'deliver', seen_cents: typed });
        if (how === 'M-PESA reports') await receive(code, { received_cents: then });
        else
          await staff('correct_till_payment', {
            payment_id: payment.id,
            seen_receipt: code,
            seen_cents: typed,
            receipt: code,
            received_cents: then,
          });
        const { rows } = await database.query(
          `select o.payment_status, p.charge_cents from public.orders as o join public.payments as p on p.order_id = o.id where o.id = $1`,
          [order.id],
        );
        expect(rows).toEqual([{ payment_status, charge_cents: booked }]);
      },
    );

    test('keeps the amount that it was decided by', async () => {
      const code = receipt();
      const { payment } = await confirm(code, { received_cents: charge + 10_000 });
      await staff('resolve_review', {
        order_id: order.id,
        decision: 'deliver_with_credit',
        seen_cents: charge + 10_000,
      });
      await expectRefusal(
        staff('correct_till_payment', {
          payment_id: payment.id,
          seen_receipt: code,
          seen_cents: charge + 10_000,
          receipt: code,
          received_cents: charge,
        }),
        409,
        'change_noted',
      );
    });

    test('that is to be returned keeps the details of its customer', async () => {
      const code = receipt();
      const { payment } = await receive(code, { reference: order.tracking_number });
      const reason = async () =>
        (
          await database.query<{ reason: string | null }>(
            'select private.unsettled_money_reason($1) as reason',
            [order.id],
          )
        ).rows[0]?.reason;
      expect(await reason()).toBeNull();
      await note(payment?.id ?? '', 'to_return', 20_000);
      expect(await reason()).toBe('Change is owed to its customer');
      await note(payment?.id ?? '', 'returned', 20_000);
      expect(await reason()).toBeNull();
    });

    test('notes are never changed', async () => {
      const { payment } = await receive(receipt(), { reference: order.tracking_number });
      await note(payment?.id ?? '', 'credit', 100);
      for (const statement of [
        'update public.change_notes set amount_cents = 200 where true',
        'delete from public.change_notes where true',
      ]) {
        await expect(database.execute(statement)).rejects.toThrow('only added to');
      }
    });
  });

  describe('a typed receipt', () => {
    const register = (what: string) => call(database, 'service', 'record_mpesa_registration', { kind: what });
    const cover = () =>
      database.query(
        `insert into public.statement_pulls (window_from, window_to, outcome, leased_until, finished_at)
         values (now() - interval '1 day', now() + interval '1 hour', 'complete', now(), now())`,
      );
    const check = (code: string) =>
      staff<{ state: string; reported_cents: number | null; order_number: string | null }>(
        'check_typed_receipt',
        {
          order_id: order.id,
          receipt: code,
        },
      );

    test.each([
      ['confirmations are registered', () => register('till'), 'not_reported'],
      [
        'complete statements cover the time since the order',
        async () => {
          await database.query(
            `update public.orders set created_at = now() - interval '2 hours' where id = $1`,
            [order.id],
          );
          await cover();
        },
        'not_reported',
      ],
      ['nothing is registered', () => Promise.resolve(), 'unknown'],
      ['the order is younger than the statement', () => cover(), 'unknown'],
    ])('that M-PESA has not reported, when %s, is: %s', async (_, happens, state) => {
      const code = receipt();
      await happens();
      expect(await check(code)).toMatchObject({ state, reported_cents: null });
      if (state === 'unknown') {
        expect(await confirm(code)).toMatchObject({ outcome: 'paid' });
        return;
      }
      await expectRefusal(confirm(code), 409, 'receipt_not_reported');
      const { payment } = await confirm(code, { although_not_reported: true });
      expect(await rowOf(payment.id)).toMatchObject({ order_id: order.id, confirmed_by: expect.any(String) });
      expect((await rowOf(payment.id))?.kind).toMatch(/^(typed|missing_there)$/);
      await receive(code);
      expect(await rowOf(code)).toMatchObject({ kind: 'matched' });
    });

    test('stays typed, not confirmed, until M-PESA reports it', async () => {
      await register('till');
      const { payment } = await confirm(receipt(), { although_not_reported: true });
      expect(await rowOf(payment.id)).toMatchObject({ kind: 'typed', is_open: true });
    });

    test('is reported with M-PESA’s amount, and with the order that it paid', async () => {
      await register('till');
      const code = receipt();
      await receive(code, { received_cents: 90_000 });
      expect(await check(code)).toMatchObject({
        state: 'reported',
        reported_cents: 90_000,
        order_number: null,
      });
      await assign(code);
      expect((await check(code)).order_number).toMatch(/^ORD-/);
      await expectRefusal(check('123'), 400, 'receipt_invalid');
    });
  });

  test('the books balance after any sequence of assignments, decisions, change and refunds', async () => {
    let seed = 11;
    const pick = (count: number) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return Math.floor((seed / 2_147_483_648) * count);
    };
    const orders = [order, await place(), await place()];
    const money: string[] = [];
    const payments = async () =>
      (
        await database.query<{ id: string; order_id: string }>(
          `select id, order_id from public.payments where order_id = any ($1::uuid[]) and status = 'completed' order by created_at, id`,
          [`{${orders.map(({ id }) => id).join(',')}}`],
        )
      ).rows;
    const came = async (id: string) =>
      (
        await database.query<{ cents: number }>(
          `select coalesce(sum(charge_cents), 0)::integer as cents from public.payments
           where order_id = $1 and status = 'completed' and not needs_refund`,
          [id],
        )
      ).rows[0]?.cents ?? 0;
    const any = <T>(list: readonly T[]) => list[pick(list.length)];
    const amounts = [charge, charge, charge - 10_000, 10_000, charge + 10_000];
    const actions: (() => Promise<unknown>)[] = [
      async () => {
        const code = receipt();
        money.push(code);
        await receive(code, {
          received_cents: any(amounts),
          reference: any(['juice', any(orders)?.tracking_number]),
        });
      },
      async () => assign(any(money) ?? '', any(orders)),
      async () => confirm(receipt(), { order_id: any(orders)?.id, received_cents: any(amounts) }),
      async () => takeBack(any(await payments())?.id ?? order.id),
      async () => takeBack(any(await payments())?.id ?? order.id),
      async () => {
        const one = any(orders) ?? order;
        await staff('resolve_review', {
          order_id: one.id,
          decision: any(['deliver', 'deliver_with_credit', 'deliver_and_return', 'cancel_and_refund']),
          seen_cents: await came(one.id),
        });
      },
      async () =>
        staff('note_change', {
          payment_id: any(await payments())?.id,
          kind: any(['credit', 'to_return', 'returned']),
          amount_cents: any([100, 10_000, charge - 100]),
        }),
      async () =>
        staff('note_refund_by_hand', {
          payment_id: any(await payments())?.id,
          refund_receipt: receipt(),
          reason: 'Sent back',
        }),
      async () => staff('request_refund', { payment_id: any(await payments())?.id, reason: 'Sent back' }),
      async () => {
        const { rows } = await database.query(
          `update public.orders set expires_at = now() - interval '1 minute', reserved_until = case when reserved_until is not null then now() - interval '1 minute' end
           where id = $1 and payment_status = 'unpaid' and expires_at is not null returning id`,
          [any(orders)?.id],
        );
        if (rows.length > 0) await call(database, 'service', 'expire_reservations');
      },
      async () => {
        const one = any(orders);
        const now = await stateOf(one);
        await staff('set_order_status', {
          order_id: one?.id,
          status: any(['processing', 'shipped', 'cancelled', 'pending']),
          expected_status: now?.status,
          expected_payment_status: now?.money,
        });
      },
    ];
    let done = 0;
    for (let step = 0; step < (isExhaustive ? 1500 : 150); step += 1) {
      try {
        await any(actions)?.();
        done += 1;
      } catch (error) {
        if (!(error instanceof DatabaseError && error.code.startsWith('PT4'))) throw error;
      }
      await expectBalancedBooks(database);
    }
    expect(done).toBeGreaterThan(40);
  });
});
