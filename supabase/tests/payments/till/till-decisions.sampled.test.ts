// Decisions of staff about money for an order: finding its order, taking an assignment back, an amount that differs from the charge,
// change, and receipts that M-PESA has not reported.
import { createHash } from 'node:crypto';
import { DatabaseError } from '@jani-juice/backend/database';
import { testDatabases } from '@jani-juice/backend/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { isExhaustive } from '../../../../scripts/tests/test-depth.ts';
import { expectRefusal, makeProduct, type PlacedOrder, stockOf } from '../../shop-database.ts';
import { newReceipt, type Payment, setUpShop } from '../../steps.ts';
import { expectBalancedBooks } from '../books/balanced-books.ts';
import { expectExplainedDays } from '../books/explained-days.ts';

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

const charge = 95_100;
const hashOf = (number: string) => createHash('sha256').update(number).digest('hex');

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, asStaff, asService, queryAs, readRows, readRow, readColumn, readValue, place } = shop;
  const { expireReservations, expire, setStatus, stateOf, prompt, pay, receive, confirm, correct, assign } =
    shop;
  const { reconciliationRow, requestRefund, withdrawRefund, noteRefundByHand } = shop;
  let product: string;
  let order: PlacedOrder;

  beforeAll(async () => {
    product = await makeProduct(database, 1000);
  });
  beforeEach(async () => {
    await database.execute(
      'delete from public.statement_pulls where true; delete from private.mpesa_registrations where true',
    );
    // Other tests' orders are no candidates.
    await database.execute(
      `update public.orders set created_at = created_at - interval '10 days' where true`,
    );
    order = await place(product);
  });
  afterEach(() => expectBalancedBooks(database));
  afterAll(() => expectExplainedDays(shop));

  const takeBack = (payment_id: string, note?: string) =>
    asStaff<string>('take_back_payment', { payment_id, note: note ?? null });
  /** Money without an order's number, which staff assign to the order. */
  const receiveAndAssign = async (change: Record<string, unknown> = {}) => {
    const code = newReceipt();
    await receive('juice', code, change);
    const { payment_id } = await assign(order, code);
    return { code, payment_id };
  };
  const resolveReview = (decision: string, seen_cents: number, change: Record<string, unknown> = {}) =>
    asStaff('resolve_review', { order_id: order.id, decision, seen_cents, ...change });
  const suggest = async (code: string, search = '') =>
    (await queryAs<Suggestion>('staff', 'select * from public.suggest_orders($1, $2)', [code, search])).rows;
  const textMessages = () =>
    readColumn(
      `select kind || ' ' || status from public.outbox_messages
       where order_id = $1 and channel = 'text' order by created_at, kind`,
      [order.id],
    );
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
      const other = await place(product, { customer_phone: '0722000111', customer_name: 'Jane Wanjiku' });
      const code = newReceipt();
      await receive('juice', code, { payer_phone: '2547*****111', payer_name: 'JANE W' });
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
      const code = newReceipt();
      const other = await place(product, { customer_phone: '0799999678' });
      await receive('juice', code, { payer_phone: '2547*****678' });
      expect((await suggest(code)).map(({ is_certain }) => is_certain)).toEqual([false, false]);

      const [named, also] = [newReceipt(), await place(product, { customer_phone: '0722000333' })];
      await receive(`${order.tracking_number} ${other.tracking_number}`, named, {
        payer_phone: '2547*****333',
      });
      expect((await suggest(named)).find(({ id }) => id === also.id)).toMatchObject({
        phone_match: 'digits',
        is_certain: false,
      });
    });

    test('is among the suggestions when the reference names it, however old it is', async () => {
      const old = await place(product);
      await database.query(`update public.orders set created_at = now() - interval '9 days' where id = $1`, [
        old.id,
      ]);
      for (let index = 0; index < 6; index += 1) await place(product);
      const code = newReceipt();
      await receive(`${old.tracking_number} JANE`, code, { received_cents: charge - 100 });
      const [first, ...others] = await suggest(code);
      expect(first).toMatchObject({ id: old.id, is_named: true, fits_amount: false });
      expect(others.length).toBeLessThan(5);
    });

    test('is found by a search with the same hints', async () => {
      const other = await place(product, { customer_phone: '0722000444', customer_name: 'Achieng Otieno' });
      const code = newReceipt();
      await receive('juice', code, { payer_phone: '254 7** *** 444', received_cents: 50_000 });
      expect(await suggest(code, 'achieng')).toMatchObject([
        { id: other.id, phone_match: 'digits', fits_amount: false, is_certain: false },
      ]);
    });
  });

  describe('an assignment that is taken back', () => {
    test('leaves the order unpaid with a new time for payment, and the money unassigned, and can be assigned again', async () => {
      const before = await stockOf(database, product);
      const other = await place(product);
      const { code, payment_id } = await receiveAndAssign();
      expect(await stateOf(order)).toMatchObject({ status: 'processing', money: 'paid', deliveries: 1 });
      expect(await takeBack(payment_id, 'Wrong customer')).toBe('unpaid');
      expect(await stateOf(order)).toMatchObject({
        status: 'pending',
        money: 'unpaid',
        is_reserved: true,
        deliveries: 0,
        payments: [],
      });
      expect(await stockOf(database, product)).toBe(before - 1);
      expect(
        await readRow('select payment_id, resolution from public.mpesa_transactions where receipt = $1', [
          code,
        ]),
      ).toEqual({ payment_id: null, resolution: null });
      expect(await reconciliationRow(code)).toMatchObject({ kind: 'missing_here', is_open: true });
      expect(await assign(other, code)).toMatchObject({ outcome: 'paid' });
      expect(
        await readColumn(
          `select concat_ws(' ', kind, note, actor_email) from public.reconciliation_events where receipt = $1 order by id`,
          [code],
        ),
      ).toEqual([
        'given staff@jani.example',
        'taken_back Wrong customer staff@jani.example',
        'given staff@jani.example',
      ]);
      // The same money, reported again, stays where it is.
      expect((await receive('juice', code, { source: 'statement' })).outcome).toBe('already_completed');
    });

    test('leaves an order cancelled, and its units in stock, whose time had passed before', async () => {
      await expire(order);
      const code = newReceipt();
      await receive('juice', code);
      const before = await stockOf(database, product);
      const { payment_id } = await assign(order, code);
      expect(await takeBack(payment_id)).toBe('unpaid');
      expect(await stateOf(order)).toMatchObject({
        status: 'cancelled',
        money: 'unpaid',
        is_reserved: false,
      });
      expect(await stockOf(database, product)).toBe(before);
    });

    test('leaves an order under review that has another part, and an order paid that has other money', async () => {
      const [part, rest, extra] = [newReceipt(), newReceipt(), newReceipt()];
      await receive('juice', part, { received_cents: 40_000 });
      await receive('juice', rest, { received_cents: charge - 40_000 });
      await assign(order, part);
      const second = await assign(order, rest);
      expect(await stateOf(order)).toMatchObject({ money: 'paid' });
      expect(await takeBack(second.payment_id)).toBe('needs_review');
      expect(await stateOf(order)).toMatchObject({
        money: 'needs_review',
        deliveries: 0,
        payments: ['till completed'],
      });

      const paidTwice = await place(product);
      const wrong = newReceipt();
      await receive('juice', wrong);
      const { payment_id } = await assign(paidTwice, wrong);
      await receive(paidTwice, extra);
      expect(await takeBack(payment_id)).toBe('paid');
      expect(await stateOf(paidTwice)).toMatchObject({
        money: 'paid',
        deliveries: 1,
        payments: ['till completed'],
      });
      const { rows } = await database.query<{ needs_refund: boolean }>(
        `select needs_refund from public.payments where order_id = $1`,
        [paidTwice.id],
      );
      expect(rows).toEqual([{ needs_refund: false }]);
    });

    test('withdraws an unsent refund of other money, which pays the order', async () => {
      const { payment_id } = await receiveAndAssign();
      const { payment } = await receive(order);
      const refund = await requestRefund(payment);
      expect(await takeBack(payment_id)).toBe('paid');
      const { rows } = await database.query(
        'select r.status, p.needs_refund from public.refunds as r join public.payments as p on p.id = r.payment_id where r.id = $1',
        [refund.id],
      );
      expect(rows).toEqual([{ status: 'withdrawn', needs_refund: false }]);
    });

    test('a receipt that staff corrected after a withdrawn refund is joined with its prompt', async () => {
      await prompt(order);
      const [wrong, right] = [newReceipt(), newReceipt()];
      const { payment } = await confirm(order, wrong, { received_cents: charge + 1000 });
      const refund = await requestRefund(payment);
      await withdrawRefund(refund);
      await receive('juice', right);
      await correct(payment, { receipt: right, received_cents: charge });
      const { rows } = await database.query(
        'select p.receipt, p.method, r.receipt as refunded from public.payments as p join public.refunds as r on r.payment_id = p.id where p.order_id = $1',
        [order.id],
      );
      expect(rows).toEqual([{ receipt: right, method: 'prompt', refunded: wrong }]);
    });

    test('leaves an order unpaid whose only money was of another amount', async () => {
      const { payment_id } = await receiveAndAssign({ received_cents: 40_000 });
      expect(await takeBack(payment_id)).toBe('unpaid');
      expect(await stateOf(order)).toMatchObject({ status: 'pending', money: 'unpaid', is_reserved: true });
    });

    test('leaves an order without a hold whose units were sold during its review', async () => {
      const scarce = await makeProduct(database, 1);
      const [reviewed, code] = [await place(scarce), newReceipt()];
      await receive('juice', code, { received_cents: 40_000 });
      const { payment_id } = await assign(reviewed, code);
      await pay(await place(scarce));
      expect(await takeBack(payment_id)).toBe('unpaid');
      expect(await stateOf(reviewed)).toMatchObject({
        status: 'pending',
        money: 'unpaid',
        is_reserved: false,
        stock: 0,
      });
    });

    test('takes back a receipt that staff typed for the wrong order', async () => {
      const { payment } = await confirm(order);
      expect(await takeBack(payment.id)).toBe('unpaid');
      expect(await stateOf(order)).toMatchObject({ payments: [] });
    });

    test('keeps a refund that was withdrawn with its money, and none of a receipt that only staff typed', async () => {
      const { code, payment_id } = await receiveAndAssign({ received_cents: charge + 1000 });
      const typed = await confirm(await place(product), newReceipt(), { received_cents: charge + 1000 });
      for (const id of [payment_id, typed.payment.id]) {
        const refund = await requestRefund({ id });
        await withdrawRefund(refund);
        expect(await takeBack(id)).toBe('unpaid');
      }
      const { rows } = await database.query(
        'select status, payment_id, transaction_receipt from public.refunds where receipt in ($1, $2)',
        [code, typed.payment.receipt],
      );
      expect(rows).toEqual([{ status: 'withdrawn', payment_id: null, transaction_receipt: code }]);
      // It goes with the money to its next order.
      expect(await assign(order, code)).toMatchObject({ outcome: 'paid_needs_review' });
    });

    test('withdraws the message about the payment, or corrects it once it was sent, and the next payment is reported again', async () => {
      const code = newReceipt();
      await receive('juice', code);
      const first = await assign(order, code);
      expect(await textMessages()).toEqual(['order_paid waiting']);
      await takeBack(first.payment_id);
      expect(await textMessages()).toEqual([]);
      const second = await assign(order, code);
      await sendMessages();
      await takeBack(second.payment_id);
      expect(await textMessages()).toEqual(['order_paid sent', 'order_payment_corrected waiting']);
      await sendMessages();
      await assign(order, code);
      expect(await textMessages()).toEqual([
        'order_paid sent',
        'order_payment_corrected sent',
        'order_paid waiting',
      ]);
    });

    test.each([
      ['the order was shipped', () => setStatus(order, 'shipped'), 409, 'order_left'],
      ['the order was delivered', () => setStatus(order, 'delivered'), 409, 'order_left'],
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
          await setStatus(order, 'cancelled');
          await requestRefund({ id: payment_id });
        },
        409,
        'refund_exists',
      ],
      [
        'change was noted',
        (payment_id: string) =>
          asStaff('note_change', { payment_id, kind: 'credit', amount_cents: 100, note: 'Next order' }),
        409,
        'change_noted',
      ],
    ])('is refused once %s', async (_, happens, status, code) => {
      const { payment_id } = await receiveAndAssign();
      await happens(payment_id);
      await expectRefusal(takeBack(payment_id), status, code);
      expect(await stateOf(order)).toMatchObject({ money: 'paid', payments: ['till completed'] });
    });

    test('is refused for money that its payer assigned by the reference', async () => {
      const { payment } = await receive(order);
      await expectRefusal(takeBack(payment.id), 409, 'not_assigned_by_staff');
      const code = newReceipt();
      const other = await place(product);
      const typed = await confirm(other, code);
      await receive(other, code);
      await expectRefusal(takeBack(typed.payment.id), 409, 'named_by_payer');
      await expectRefusal(takeBack('5a000000-0000-4000-8000-00000000ffff'), 404, 'payment_not_found');
    });
  });

  describe('an amount that differs from the charge', () => {
    const changes = (payment_id: string) =>
      readColumn(
        `select kind || ' ' || amount_cents as line from public.change_notes where payment_id = $1 order by noted_at`,
        [payment_id],
      );

    test.each([
      ['deliver', charge - 20_000, []],
      ['deliver_with_credit', charge + 20_000, ['credit 20000']],
      ['deliver_and_return', charge + 20_000, ['to_return 20000']],
    ])('%s decides the difference and the order in one step', async (decision, cents, noted) => {
      const { code, payment_id } = await receiveAndAssign({ received_cents: cents });
      expect(await reconciliationRow(code)).toMatchObject({ kind: 'wrong_amount', is_open: true });
      await resolveReview(decision, cents);
      expect(await stateOf(order)).toMatchObject({ status: 'processing', money: 'paid', deliveries: 1 });
      expect(await reconciliationRow(code)).toMatchObject({ is_open: false });
      expect(await changes(payment_id)).toEqual(noted);
    });

    test('cancel_and_refund sends all of it back, and ends the order with it', async () => {
      const { code, payment_id } = await receiveAndAssign({ received_cents: charge + 20_000 });
      await resolveReview('cancel_and_refund', charge + 20_000, { note: 'Not in stock' });
      expect(await reconciliationRow(code)).toMatchObject({
        is_open: false,
        refund_status: expect.any(String),
      });
      expect(await stateOf(order)).toMatchObject({ money: 'needs_review' });
      await expectRefusal(resolveReview('deliver_with_credit', charge + 20_000), 409, 'nothing_to_resolve');
      expect(await changes(payment_id)).toEqual([]);
    });

    test('deliver assigns money under the order’s number and forgives the rest', async () => {
      const code = newReceipt();
      await receive(order, code, { received_cents: charge - 10_000 });
      expect(await reconciliationRow(code)).toMatchObject({
        kind: 'wrong_amount',
        order_waiting_cents: charge - 10_000,
      });
      await resolveReview('deliver', charge - 10_000, { receipt: code });
      expect(await stateOf(order)).toMatchObject({ money: 'paid' });
      expect(await reconciliationRow(code)).toMatchObject({ is_open: false });
    });

    test('parts that add up to the charge are no difference', async () => {
      const first = await receiveAndAssign({ received_cents: 40_000 });
      const second = await receiveAndAssign({ received_cents: charge - 40_000 });
      for (const { code } of [first, second]) {
        expect(await reconciliationRow(code)).toMatchObject({
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
      await receiveAndAssign({ received_cents: cents });
      await expectRefusal(resolveReview(decision, cents), status, code);
      expect(await stateOf(order)).toMatchObject({ money: 'needs_review' });
    });

    test('is not decided by staff who saw another amount, twice, or by accepting the money alone', async () => {
      const { code } = await receiveAndAssign({ received_cents: charge - 20_000 });
      await expectRefusal(resolveReview('deliver', charge), 409, 'order_changed');
      await expectRefusal(
        asStaff('resolve_difference', { decision: 'accept', receipt: code }),
        409,
        'decide_order',
      );
      await resolveReview('deliver', charge - 20_000);
      await expectRefusal(resolveReview('deliver', charge - 20_000), 409, 'nothing_to_resolve');
    });

    test('a second payment that the shop keeps is owed as credit', async () => {
      await receive(order);
      const twice = newReceipt();
      const { payment } = await receive(order, twice);
      await asStaff('resolve_difference', { decision: 'accept', receipt: twice });
      expect(await changes(payment.id)).toEqual([`credit ${charge}`]);
      expect(await reconciliationRow(twice)).toMatchObject({
        is_open: false,
        owed_cents: charge,
        returned_cents: 0,
      });
    });
  });

  describe('change', () => {
    const note = (
      payment_id: string,
      kind_: string,
      amount_cents: number,
      change: Record<string, unknown> = {},
    ) => asStaff('note_change', { payment_id, kind: kind_, amount_cents, ...change });

    test('that went back in part lowers what is owed and what the books have, and the rest can be refunded by hand', async () => {
      const code = newReceipt();
      const { payment } = await receive(order, code);
      const id = payment.id;
      await note(id, 'to_return', 20_000);
      expect(await reconciliationRow(code)).toMatchObject({ owed_cents: 20_000, returned_cents: 0 });
      const back = newReceipt();
      await note(id, 'returned', 20_000, { receipt: back.toLowerCase(), note: 'From the portal' });
      expect(await reconciliationRow(code)).toMatchObject({ owed_cents: 0, returned_cents: 20_000 });
      await expectRefusal(note(id, 'returned', 100, { receipt: back }), 409, 'refund_receipt_used');
      await setStatus(order, 'cancelled');
      await expectRefusal(requestRefund(payment), 409, 'partly_returned');
      const refund = await noteRefundByHand(payment);
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
        const { payment } = await receive(order);
        const id = payment.id;
        for (const [earlierKind, earlierCents] of earlier) await note(id, earlierKind, earlierCents);
        await expectRefusal(note(id, kind_, cents), status, code);
      },
    );

    test('of more than staff typed books all that M-PESA reported, so that the figures lose only what went back', async () => {
      const figures = () => asStaff<{ received: number }>('dashboard_figures', {});
      const { received } = await figures();
      const code = newReceipt();
      const { payment } = await confirm(order, code);
      await receive('juice', code, { received_cents: charge + 50_000 });
      await note(payment.id, 'returned', 20_000);
      expect((await figures()).received - received).toBe(charge + 30_000);
      await note(payment.id, 'credit', 30_000);
      expect((await figures()).received - received).toBe(charge + 30_000);
      expect(await reconciliationRow(code)).toMatchObject({
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
        const code = newReceipt();
        const { payment } = await confirm(order, code, { received_cents: typed });
        await resolveReview('deliver', typed);
        if (how === 'M-PESA reports') await receive('juice', code, { received_cents: then });
        else await correct(payment, { received_cents: then });
        const { rows } = await database.query(
          `select o.payment_status, p.charge_cents from public.orders as o join public.payments as p on p.order_id = o.id where o.id = $1`,
          [order.id],
        );
        expect(rows).toEqual([{ payment_status, charge_cents: booked }]);
      },
    );

    test('keeps the amount that it was decided by', async () => {
      const code = newReceipt();
      const { payment } = await confirm(order, code, { received_cents: charge + 10_000 });
      await resolveReview('deliver_with_credit', charge + 10_000);
      await expectRefusal(correct(payment, { received_cents: charge }), 409, 'change_noted');
    });

    test('that is to be returned keeps the details of its customer', async () => {
      const code = newReceipt();
      const { payment } = await receive(order, code);
      const reason = () =>
        readValue<string | null>('select private.unsettled_money_reason($1) as reason', [order.id]);
      expect(await reason()).toBeNull();
      await note(payment.id, 'to_return', 20_000);
      expect(await reason()).toBe('Change is owed to its customer');
      await note(payment.id, 'returned', 20_000);
      expect(await reason()).toBeNull();
    });

    test('notes are never changed', async () => {
      const { payment } = await receive(order);
      await note(payment.id, 'credit', 100);
      for (const statement of [
        'update public.change_notes set amount_cents = 200 where true',
        'delete from public.change_notes where true',
      ]) {
        await expect(database.execute(statement)).rejects.toThrow('only added to');
      }
    });
  });

  describe('a typed receipt', () => {
    const register = (what: string) => asService('record_mpesa_registration', { kind: what });
    const cover = () =>
      database.query(
        `insert into public.statement_pulls (window_from, window_to, outcome, leased_until, finished_at)
         values (now() - interval '1 day', now() + interval '1 hour', 'complete', now(), now())`,
      );
    const check = (receipt: string) =>
      asStaff<{ order_number: string | null }>('check_typed_receipt', { order_id: order.id, receipt });

    test.each([
      ['confirmations are registered', 'not_reported', () => register('till')],
      [
        'complete statements cover the time since the order',
        'not_reported',
        async () => {
          await database.query(
            `update public.orders set created_at = now() - interval '2 hours' where id = $1`,
            [order.id],
          );
          await cover();
        },
      ],
      ['nothing is registered', 'unknown', () => Promise.resolve()],
      ['the order is younger than the statement', 'unknown', () => cover()],
    ])('that M-PESA has not reported, when %s, is: %s', async (_, state, happens) => {
      const code = newReceipt();
      await happens();
      expect(await check(code)).toMatchObject({ state, reported_cents: null });
      if (state === 'unknown') {
        expect(await confirm(order, code)).toMatchObject({ outcome: 'paid' });
        return;
      }
      await expectRefusal(confirm(order, code), 409, 'receipt_not_reported');
      const { payment } = await confirm(order, code, { although_not_reported: true });
      expect(await reconciliationRow(payment.id)).toMatchObject({
        order_id: order.id,
        confirmed_by: expect.any(String),
      });
      expect((await reconciliationRow(payment.id))?.kind).toMatch(/^(typed|missing_there)$/);
      await receive('juice', code);
      expect(await reconciliationRow(code)).toMatchObject({ kind: 'matched' });
    });

    const countUnconfirmed = async () =>
      (await asStaff<{ unconfirmed: number }>('statement_status')).unconfirmed;

    test.each([
      ['M-PESA reports it', ({ receipt }: Payment) => receive('juice', receipt ?? '')],
      [
        'staff keep it',
        ({ id }: Payment) => asStaff('resolve_difference', { decision: 'accept', payment_id: id }),
      ],
      [
        'its refund is requested',
        async (payment: Payment) => {
          await setStatus(order, 'cancelled');
          await requestRefund(payment);
        },
      ],
    ])(
      'stays typed, and waits for staff, until %s',
      async (_, ends: (payment: Payment) => Promise<unknown>) => {
        await register('till');
        const waiting = await countUnconfirmed();
        const { payment } = await confirm(order, newReceipt(), { although_not_reported: true });
        expect(await reconciliationRow(payment.id)).toMatchObject({ kind: 'typed', is_open: true });
        expect(await countUnconfirmed()).toBe(waiting + 1);
        await ends(payment);
        expect(await countUnconfirmed()).toBe(waiting);
      },
    );

    test('is decided about with its own order, whichever order is named', async () => {
      await register('till');
      const other = await place(product);
      const { payment } = await confirm(order, newReceipt(), { although_not_reported: true });
      const named = { payment_id: payment.id, order_id: other.id };
      for (const decision of ['accept', 'reopen'])
        await asStaff('resolve_difference', { ...named, decision });
      expect(
        await readColumn(
          `select kind || ' ' || (order_id = $2) from public.reconciliation_events where payment_id = $1 order by id`,
          [payment.id, order.id],
        ),
      ).toEqual(['accepted true', 'reopened true']);
    });

    test('waits for staff for two weeks, as the oldest', async () => {
      await register('till');
      const waiting = await countUnconfirmed();
      const { payment } = await confirm(order, newReceipt(), { although_not_reported: true });
      const completeBefore = (days: number) =>
        readValue(
          `update public.payments set completed_at = now() - make_interval(days => $2) where id = $1
           returning to_json(completed_at)`,
          [payment.id, days],
        );
      const completedAt = await completeBefore(13);
      expect(await asStaff('statement_status')).toMatchObject({
        unconfirmed: waiting + 1,
        waiting_since: completedAt,
      });
      await completeBefore(15);
      expect(await countUnconfirmed()).toBe(waiting);
    });

    test('is reported with M-PESA’s amount, and with the order that it paid', async () => {
      await register('till');
      const code = newReceipt();
      await receive('juice', code, { received_cents: 90_000 });
      expect(await check(code)).toMatchObject({
        state: 'reported',
        reported_cents: 90_000,
        order_number: null,
      });
      await assign(order, code);
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
    const orders = [order, await place(product), await place(product)];
    const money: string[] = [];
    const payments = () =>
      readRows<{ id: string; order_id: string }>(
        `select id, order_id from public.payments where order_id = any ($1::uuid[]) and status = 'completed' order by created_at, id`,
        [`{${orders.map(({ id }) => id).join(',')}}`],
      );
    const came = async (id: string) =>
      (await readValue<number>(
        `select coalesce(sum(charge_cents), 0)::integer as cents from public.payments
         where order_id = $1 and status = 'completed' and not needs_refund`,
        [id],
      )) ?? 0;
    const any = <T>(list: readonly T[]) => list[pick(list.length)];
    const amounts = [charge, charge, charge - 10_000, 10_000, charge + 10_000];
    const actions: (() => Promise<unknown>)[] = [
      async () => {
        const code = newReceipt();
        money.push(code);
        await receive(any(['juice', any(orders)?.tracking_number]) ?? '', code, {
          received_cents: any(amounts),
        });
      },
      async () => assign(any(orders) ?? order, any(money) ?? ''),
      async () => confirm(any(orders) ?? order, newReceipt(), { received_cents: any(amounts) }),
      async () => takeBack(any(await payments())?.id ?? order.id),
      async () => takeBack(any(await payments())?.id ?? order.id),
      async () => {
        const one = any(orders) ?? order;
        await asStaff('resolve_review', {
          order_id: one.id,
          decision: any(['deliver', 'deliver_with_credit', 'deliver_and_return', 'cancel_and_refund']),
          seen_cents: await came(one.id),
        });
      },
      async () =>
        asStaff('note_change', {
          payment_id: any(await payments())?.id,
          kind: any(['credit', 'to_return', 'returned']),
          amount_cents: any([100, 10_000, charge - 100]),
        }),
      async () => noteRefundByHand(any(await payments()) ?? order),
      async () => requestRefund(any(await payments()) ?? order),
      async () => {
        const { rows } = await database.query(
          `update public.orders set expires_at = now() - interval '1 minute', reserved_until = case when reserved_until is not null then now() - interval '1 minute' end
           where id = $1 and payment_status = 'unpaid' and expires_at is not null returning id`,
          [any(orders)?.id],
        );
        if (rows.length > 0) await expireReservations();
      },
      async () => {
        const one = any(orders) ?? order;
        const now = await stateOf(one);
        await asStaff('set_order_status', {
          order_id: one.id,
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
