// Acts of staff about money that are sent twice: after a lost answer, by a double tap, or by two members at once; and what arrives in
// between.
import { testDatabases } from '@jani-juice/backend/testing';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { expectRefusal, makeProduct, type PlacedOrder, secondStepPassed } from '../shop-database.ts';
import { nairobiDay, newPhone, newReceipt, type Payment, settleAll, setUpShop } from '../steps.ts';
import { expectBalancedBooks } from './books/balanced-books.ts';

const charge = 95_100;

describe.each(testDatabases())('on %s', (kind) => {
  const {
    database,
    asStaff,
    callAs,
    queryAs,
    readRows,
    readRow,
    payByCredit,
    receiveCash,
    totalReceived,
    place,
    pay,
    prompt,
    settle,
    receive,
    confirm,
    setStatus,
    stateOf,
    requestRefund,
  } = setUpShop(kind);
  afterEach(() => expectBalancedBooks(database));
  let product: string;
  beforeAll(async () => {
    product = await makeProduct(database, 1000);
  });

  const placeFor = (phone: string, form: Record<string, unknown> = {}) =>
    place(product, { customer_phone: phone, ...form });
  const owe = async (phone: string, cents: number) => {
    const order = await placeFor(phone);
    return {
      order,
      payment: await receiveCash(order, { received_cents: charge + cents, difference: 'credit' }),
    };
  };
  const takeBack = ({ id }: { id: string }) =>
    asStaff<null>('take_back_credit', { payment_id: id, reason: 'Wrong customer' });
  const giveBackCash = ({ id }: { id: string }) =>
    asStaff('give_back_cash', { payment_id: id, reason: 'Cancelled' });
  const note = (procedure: string, { id }: { id: string }, given: Record<string, unknown>) =>
    asStaff(procedure, { payment_id: id, ...given });
  const changeOf = async ({ id }: { id: string }) => {
    const change = await readRow('select * from private.change_of($1)', [id]);
    return [change?.owed_cents, change?.returned_cents, change?.used_cents].map(Number);
  };
  /** The same act several times at once, by two members: it is done once. Returns the codes of the other answers. */
  const onlyOnce = async (procedure: string, given: Record<string, unknown>) => {
    const results = await settleAll(4, (index) =>
      callAs(index % 2 ? secondStepPassed : 'staff', procedure, given),
    );
    const refusals = results.flatMap((result) =>
      result.status === 'rejected' ? [result.reason.detail] : [],
    );
    expect(refusals).toHaveLength(3);
    return [...new Set(refusals)];
  };

  describe('a note of change', () => {
    test.each<[string, string, Record<string, unknown>, number[]]>([
      [
        'of a part refund in cash',
        'refund_part',
        { amount_cents: 19_000, way: 'cash', reason: 'One was missing' },
        [10_000, 19_000, 0],
      ],
      ['of credit', 'note_change', { kind: 'credit', amount_cents: 5_000 }, [15_000, 0, 0]],
      [
        'of cash that went back',
        'note_change',
        { kind: 'returned', way: 'cash', amount_cents: 4_000 },
        [6_000, 4_000, 0],
      ],
    ])('%s that names the notes seen is added once', async (_, procedure, given, change) => {
      const { payment } = await owe(newPhone(), 10_000);
      expect(await onlyOnce(procedure, { payment_id: payment.id, ...given, seen_notes: 1 })).toEqual([
        'payment_changed',
      ]);
      expect(await changeOf(payment)).toEqual(change);
      await expectRefusal(note(procedure, payment, { ...given, seen_notes: 1 }), 409, 'payment_changed');
      // Who has seen it may note the same again.
      await note(procedure, payment, { ...given, seen_notes: 2 });
    });

    test('of earlier versions names none, and is added each time', async () => {
      const { payment } = await pay(await placeFor(newPhone()));
      const part = { amount_cents: 19_000, way: 'cash', reason: 'One was missing' };
      await note('refund_part', payment, part);
      await note('refund_part', payment, part);
      expect(await changeOf(payment)).toEqual([0, 38_000, 0]);
    });
  });

  describe('credit', () => {
    test('pays an order once, however often it is used for it', async () => {
      const phone = newPhone();
      const { payment } = await owe(phone, 3 * charge);
      const order = await placeFor(phone);
      expect(await onlyOnce('use_credit', { order_id: order.id })).toEqual(['order_already_paid']);
      expect(await changeOf(payment)).toEqual([2 * charge, 0, charge]);
    });

    test('is taken back once, also while its order is cancelled or left to the rider', async () => {
      const phone = newPhone();
      const { payment } = await owe(phone, charge);
      const used = await payByCredit(await placeFor(phone));
      expect(await onlyOnce('take_back_credit', { payment_id: used.id, reason: 'Wrong customer' })).toEqual([
        'payment_final',
      ]);
      expect(await changeOf(payment)).toEqual([charge, 0, 0]);

      const order = await placeFor(phone);
      const again = await payByCredit(order);
      await Promise.allSettled([
        takeBack(again),
        setStatus(order, 'cancelled'),
        requestRefund(again),
        setStatus(order, 'out_for_delivery'),
        takeBack(again),
      ]);
      const { money } = await stateOf(order);
      expect(await changeOf(payment)).toEqual(money === 'paid' ? [0, 0, charge] : [charge, 0, 0]);
    });

    test('is used or given back, never both, with the rest of its order refunded at the same time', async () => {
      for (const way of ['note', 'refund'] as const) {
        const phone = newPhone();
        const { order: source, payment } = await owe(phone, charge);
        const order = await placeFor(phone);
        if (way === 'refund') await setStatus(source, 'cancelled');
        const before = await totalReceived();
        await Promise.allSettled([
          payByCredit(order),
          way === 'note'
            ? note('note_change', payment, { kind: 'returned', way: 'cash', amount_cents: charge })
            : giveBackCash(payment),
          payByCredit(order),
        ]);
        const isUsed = (await stateOf(order)).money === 'paid';
        const back = before - (await totalReceived());
        expect(back).toBe(way === 'note' ? (isUsed ? 0 : charge) : isUsed ? charge : 2 * charge);
      }
    });

    test('of money that M-PESA is asked to reverse is not used at the same time', async () => {
      const phone = newPhone();
      const order = await placeFor(phone);
      await pay(order);
      const second = (await receive(order)).payment;
      await asStaff('resolve_difference', { decision: 'accept', payment_id: second.id });
      const next = await placeFor(phone);
      const [, refund] = await Promise.allSettled([payByCredit(next), requestRefund(second)]);
      expect((await stateOf(next)).money).toBe(refund.status === 'fulfilled' ? 'unpaid' : 'paid');
    });
  });

  describe('a second payment that was kept for its customer', () => {
    /** Cash pays the order, and then money at the till came, too, which is owed. */
    const keepSecond = async (phone: string) => {
      const order = await placeFor(phone);
      const cash = await receiveCash(order);
      const second = (await receive(order)).payment;
      await asStaff('resolve_difference', { decision: 'accept', payment_id: second.id });
      return { order, cash, second };
    };
    const takeBackCash = ({ id }: { id: string }) =>
      asStaff('take_back_cash', { payment_id: id, reason: 'Wrong order' });

    test('and paid another order, does not pay its own, too, when the cash is taken back', async () => {
      const phone = newPhone();
      const { order, cash, second } = await keepSecond(phone);
      const other = await placeFor(phone);
      await payByCredit(other);
      await takeBackCash(cash);
      expect((await stateOf(order)).money).toBe('unpaid');
      expect((await stateOf(other)).money).toBe('paid');
      expect(await changeOf(second)).toEqual([0, 0, charge]);
    });

    test('is owed, and does not pay its own order, too', async () => {
      const { order, cash, second } = await keepSecond(newPhone());
      await takeBackCash(cash);
      expect((await stateOf(order)).money).toBe('unpaid');
      expect(await changeOf(second)).toEqual([charge, 0, 0]);
    });

    test('and paid another order, does not pay its own, too, when credit or typed money is taken back', async () => {
      const phone = newPhone();
      await owe(phone, charge);
      const order = await placeFor(phone);
      const used = await payByCredit(order);
      const second = (await receive(order)).payment;
      await asStaff('resolve_difference', { decision: 'accept', payment_id: second.id });
      await takeBack(used);
      expect((await stateOf(order)).money).toBe('unpaid');

      const typed = await placeFor(newPhone());
      const { payment } = await confirm(typed);
      const further = (await receive(typed)).payment;
      await asStaff('resolve_difference', { decision: 'accept', payment_id: further.id });
      await asStaff('take_back_payment', { payment_id: payment.id, note: 'Wrong order' });
      expect((await stateOf(typed)).money).toBe('unpaid');
    });

    test('pays its order when nothing of it was kept', async () => {
      const order = await placeFor(newPhone());
      const cash = await receiveCash(order);
      await receive(order);
      await takeBackCash(cash);
      expect(await stateOf(order)).toMatchObject({
        money: 'paid',
        payments: ['cash failed', 'till completed'],
      });
    });
  });

  describe('cash', () => {
    test.each<[string, Record<string, unknown>, string[]]>([
      ['as it is', {}, ['cash completed']],
      [
        'with credit for the customer',
        { received_cents: charge + 4900, difference: 'credit' },
        ['cash completed'],
      ],
      [
        'with credit for the rest',
        { received_cents: charge - 19_000, difference: 'from_credit' },
        ['cash completed', 'credit completed'],
      ],
    ])('is received once %s, however often it is noted', async (_, change, payments) => {
      const phone = newPhone();
      const { payment } = await owe(phone, 40_000);
      const order = await placeFor(phone);
      const refusals = await onlyOnce('receive_cash', {
        order_id: order.id,
        received_cents: charge,
        ...change,
      });
      expect(refusals).toEqual(['order_already_paid']);
      expect((await stateOf(order)).payments.toSorted()).toEqual(payments);
      expect(await changeOf(payment)).toEqual(payments.length === 2 ? [21_000, 0, 19_000] : [40_000, 0, 0]);
    });

    test('and money at the till that comes at the same moment: one pays the order, the other goes back', async () => {
      for (const _ of Array.from({ length: 4 })) {
        const order = await placeFor(newPhone());
        const [till, cash] = await Promise.allSettled([receive(order), receiveCash(order)]);
        expect(till.status).toBe('fulfilled');
        const { money, payments } = await stateOf(order);
        expect(money).toBe('paid');
        // The till came first, and cash was refused; or it is a second payment.
        if (cash.status === 'rejected') expect(payments).toEqual(['till completed']);
        else expect(payments.toSorted()).toEqual(['cash completed', 'till completed, needs refund']);
      }
    });

    test('keeps paying its order when money at the till follows, which goes back by M-PESA', async () => {
      const order = await placeFor(newPhone());
      await receiveCash(order);
      const late = await receive(order);
      expect(late).toMatchObject({ outcome: 'paid_twice', payment: { needs_refund: true } });
      expect(await stateOf(order)).toMatchObject({
        money: 'paid',
        payments: ['cash completed', 'till completed, needs refund'],
      });
      expect(await requestRefund(late.payment)).toMatchObject({ method: 'reversal', refund_cents: charge });
    });

    test('with a discount, and the prompt that ended before is paid late: it goes back in full', async () => {
      await database.query(
        `insert into public.discount_codes (code, amount_cents) values ('LATE-PROMPT', 20000)`,
      );
      const order = await placeFor(newPhone(), {
        discount_code: 'LATE-PROMPT',
        expected_total: charge - 20_000,
      });
      const attempt = await prompt(order);
      await settle(attempt, { result: 'failed', result_code: '1032', received_cents: null, receipt: null });
      await receiveCash(order, { received_cents: charge - 20_000 });
      const late = await settle(attempt);
      expect(late).toMatchObject({
        outcome: 'paid_twice',
        payment: { charge_cents: charge - 20_000, needs_refund: true },
      });
      expect(await requestRefund(late.payment)).toMatchObject({ refund_cents: charge - 20_000 });
      expect((await stateOf(order)).money).toBe('paid');
    });

    test('is taken back or given back once, of members at once', async () => {
      const order = await placeFor(newPhone());
      const payment = await receiveCash(order);
      await onlyOnce('take_back_cash', { payment_id: payment.id, reason: 'Wrong order' });
      const again = await receiveCash(order);
      await setStatus(order, 'cancelled');
      const before = await totalReceived();
      expect(await onlyOnce('give_back_cash', { payment_id: again.id, reason: 'Cancelled' })).toEqual([
        'refund_exists',
      ]);
      expect(before - (await totalReceived())).toBe(charge);
    });
  });

  test('an order with a discount, paid from credit and in cash, goes back as what came, and no discount with it', async () => {
    await database.query(
      `insert into public.discount_codes (code, percent, max_uses) values ('OWED-LESS', 15, 1)`,
    );
    // 15 % of KES 950, rounded up to whole shillings.
    const discounted = charge - 14_300;
    const phone = newPhone();
    const { payment: source } = await owe(phone, 19_000);
    const order: PlacedOrder = await placeFor(phone, {
      discount_code: 'OWED-LESS',
      expected_total: discounted,
    });
    await receiveCash(order, { received_cents: discounted - 19_000, difference: 'from_credit' });
    const payments = await readRows<Payment>('select * from public.payments where order_id = $1', [order.id]);
    const [cash, credit] = ['cash', 'credit'].map((method) => payments.find((own) => own.method === method));
    if (!cash || !credit) throw new Error('Not paid in both ways');
    await setStatus(order, 'cancelled');
    const before = await totalReceived();
    await Promise.allSettled([
      giveBackCash(cash),
      requestRefund(credit),
      giveBackCash(cash),
      requestRefund(credit),
    ]);
    expect(await stateOf(order)).toMatchObject({ status: 'cancelled', money: 'refunded' });
    expect(before - (await totalReceived())).toBe(discounted - 19_000);
    expect(await changeOf(source)).toEqual([19_000, 0, 0]);
    // Its money went back, but a paid order stays a use of its code.
    await expectRefusal(
      placeFor(newPhone(), { discount_code: 'OWED-LESS', expected_total: discounted }),
      409,
      'discount_invalid',
    );
  });

  test('a day that is closed while cash comes and goes stores totals and counts of one moment', async () => {
    const orders = await Promise.all(Array.from({ length: 6 }, () => placeFor(newPhone())));
    const countedNow = async (day: string) =>
      (
        await queryAs<{ member: string; cents: string }>(
          'staff',
          'select member, expected_cents as cents from public.cash_of_day($1)',
          [day],
        )
      ).rows.map(({ member, cents }) => ({
        member,
        expected_cents: Number(cents),
        counted_cents: Number(cents),
      }));
    const close = async () => {
      const day = nairobiDay();
      return asStaff('close_day', { day, counts: JSON.stringify(await countedNow(day)), note: null });
    };
    await Promise.allSettled([
      ...orders.map(async (order) => {
        const payment = await receiveCash(order);
        await asStaff('take_back_cash', { payment_id: payment.id, reason: 'Wrong order' });
        await receiveCash(order);
      }),
      ...Array.from({ length: 6 }, close),
    ]);
    // All may have been refused, because cash was changed. A double tap of the last one adds nothing.
    await Promise.allSettled([close(), close()]);
    const closed = await readRows<{ same: boolean }>(
      `select (d.totals ->> 'in_cash')::bigint + (d.totals ->> 'refunded_in_cash')::bigint
         = (select coalesce(sum(c.taken_cents - c.given_back_cents), 0) from public.cash_counts as c where c.day = d.day) as same
       from public.day_closes as d`,
    );
    expect(closed.length).toBeGreaterThan(0);
    expect(closed.every(({ same }) => same)).toBe(true);
  });

  test('a receipt that sends part of the money back is not one of a refund by hand, too, at the same time', async () => {
    const { payment } = await pay(await placeFor(newPhone()));
    const order = await placeFor(newPhone());
    const { payment: other } = await pay(order);
    await setStatus(order, 'cancelled');
    const receipt = newReceipt();
    const results = await Promise.allSettled([
      note('refund_part', payment, {
        amount_cents: 19_000,
        way: 'mpesa',
        receipt,
        reason: 'One was missing',
      }),
      note('note_refund_by_hand', other, { refund_receipt: receipt, reason: 'Cancelled' }),
    ]);
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });
});
