// Receipts that staff typed with too much money: its surplus becomes credit, pays another order, goes back or is owed, and M-PESA reports
// less, before or after. Every shilling that came counts once.
import { testDatabases } from '@jani-juice/backend/testing';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { expectRefusal, makeProduct, type PlacedOrder } from '../../shop-database.ts';
import { newPhone, newReceipt, type Payment, setUpShop } from '../../steps.ts';
import { expectBalancedBooks } from '../books/balanced-books.ts';
import { expectExplainedDays } from '../books/explained-days.ts';

const charge = 95_100;

interface Credit {
  order_id: string;
  owed_cents: number;
  unconfirmed_receipt: string | null;
}

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const {
    database,
    asStaff,
    queryAs,
    asService,
    readValue,
    readRow,
    payByCredit,
    totalReceived,
    place,
    pay,
    prompt,
    settle,
    receive,
    confirm,
  } = shop;
  const { setStatus, handOver, stateOf, reconciliationRow, requestRefund } = shop;
  let product: string;
  beforeAll(async () => {
    product = await makeProduct(database, 1000);
  });
  afterEach(async () => {
    await expectBalancedBooks(database);
    await expectExplainedDays(shop);
  });

  const placeFor = (phone: string) => place(product, { customer_phone: phone });
  const decide = ({ id }: { id: string }, decision: string, seen_cents: number) =>
    asStaff<string>('resolve_review', { order_id: id, decision, seen_cents });
  const offered = async ({ id }: { id: string }) =>
    (await queryAs<Credit>('staff', 'select * from public.credit_for_order($1)', [id])).rows;
  const moneyOf = async ({ id }: { id: string }) => {
    const row = await readRow(
      `select p.charge_cents, public.counted_cents(p) as counted, (private.change_of(p.id)).owed_cents::integer as owed,
         (private.change_of(p.id)).used_cents::integer as used
       from public.payments as p where p.id = $1`,
      [id],
    );
    return [row?.charge_cents, row?.counted, row?.owed, row?.used];
  };
  /** Staff type a receipt with more than the order's charge, and keep the surplus as credit. */
  const typeTooMuch = async (surplus: number, phone = newPhone()) => {
    const order = await placeFor(phone);
    const receipt = newReceipt();
    const { payment } = await confirm(order, receipt, {
      received_cents: charge + surplus,
      although_not_reported: true,
    });
    await decide(order, 'deliver_with_credit', charge + surplus);
    return { phone, order, receipt, payment };
  };
  const report = (receipt: string, received_cents: number) => receive('juice', receipt, { received_cents });

  // [typed beyond the charge, reported, the order, counted for it, still owed]
  const reports: [string, number, number, string, number, number][] = [
    ['as typed', 2 * charge, 3 * charge, 'paid', charge, 2 * charge],
    ['only the charge', 2 * charge, charge, 'paid', charge, 0],
    ['half of the surplus', 2 * charge, 2 * charge, 'paid', charge, charge],
    ['a part of one unit of it', charge, charge + 19_000, 'paid', charge, 19_000],
    ['less than the charge', charge, charge - 19_000, 'needs_review', charge - 19_000, 0],
  ];
  describe('reported before its credit is used', () => {
    test.each(reports)('%s', async (_, surplus, reported, money, counted, owed) => {
      const { phone, order, receipt, payment } = await typeTooMuch(surplus);
      const before = await totalReceived();
      await report(receipt, reported);
      expect((await stateOf(order)).money).toBe(money);
      expect(await moneyOf(payment)).toEqual([reported, counted, owed, 0]);
      expect((await totalReceived()) - before).toBe(reported - charge - surplus);
      const next = await placeFor(phone);
      if (owed >= charge) await payByCredit(next);
      else expect((await expectRefusal(payByCredit(next), 409, 'credit_too_low')).hint).toBe(String(owed));
    });
  });

  describe('reported after its credit paid another order', () => {
    test.each<[string, number, number, string, number, number]>([
      ['as typed', 2 * charge, 3 * charge, 'paid', charge, charge],
      ['what both orders cost', 2 * charge, 2 * charge, 'paid', charge, 0],
      ['a part of the other order', charge, charge + 19_000, 'needs_review', 19_000, 0],
      ['only the charge', 2 * charge, charge, 'needs_review', 0, 0],
      ['less than the credit', charge, charge - 19_000, 'needs_review', 0, 0],
    ])('%s', async (_, surplus, reported, money, counted, owed) => {
      const { phone, order, receipt, payment } = await typeTooMuch(surplus);
      const next = await placeFor(phone);
      await payByCredit(next);
      const before = await totalReceived();
      await report(receipt, reported);
      expect((await stateOf(order)).money).toBe(money);
      expect((await stateOf(next)).money).toBe('paid');
      expect(await moneyOf(payment)).toEqual([reported, counted, owed, charge]);
      expect((await totalReceived()) - before).toBe(reported - charge - surplus);
      expect(await reconciliationRow(receipt)).toMatchObject({
        is_open: money === 'needs_review',
        order_booked_cents: counted,
        owed_cents: owed,
      });
      // The same report again changes nothing.
      await report(receipt, reported);
      expect(await moneyOf(payment)).toEqual([reported, counted, owed, charge]);
    });
  });

  describe('an order whose money paid another one', () => {
    const overdrawn = async (reported = charge) => {
      const typed = await typeTooMuch(charge);
      const next = await placeFor(typed.phone);
      const used = await payByCredit(next);
      await report(typed.receipt, reported);
      return { ...typed, next, used };
    };

    test('is not delivered as paid with that money, but with what is left of it', async () => {
      const { order } = await overdrawn();
      await expectRefusal(decide(order, 'deliver', charge), 409, 'order_changed');
      await expectRefusal(decide(order, 'deliver_with_credit', 0), 400, 'decision_unknown');
      await decide(order, 'deliver', 0);
      expect((await stateOf(order)).money).toBe('paid');
    });

    test('is cancelled, and nothing goes back', async () => {
      const { order, next, payment, receipt } = await overdrawn();
      const before = await totalReceived();
      await decide(order, 'cancel_and_refund', 0);
      expect(await stateOf(order)).toMatchObject({ status: 'cancelled', money: 'unpaid', refunds: [] });
      expect((await stateOf(next)).money).toBe('paid');
      expect(await totalReceived()).toBe(before);
      expect(await reconciliationRow(receipt)).toMatchObject({ is_open: false });
      await expectRefusal(requestRefund(payment), 409, 'nothing_to_send_back');
    });

    test('of which something is left is not cancelled without that: it goes back by hand', async () => {
      const { order, payment } = await overdrawn(charge + 19_000);
      await expectRefusal(decide(order, 'cancel_and_refund', 19_000), 409, 'partly_returned');
      expect(
        await asStaff('note_refund_by_hand', {
          payment_id: payment.id,
          refund_receipt: newReceipt(),
          reason: 'Cancelled',
        }),
      ).toMatchObject({ refund_cents: 19_000 });
      expect(await stateOf(order)).toMatchObject({ status: 'cancelled', money: 'refunded' });
    });

    test('is paid by it again, once the other order is cancelled', async () => {
      const { order, next, used, payment } = await overdrawn();
      expect(await offered(order)).toEqual([]);
      await setStatus(next, 'cancelled');
      await requestRefund(used);
      expect(await moneyOf(payment)).toEqual([charge, 0, charge, 0]);
      expect(await offered(order)).toMatchObject([{ order_id: order.id, owed_cents: charge }]);
      await payByCredit(order);
      expect(await moneyOf(payment)).toEqual([charge, charge, 0, 0]);
      expect(await stateOf(order)).toMatchObject({ money: 'paid', payments: ['till completed'] });
    });

    test('is paid by other credit of its customer', async () => {
      const { order, phone } = await overdrawn(charge + 19_000);
      const other = await placeFor(phone);
      await asStaff('receive_cash', {
        order_id: other.id,
        received_cents: 2 * charge - 19_000,
        difference: 'credit',
      });
      expect(await payByCredit(order)).toMatchObject({ charge_cents: charge - 19_000 });
      expect((await stateOf(order)).money).toBe('paid');
    });

    test('owes no more than came once the other order gives its credit back', async () => {
      const { order, used, payment } = await overdrawn(charge - 19_000);
      await asStaff('take_back_credit', { payment_id: used.id, reason: 'Wrong order' });
      expect(await moneyOf(payment)).toEqual([charge - 19_000, 0, charge - 19_000, 0]);
      expect((await stateOf(order)).money).toBe('needs_review');
    });
  });

  test('money that went back before less is reported does not count for its order', async () => {
    const { order, receipt, payment } = await typeTooMuch(19_000);
    await asStaff('note_change', {
      payment_id: payment.id,
      kind: 'returned',
      amount_cents: 19_000,
      way: 'cash',
    });
    await report(receipt, charge);
    expect((await stateOf(order)).money).toBe('needs_review');
    expect(await moneyOf(payment)).toEqual([charge, charge - 19_000, 0, 0]);
    await decide(order, 'deliver', charge - 19_000);
  });

  test('a part refund lowers the price, not what came', async () => {
    const { order, receipt, payment } = await typeTooMuch(19_000);
    await asStaff('refund_part', {
      payment_id: payment.id,
      amount_cents: 10_000,
      way: 'cash',
      reason: 'One was missing',
    });
    await report(receipt, charge);
    expect((await stateOf(order)).money).toBe('paid');
    expect(await moneyOf(payment)).toEqual([charge, charge, 0, 0]);
  });

  test('an order that left the shop stays as it is, and nothing is owed that did not come', async () => {
    const { phone, order, receipt, payment } = await typeTooMuch(charge);
    await handOver(order, 'shipped');
    await report(receipt, charge - 19_000);
    expect((await stateOf(order)).money).toBe('paid');
    expect(await moneyOf(payment)).toEqual([2 * charge, 2 * charge, 0, 0]);
    expect(await reconciliationRow(receipt)).toMatchObject({ is_open: true, their_cents: charge - 19_000 });
    expect((await expectRefusal(payByCredit(await placeFor(phone)), 409, 'credit_too_low')).hint).toBe('0');
    const again = { payment_id: payment.id, kind: 'credit', amount_cents: charge };
    await expectRefusal(asStaff('note_change', again), 409, 'change_exceeds_payment');
  });

  test('an order that left the shop has its charge, and less of the surplus is owed', async () => {
    const { order, receipt, payment } = await typeTooMuch(charge);
    await handOver(order, 'shipped');
    await report(receipt, charge + 19_000);
    expect((await stateOf(order)).money).toBe('paid');
    expect(await moneyOf(payment)).toEqual([charge + 19_000, charge, 19_000, 0]);
    expect(await reconciliationRow(receipt)).toMatchObject({ is_open: false });
  });

  test('a second payment that was typed too high is owed as far as it came', async () => {
    const phone = newPhone();
    const order = await placeFor(phone);
    await pay(order);
    const receipt = newReceipt();
    const { payment } = await confirm(order, receipt, { received_cents: 3 * charge });
    await asStaff('resolve_difference', { decision: 'accept', payment_id: payment.id });
    const next = await placeFor(phone);
    await payByCredit(next);
    await report(receipt, charge + 19_000);
    expect(await moneyOf(payment)).toEqual([charge + 19_000, 0, 19_000, charge]);
    expect((await stateOf(order)).money).toBe('paid');
  });

  test.each([
    ['before', false],
    ['after', true],
  ])('the callback of a prompt has the receipt with the charge, %s its credit is used', async (_, isUsed) => {
    const phone = newPhone();
    const order = await placeFor(phone);
    const attempt = await prompt(order);
    const receipt = newReceipt();
    await confirm(order, receipt, { received_cents: 2 * charge });
    await decide(order, 'deliver_with_credit', 2 * charge);
    const next = await placeFor(phone);
    if (isUsed) await payByCredit(next);
    await settle(attempt, { receipt });
    expect(await moneyOf(attempt)).toEqual([charge, isUsed ? 0 : charge, 0, isUsed ? charge : 0]);
    expect((await stateOf(order)).money).toBe(isUsed ? 'needs_review' : 'paid');
    if (!isUsed) await expectRefusal(payByCredit(next), 409, 'credit_too_low');
  });

  test('is reported and used at the same time: what came counts once', async () => {
    for (const _ of Array.from({ length: 6 })) {
      const { phone, order, receipt, payment } = await typeTooMuch(charge);
      const next = await placeFor(phone);
      const [used] = await Promise.allSettled([payByCredit(next), report(receipt, charge)]);
      const isUsed = used.status === 'fulfilled';
      expect(await moneyOf(payment)).toEqual([charge, isUsed ? 0 : charge, 0, isUsed ? charge : 0]);
      expect((await stateOf(order)).money).toBe(isUsed ? 'needs_review' : 'paid');
    }
  });

  describe('a second payment that was kept', () => {
    const keepSecond = async (phone: string, cents = charge) => {
      const order = await placeFor(phone);
      const cash = await asStaff<Payment>('receive_cash', { order_id: order.id, received_cents: charge });
      const { payment } = await receive(order, newReceipt(), { received_cents: cents });
      await asStaff('resolve_difference', { decision: 'accept', payment_id: payment.id });
      return { order, payment, cash };
    };
    const takeBackCash = ({ id }: { id: string }) =>
      asStaff('take_back_cash', { payment_id: id, reason: 'Wrong order' });

    test.each([
      ['all', charge, 0],
      ['some', charge + 19_000, 19_000],
    ])('pays its own order again with %s of it, once that is unpaid', async (_, cents, rest) => {
      const { order, payment, cash } = await keepSecond(newPhone(), cents);
      expect(await offered(order)).toEqual([]);
      await expectRefusal(payByCredit(order), 409, 'order_already_paid');
      await takeBackCash(cash);
      expect(await offered(order)).toMatchObject([{ order_id: order.id, owed_cents: cents }]);
      const before = await totalReceived();
      await payByCredit(order);
      expect(await stateOf(order)).toMatchObject({
        money: 'paid',
        deliveries: 1,
        payments: ['cash failed', 'till completed'],
      });
      expect(await moneyOf(payment)).toEqual([cents, charge, rest, 0]);
      expect(await totalReceived()).toBe(before);
      await expectRefusal(payByCredit(order), 409, 'order_already_paid');
    });

    test('does not, once a part of it paid another order', async () => {
      const phone = newPhone();
      const { order, cash } = await keepSecond(phone, charge + 19_000);
      const other = await placeFor(phone);
      await payByCredit(other);
      await takeBackCash(cash);
      expect(await offered(order)).toEqual([]);
      await expectRefusal(payByCredit(order), 409, 'credit_too_low');
    });
  });

  // Last: from here on M-PESA reports every payment.
  describe('that M-PESA should have reported', () => {
    beforeAll(async () => {
      await asService('record_mpesa_registration', { kind: 'till' });
    });
    const isUnconfirmed = ({ id }: { id: string }) =>
      readValue<boolean>('select private.is_unconfirmed(p) from public.payments as p where p.id = $1', [id]);

    test('pays no other order until then', async () => {
      const { phone, receipt, payment } = await typeTooMuch(charge);
      const next: PlacedOrder = await placeFor(phone);
      expect(await isUnconfirmed(payment)).toBe(true);
      expect(await offered(next)).toMatchObject([{ owed_cents: charge, unconfirmed_receipt: receipt }]);
      await expectRefusal(payByCredit(next), 409, 'credit_too_low');
      await report(receipt, 2 * charge);
      expect(await isUnconfirmed(payment)).toBe(false);
      expect(await offered(next)).toMatchObject([{ owed_cents: charge, unconfirmed_receipt: null }]);
      await payByCredit(next);
    });

    test('pays no other order when less is reported', async () => {
      const { phone, order, receipt } = await typeTooMuch(charge);
      await report(receipt, charge);
      await expectRefusal(payByCredit(await placeFor(phone)), 409, 'credit_too_low');
      expect((await stateOf(order)).money).toBe('paid');
    });

    test('pays another order once staff keep it, and no more once they look at it again', async () => {
      const { phone, payment } = await typeTooMuch(2 * charge);
      const about = { payment_id: payment.id };
      await asStaff('resolve_difference', { decision: 'accept', ...about });
      await payByCredit(await placeFor(phone));
      await asStaff('resolve_difference', { decision: 'reopen', ...about });
      await expectRefusal(payByCredit(await placeFor(phone)), 409, 'credit_too_low');
    });

    test('counts for its own order, of which another part came to less', async () => {
      const phone = newPhone();
      const order = await placeFor(phone);
      const part = newReceipt();
      await confirm(order, part, { received_cents: 50_000, although_not_reported: true });
      const { payment } = await confirm(order, newReceipt(), {
        received_cents: 45_000,
        although_not_reported: true,
      });
      await decide(order, 'deliver', 95_000);
      await asStaff('note_change', { payment_id: payment.id, kind: 'credit', amount_cents: 20_000 });
      await report(part, 40_000);
      expect(await moneyOf(payment)).toEqual([45_000, 25_000, 20_000, 0]);
      expect((await stateOf(order)).money).toBe('needs_review');
      const other = await placeFor(phone);
      await asStaff('receive_cash', {
        order_id: other.id,
        received_cents: charge + 10_100,
        difference: 'credit',
      });
      expect(await offered(order)).toMatchObject([
        { order_id: order.id, owed_cents: 20_000, unconfirmed_receipt: null },
        { order_id: other.id, owed_cents: 10_100 },
      ]);
      expect(await payByCredit(order)).toMatchObject({ method: 'credit', charge_cents: 10_100 });
      expect(await moneyOf(payment)).toEqual([45_000, 45_000, 0, 0]);
      expect((await stateOf(order)).money).toBe('paid');
    });

    test('leaves credit of cash and of reported money as it is', async () => {
      const phone = newPhone();
      const order = await placeFor(phone);
      await asStaff('receive_cash', { order_id: order.id, received_cents: 2 * charge, difference: 'credit' });
      await payByCredit(await placeFor(phone));
      const receipt = newReceipt();
      const other = await placeFor(phone);
      await receive(other, receipt, { received_cents: 2 * charge });
      await decide(other, 'deliver_with_credit', 2 * charge);
      await payByCredit(await placeFor(phone));
    });
  });
});
