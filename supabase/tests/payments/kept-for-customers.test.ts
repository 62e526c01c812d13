// What the shop keeps for its customers: credit that pays orders, is taken back and given back, and part refunds by hand.
import { testDatabases } from '@jani-juice/backend/testing';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { expectRefusal, makeProduct, type PlacedOrder, stockOf } from '../shop-database.ts';
import {
  concurrently,
  newPhone,
  newReceipt,
  type Payment,
  type Refund,
  settleAll,
  setUpShop,
} from '../steps.ts';
import { expectBalancedBooks } from './books/balanced-books.ts';

interface Note {
  id: string;
  kind: string;
  amount_cents: number;
}
interface Kept {
  id: string;
  order_number: string;
  customer_phone: string;
  kept_cents: number;
  used_cents: number;
  returned_cents: number;
  owed_cents: number;
  used_orders: string | null;
}

describe.each(testDatabases())('on %s', (kind) => {
  const {
    database,
    asStaff,
    asService,
    callAs,
    readRow,
    rowsAs,
    readColumn,
    readValue,
    payByCredit,
    receiveCash,
    totalReceived,
    place,
    trackAsCustomer,
    asVisitor,
    pay,
    prompt,
    receive,
    settle,
    setStatus,
    handOver,
    stateOf,
    eventsOf,
    reconciliationRow,
    requestRefund,
    expire,
  } = setUpShop(kind);
  afterEach(() => expectBalancedBooks(database));
  let product: string;
  beforeAll(async () => {
    product = await makeProduct(database, 1000);
  });

  const charge = 95_100;
  const placeFor = (phone: string, form: Record<string, unknown> = {}) =>
    place(product, { customer_phone: phone, ...form });
  /** An order of the phone that was paid with more than its charge: the rest is owed. */
  const owe = async (phone: string, cents: number) => {
    const order = await placeFor(phone);
    return {
      order,
      payment: await receiveCash(order, { received_cents: charge + cents, difference: 'credit' }),
    };
  };
  const takeBack = ({ id }: { id: string }, reason = 'Wrong customer') =>
    asStaff<null>('take_back_credit', { payment_id: id, reason });
  const refundPart = ({ id }: { id: string }, change: Record<string, unknown> = {}) =>
    asStaff<Note>('refund_part', {
      payment_id: id,
      amount_cents: 19_000,
      way: 'mpesa',
      receipt: newReceipt(),
      reason: 'One drink was missing',
      ...change,
    });
  const giveBack = ({ id }: { id: string }, amount_cents: number, change: Record<string, unknown> = {}) =>
    asStaff<Note>('note_change', { payment_id: id, kind: 'returned', amount_cents, way: 'cash', ...change });
  const offered = async ({ id }: { id: string }) =>
    (await rowsAs<{ owed_cents: number }>('staff', 'credit_for_order', { order_id: id })).map(
      ({ owed_cents }) => owed_cents,
    );
  const keptOf = async (phone: string) =>
    (await rowsAs<Kept>('staff', 'kept_for_customers', { only_owed: false, page_size: 1000 }))
      .filter(({ customer_phone }) => customer_phone.endsWith(phone.slice(1)))
      .map(({ kept_cents, used_cents, returned_cents, owed_cents }) =>
        [kept_cents, used_cents, returned_cents, owed_cents].map(Number),
      );
  const refundTexts = ({ id }: { id: string }) =>
    readColumn<string>(
      `select channel from public.outbox_messages where order_id = $1 and kind = 'order_refunded' order by channel`,
      [id],
    );

  describe('part of a paid order goes back', () => {
    test('by M-PESA with its receipt: the order stays, received falls, the customer is told', async () => {
      const order = await placeFor(newPhone());
      const { payment } = await pay(order);
      await handOver(order, 'delivered');
      const before = await totalReceived();
      const note = await refundPart(payment, { receipt: 'ukl3ab12zz' });
      expect(note).toMatchObject({
        kind: 'returned',
        amount_cents: 19_000,
        receipt: 'UKL3AB12ZZ',
        way: 'mpesa',
      });
      expect(await stateOf(order)).toMatchObject({ status: 'delivered', money: 'paid', refunds: [] });
      expect(await totalReceived()).toBe(before - 19_000);
      expect(await refundTexts(order)).toEqual(['mail', 'text']);
      const facts = await readValue<{ payment: object }>(
        `select private.message_facts(order_id, kind, event_key) from public.outbox_messages
         where order_id = $1 and kind = 'order_refunded' and channel = 'text'`,
        [order.id],
      );
      expect(facts?.payment).toMatchObject({ charge_cents: 19_000, refund_receipt: 'UKL3AB12ZZ' });
      expect(await eventsOf(order)).toContain('staff change_noted');
      expect(await trackAsCustomer(order)).toMatchObject({ paid_cents: charge, part_refunded_cents: 19_000 });
      expect(
        await asVisitor('order_receipt', {
          tracking_number: order.tracking_number,
          access_key: order.access_key,
        }),
      ).toMatchObject({
        payments: [
          {
            charge_cents: charge,
            parts_back: [{ amount_cents: 19_000, receipt: 'UKL3AB12ZZ', way: 'mpesa' }],
          },
        ],
      });
    });

    test('in cash, without a message; the rest can go back later in full', async () => {
      const order = await placeFor(newPhone());
      const payment = await receiveCash(order);
      const before = await totalReceived();
      await refundPart(payment, { way: 'cash', receipt: null });
      expect(await refundTexts(order)).toEqual([]);
      await setStatus(order, 'cancelled');
      const refund = await asStaff<Refund>('give_back_cash', { payment_id: payment.id, reason: 'Cancelled' });
      expect(refund.refund_cents).toBe(charge - 19_000);
      expect(await totalReceived()).toBe(before - charge);
    });

    test.each([
      ['without a receipt', { receipt: null }, 400, 'receipt_invalid'],
      ['in cash with a receipt', { way: 'cash' }, 400, 'receipt_invalid'],
      ['in another way', { way: 'cheque' }, 400, 'way_unknown'],
      ['without a reason', { reason: ' ' }, 400, 'reason_invalid'],
      ['of cents', { amount_cents: 50 }, 400, 'amount_invalid'],
      ['of all of it', { amount_cents: charge }, 409, 'change_exceeds_payment'],
    ])('is refused %s', async (_, change, status, code) => {
      const { payment } = await pay(await placeFor(newPhone()));
      await expectRefusal(refundPart(payment, change), status, code);
      await refundPart(payment);
    });

    test('is refused for a cancelled order and a second payment, whose money goes back in full', async () => {
      const order = await placeFor(newPhone());
      const { payment } = await pay(order);
      const second = (await receive(order)).payment;
      await expectRefusal(refundPart(second), 409, 'part_not_refundable');
      await setStatus(order, 'cancelled');
      await expectRefusal(refundPart(payment), 409, 'part_not_refundable');
    });

    test('leaves what is owed as it is, and both together never exceed the payment', async () => {
      const phone = newPhone();
      const { payment } = await owe(phone, 4900);
      await refundPart(payment);
      expect(await keptOf(phone)).toEqual([[4900, 0, 0, 4900]]);
      await expectRefusal(
        refundPart(payment, { amount_cents: charge - 19_000 }),
        409,
        'change_exceeds_payment',
      );
    });

    test('with one receipt happens once, and is only for staff', async () => {
      const [one, other] = [await pay(await placeFor(newPhone())), await pay(await placeFor(newPhone()))];
      const receipt = newReceipt();
      const results = await Promise.allSettled(
        [one, other].map(({ payment }) => refundPart(payment, { receipt })),
      );
      expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      for (const caller of ['visitor', 'customer'] as const) {
        await expect(
          callAs(caller, 'refund_part', {
            payment_id: one.payment.id,
            amount_cents: 100,
            way: 'cash',
            reason: 'Mine',
          }),
        ).rejects.toMatchObject({ code: expect.stringMatching(/42501|PT403/) });
      }
    });
  });

  describe('credit', () => {
    test('pays a whole order of the same phone, and is no money received', async () => {
      const phone = newPhone();
      const { order: first } = await owe(phone, charge + 4900);
      const order = await placeFor(phone);
      expect(await offered(order)).toEqual([charge + 4900]);
      const before = await totalReceived();
      const used = await payByCredit(order);
      expect(used).toMatchObject({ method: 'credit', charge_cents: charge, receipt: null });
      expect(await stateOf(order)).toMatchObject({
        status: 'processing',
        money: 'paid',
        deliveries: 1,
        payments: ['credit completed'],
      });
      expect(await totalReceived()).toBe(before);
      expect(await reconciliationRow(used.id)).toBeUndefined();
      expect(await keptOf(phone)).toEqual([[charge + 4900, charge, 0, 4900]]);
      expect(await readValue('select payment_method from public.orders where id = $1', [order.id])).toBe(
        'credit',
      );
      expect(await eventsOf(order)).toContain('staff payment_completed');
      expect(await eventsOf(first)).toContain('staff change_noted');
      expect(await trackAsCustomer(order)).toMatchObject({ payment_status: 'paid', pays_credit: true });
      expect(await trackAsCustomer(first)).toMatchObject({ credit_cents: 4900 });
      await expectRefusal(payByCredit(order), 409, 'order_already_paid');
    });

    test('of several orders is used the oldest first', async () => {
      const phone = newPhone();
      await owe(phone, 50_000);
      await owe(phone, 60_000);
      await payByCredit(await placeFor(phone));
      expect(await keptOf(phone)).toEqual([
        [60_000, 45_100, 0, 14_900],
        [50_000, 50_000, 0, 0],
      ]);
    });

    test('that is too low pays the rest of cash, or of money at the till, and nothing alone', async () => {
      const phone = newPhone();
      await owe(phone, 19_000);
      const order = await placeFor(phone);
      const refusal = await expectRefusal(payByCredit(order), 409, 'credit_too_low');
      expect(refusal.hint).toBe('19000');
      expect(await stateOf(order)).toMatchObject({ money: 'unpaid', payments: [] });
      await expectRefusal(
        receiveCash(order, { received_cents: charge - 19_100, difference: 'from_credit' }),
        409,
        'credit_too_low',
      );
      const before = await totalReceived();
      await receiveCash(order, { received_cents: charge - 19_000, difference: 'from_credit' });
      expect((await stateOf(order)).payments.toSorted()).toEqual(['cash completed', 'credit completed']);
      expect(await totalReceived()).toBe(before + charge - 19_000);

      await owe(phone, 19_000);
      const another = await placeFor(phone);
      const receipt = newReceipt();
      await receive(another, receipt, { received_cents: charge - 19_000 });
      await expectRefusal(payByCredit(another), 409, 'money_waiting');
      await asStaff('resolve_difference', { decision: 'give', receipt, order_id: another.id });
      expect((await stateOf(another)).money).toBe('needs_review');
      await payByCredit(another);
      expect(await stateOf(another)).toMatchObject({ money: 'paid', deliveries: 1 });
      expect(await keptOf(phone)).toEqual([
        [19_000, 19_000, 0, 0],
        [19_000, 19_000, 0, 0],
      ]);
    });

    test('of another phone, of a refunded payment, and of the order itself is not offered', async () => {
      const phone = newPhone();
      const { order: kept, payment } = await owe(phone, charge);
      const other = await placeFor(newPhone());
      expect(await offered(other)).toEqual([]);
      await expectRefusal(payByCredit(other), 409, 'credit_too_low');
      expect(await offered(kept)).toEqual([]);
      await setStatus(kept, 'cancelled');
      await asStaff('give_back_cash', { payment_id: payment.id, reason: 'Cancelled' });
      const order = await placeFor(phone);
      expect(await offered(order)).toEqual([]);
      expect(await keptOf(phone)).toEqual([[charge, 0, charge, 0]]);
    });

    test('is used once, also by several members for several orders at once', async () => {
      const phone = newPhone();
      const { payment } = await owe(phone, charge + 10_000);
      const orders = await concurrently(4, () => placeFor(phone));
      const results = await Promise.allSettled([
        ...orders.map(payByCredit),
        giveBack(payment, charge),
        ...orders.map(payByCredit),
      ]);
      const paid = await Promise.all(orders.map(async (order) => (await stateOf(order)).money));
      const givenBack = results[4]?.status === 'fulfilled' ? 1 : 0;
      // Each of the five acts needs what is owed for itself.
      expect(paid.filter((money) => money === 'paid')).toHaveLength(1 - givenBack);
      const [[kept, used, returned, owed] = []] = await keptOf(phone);
      expect([kept, owed]).toEqual([charge + 10_000, 10_000]);
      expect([used, returned]).toEqual(givenBack ? [0, charge] : [charge, 0]);
    });

    test.each<[string, (order: PlacedOrder) => unknown, string]>([
      ['while a prompt is open', prompt, 'payment_open'],
      ['once it is paid', pay, 'order_already_paid'],
      ['once it is cancelled', expire, 'order_cancelled'],
    ])('does not pay an order %s', async (_, happens, code) => {
      const phone = newPhone();
      await owe(phone, charge);
      const order = await placeFor(phone);
      await happens(order);
      await expectRefusal(payByCredit(order), 409, code);
      expect(await keptOf(phone)).toEqual([[charge, 0, 0, charge]]);
    });

    test('takes the units of an order that held none, or is refused', async () => {
      const own = await makeProduct(database, 1);
      const phone = newPhone();
      await owe(phone, charge);
      const order = await place(own, { customer_phone: phone });
      await database.query(`update public.orders set reserved_until = null where id = $1`, [order.id]);
      await database.query('select private.return_units($1, $2)', [order.id, 'reservation_ended']);
      await payByCredit(order);
      expect(await stockOf(database, own)).toBe(0);
    });

    test('is given back in cash, or by M-PESA with its receipt and a message', async () => {
      const phone = newPhone();
      const { order, payment } = await owe(phone, 20_000);
      const before = await totalReceived();
      await giveBack(payment, 5000);
      expect(await refundTexts(order)).toEqual([]);
      await giveBack(payment, 15_000, { way: 'mpesa', receipt: newReceipt() });
      expect(await refundTexts(order)).toEqual(['mail', 'text']);
      expect(await totalReceived()).toBe(before - 20_000);
      expect(await keptOf(phone)).toEqual([[20_000, 0, 20_000, 0]]);
      await expectRefusal(payByCredit(await placeFor(phone)), 409, 'credit_too_low');
      await expectRefusal(giveBack(payment, 5000, { way: 'mpesa' }), 400, 'receipt_invalid');
    });

    test('that paid an order stays out of the refund of the money that it came from', async () => {
      const phone = newPhone();
      const { order, payment } = await owe(phone, charge + 4900);
      await payByCredit(await placeFor(phone));
      await setStatus(order, 'cancelled');
      const refund = await asStaff<Refund>('give_back_cash', { payment_id: payment.id, reason: 'Cancelled' });
      expect(refund.refund_cents).toBe(charge + 4900);
      expect(await keptOf(phone)).toEqual([[charge + 4900, charge, 4900, 0]]);
    });
  });

  describe('credit used by mistake', () => {
    test('is owed again, and the order waits for its payment', async () => {
      const phone = newPhone();
      await owe(phone, charge);
      const order = await placeFor(phone);
      const used = await payByCredit(order);
      await takeBack(used);
      expect(await stateOf(order)).toMatchObject({
        status: 'pending',
        money: 'unpaid',
        deliveries: 0,
        payments: ['credit failed'],
        is_reserved: true,
      });
      expect(await keptOf(phone)).toEqual([[charge, 0, 0, charge]]);
      expect(await eventsOf(order)).toContain('staff payment_taken_back');
      await expectRefusal(takeBack(used), 409, 'payment_final');
      await payByCredit(order);
      expect(await stateOf(order)).toMatchObject({ money: 'paid', deliveries: 1 });
    });

    test('of two members at once is taken back once', async () => {
      const phone = newPhone();
      await owe(phone, charge);
      const used = await payByCredit(await placeFor(phone));
      const results = await settleAll(4, () => takeBack(used));
      expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      expect(await keptOf(phone)).toEqual([[charge, 0, 0, charge]]);
    });

    test('leaves money of M-PESA that paid the order, too', async () => {
      const phone = newPhone();
      await owe(phone, charge);
      const order = await placeFor(phone);
      const used = await payByCredit(order);
      await receive(order);
      await takeBack(used);
      expect(await stateOf(order)).toMatchObject({
        money: 'paid',
        payments: ['credit failed', 'till completed'],
      });
    });

    test('beside money at the till puts the order under review again', async () => {
      const phone = newPhone();
      await owe(phone, 19_000);
      const order = await placeFor(phone);
      const receipt = newReceipt();
      await receive(order, receipt, { received_cents: charge - 19_000 });
      await asStaff('resolve_difference', { decision: 'give', receipt, order_id: order.id });
      const used = await payByCredit(order);
      await takeBack(used);
      expect(await stateOf(order)).toMatchObject({ money: 'needs_review', deliveries: 0 });
      expect(await keptOf(phone)).toEqual([[19_000, 0, 0, 19_000]]);
    });

    test('beside cash goes with the cash', async () => {
      const phone = newPhone();
      await owe(phone, 19_000);
      const order = await placeFor(phone);
      const cash = await receiveCash(order, { received_cents: charge - 19_000, difference: 'from_credit' });
      const credit = await readRow<Payment>(
        `select * from public.payments where order_id = $1 and method = 'credit'`,
        [order.id],
      );
      await expectRefusal(takeBack(credit as Payment), 409, 'paid_in_cash_too');
      await asStaff('take_back_cash', { payment_id: cash.id, reason: 'Wrong order' });
      expect(await stateOf(order)).toMatchObject({ money: 'unpaid', status: 'processing', deliveries: 1 });
      expect(await keptOf(phone)).toEqual([[19_000, 0, 0, 19_000]]);
    });

    test('stays once the order has left the shop', async () => {
      const phone = newPhone();
      await owe(phone, charge);
      const order = await placeFor(phone);
      const used = await payByCredit(order);
      await setStatus(order, 'shipped');
      await expectRefusal(takeBack(used), 409, 'order_left');
    });
  });

  describe('an order paid from credit', () => {
    test('that is cancelled makes it credit again, once, without money or message', async () => {
      const phone = newPhone();
      await owe(phone, charge);
      const order = await placeFor(phone);
      const used = await payByCredit(order);
      await setStatus(order, 'cancelled');
      const before = await totalReceived();
      await expectRefusal(
        asStaff('note_refund_by_hand', {
          payment_id: used.id,
          refund_receipt: newReceipt(),
          reason: 'Cancelled',
        }),
        409,
        'credit_goes_back_as_credit',
      );
      await expectRefusal(
        asStaff('give_back_cash', { payment_id: used.id, reason: 'Cancelled' }),
        409,
        'credit_goes_back_as_credit',
      );
      const results = await settleAll(3, () => requestRefund(used));
      expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      expect(await stateOf(order)).toMatchObject({ money: 'refunded', refunds: ['credit completed'] });
      expect(await totalReceived()).toBe(before);
      expect(await refundTexts(order)).toEqual([]);
      expect(await keptOf(phone)).toEqual([[charge, 0, 0, charge]]);
    });

    test('and money of M-PESA goes back in both ways', async () => {
      const phone = newPhone();
      await owe(phone, 19_000);
      const order = await placeFor(phone);
      const receipt = newReceipt();
      await receive(order, receipt, { received_cents: charge - 19_000 });
      await asStaff('resolve_difference', { decision: 'give', receipt, order_id: order.id });
      const used = await payByCredit(order);
      await setStatus(order, 'cancelled');
      const money = await readValue<string>('select id from public.payments where receipt = $1', [receipt]);
      await asStaff('note_refund_by_hand', {
        payment_id: money,
        refund_receipt: newReceipt(),
        reason: 'Cancelled',
      });
      expect((await stateOf(order)).money).toBe('paid');
      await requestRefund(used);
      expect(await stateOf(order)).toMatchObject({ money: 'refunded' });
      expect(await refundTexts(order)).toEqual(['mail', 'text']);
    });

    test('and then by M-PESA, too, owes the second payment', async () => {
      const phone = newPhone();
      await owe(phone, charge);
      const order = await placeFor(phone);
      await payByCredit(order);
      const attempt = (await receive(order)).payment;
      expect((await stateOf(order)).payments).toEqual(['credit completed', 'till completed, needs refund']);
      await asStaff('note_refund_by_hand', {
        payment_id: attempt.id,
        refund_receipt: newReceipt(),
        reason: 'Twice',
      });
    });

    test('is as paid when it is delivered, and part of it can go back in cash', async () => {
      const phone = newPhone();
      await owe(phone, charge);
      const order = await placeFor(phone);
      const used = await payByCredit(order);
      await handOver(order, 'delivered');
      const before = await totalReceived();
      await refundPart(used, { way: 'cash', receipt: null });
      expect(await totalReceived()).toBe(before - 19_000);
      await expectRefusal(takeBack(used), 409, 'payment_final');
    });
  });

  describe('an order paid from credit whose money was refunded since', () => {
    /** The order that used the credit, cancelled; the rest of the money that it came from was given back. */
    const strand = async () => {
      const phone = newPhone();
      const { order: source, payment } = await owe(phone, charge);
      const order = await placeFor(phone);
      const used = await payByCredit(order);
      await setStatus(source, 'cancelled');
      await asStaff('give_back_cash', { payment_id: payment.id, reason: 'Cancelled' });
      await setStatus(order, 'cancelled');
      return { phone, order, used };
    };

    test('goes back as money, in cash, once', async () => {
      const { phone, order, used } = await strand();
      await expectRefusal(requestRefund(used), 409, 'credit_refunded');
      const before = await totalReceived();
      const results = await settleAll(3, () =>
        asStaff('give_back_cash', { payment_id: used.id, reason: 'Cancelled' }),
      );
      expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      expect(await stateOf(order)).toMatchObject({ money: 'refunded', refunds: ['cash completed'] });
      expect(await totalReceived()).toBe(before - charge);
      expect(await refundTexts(order)).toEqual([]);
      expect(await keptOf(phone)).toEqual([[charge, charge, 0, 0]]);
      await expectRefusal(payByCredit(await placeFor(phone)), 409, 'credit_too_low');
    });

    test('goes back by M-PESA with its receipt, and with a message', async () => {
      const { order, used } = await strand();
      const before = await totalReceived();
      await asStaff('note_refund_by_hand', {
        payment_id: used.id,
        refund_receipt: newReceipt(),
        reason: 'Cancelled',
      });
      expect(await stateOf(order)).toMatchObject({ money: 'refunded', refunds: ['by_hand completed'] });
      expect(await totalReceived()).toBe(before - charge);
      expect(await refundTexts(order)).toEqual(['mail', 'text']);
    });
  });

  test('credit is owed again or stays out of a refund at the same time, and is never lost', async () => {
    for (const _ of Array.from({ length: 5 })) {
      const phone = newPhone();
      const { order: source, payment } = await owe(phone, charge);
      const order = await placeFor(phone);
      const used = await payByCredit(order);
      await setStatus(source, 'cancelled');
      const before = await totalReceived();
      const [takenBack] = await Promise.allSettled([
        takeBack(used),
        asStaff('give_back_cash', { payment_id: payment.id, reason: 'Cancelled' }),
      ]);
      // All of the money went back, or what the credit paid is still used.
      expect(before - (await totalReceived())).toBe(takenBack.status === 'fulfilled' ? 2 * charge : charge);
      expect((await stateOf(order)).money).toBe(takenBack.status === 'fulfilled' ? 'unpaid' : 'paid');
    }
  });

  test('staff cannot mark an order paid from credit as refunded without making it credit again', async () => {
    const phone = newPhone();
    await owe(phone, charge);
    const order = await placeFor(phone);
    await payByCredit(order);
    await setStatus(order, 'cancelled');
    await expectRefusal(
      asStaff('resolve_paid_order', { order_id: order.id, resolution: 'refunded' }),
      409,
      'refund_by_receipt',
    );
    expect(await keptOf(phone)).toEqual([[charge, charge, 0, 0]]);
  });

  test('a second payment that is kept pays the next order', async () => {
    const phone = newPhone();
    const order = await placeFor(phone);
    await pay(order);
    const receipt = newReceipt();
    const second = (await receive(order, receipt)).payment;
    await asStaff('resolve_difference', { decision: 'accept', receipt });
    const next = await placeFor(phone);
    await payByCredit(next);
    expect(await stateOf(next)).toMatchObject({ money: 'paid' });
    await expectRefusal(requestRefund(second), 409, 'nothing_to_send_back');
    expect(await readValue('select private.unsettled_money_reason($1)', [order.id])).toBeNull();
  });

  test('what is kept stays in the books when a prompt is joined to its receipt', async () => {
    const phone = newPhone();
    const order = await placeFor(phone);
    const attempt = await prompt(order);
    const receipt = newReceipt();
    await receive(order, receipt);
    await asStaff('note_change', {
      payment_id: await readValue('select id from public.payments where receipt = $1', [receipt]),
      kind: 'credit',
      amount_cents: 19_000,
    });
    await settle(attempt, { receipt });
    expect(await keptOf(phone)).toEqual([[19_000, 0, 0, 19_000]]);
    const next = await placeFor(phone);
    await receiveCash(next, { received_cents: charge - 19_000, difference: 'from_credit' });
    await settle(attempt, { receipt: newReceipt() });
    expect(await keptOf(phone)).toEqual([[19_000, 19_000, 0, 0]]);
  });

  test('an erasure waits until what is owed is given back', async () => {
    const phone = newPhone();
    const { order, payment } = await owe(phone, 20_000);
    await handOver(order, 'delivered');
    const erased = await asStaff<{ postponed: { reason: string }[] }>('erase_person', { identifier: phone });
    expect(erased.postponed).toMatchObject([
      { reason: 'KES 200 of credit is owed to its customer. Give it back first' },
    ]);
    await giveBack(payment, 20_000);
    await asService('forget_old_rows');
    expect(
      await readValue('select anonymised_at is not null from public.orders where id = $1', [order.id]),
    ).toBe(true);
  });

  test('totals count every payment, also beyond 1,000', async () => {
    const { payment } = await owe(newPhone(), 20_000);
    const totals = () => rowsAs('staff', 'kept_totals').then(([row]) => Number(row?.owed_cents));
    const before = await totals();
    const undone = new Error('undone');
    // Copies, without the triggers that count figures.
    const copied = database.transaction(async (session) => {
      await session.query(`set local session_replication_role = 'replica'`);
      await session.query(
        `with copies as (
           insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by, completed_at)
           select p.order_id, p.phone, p.charge_cents, p.status, p.method, p.confirmed_by, p.completed_at
           from public.payments as p, generate_series(1, 1200) where p.id = $1
           returning id
         )
         insert into public.change_notes (payment_id, kind, amount_cents)
         select c.id, 'credit', 20000 from copies as c`,
        [payment.id],
      );
      await session.query(`select set_config('request.jwt.claims', '{"role":"service_role"}', true)`);
      const { rows } = await session.query<{ owed: string }>(
        'select owed_cents::text as owed from public.kept_totals()',
      );
      expect(Number(rows[0]?.owed)).toBe(before + 1200 * 20_000);
      throw undone;
    });
    await expect(copied).rejects.toBe(undone);
    expect(await totals()).toBe(before);
  });

  test('totals are those of the rows', async () => {
    const [totals] = await rowsAs('staff', 'kept_totals');
    const rows = await rowsAs<Kept>('staff', 'kept_for_customers', { only_owed: false, page_size: 1000 });
    const sum = (name: 'owed_cents' | 'used_cents' | 'returned_cents') =>
      rows.reduce((cents, row) => cents + Number(row[name]), 0);
    expect(rows.length).toBeGreaterThan(5);
    expect([totals?.owed_cents, totals?.used_cents, totals?.returned_cents].map(Number)).toEqual([
      sum('owed_cents'),
      sum('used_cents'),
      sum('returned_cents'),
    ]);
  });
});
