// Payments at the till: confirmed by staff, once per receipt, concurrently with M-PESA's messages.
import { testDatabases } from '@jani-juice/backend/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { expectRefusal, makeProduct, type PlacedOrder, personIds } from '../../shop-database.ts';
import { byQuery, concurrently, newReceipt, setUpShop } from '../../steps.ts';
import { expectBalancedBooks } from '../books/balanced-books.ts';

const charge = 190_100;

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, asStaff, readColumn, place, endPaymentTime, expireReservations, expire } = shop;
  const { setStatus, stateOf, eventsOf, prompt, settle, pay, receive, confirm, correct } = shop;
  const { paymentOf, noteRefundByHand } = shop;
  let product: string;
  let order: PlacedOrder;

  beforeEach(async () => {
    product = await makeProduct(database, 5);
    order = await place(product, { quantity: 2 });
  });
  afterEach(() => expectBalancedBooks(database));

  /** An order of both units of a new product. */
  const placeForBoth = async () => place(await makeProduct(database, 2), { quantity: 2 });
  const deliver = () => asStaff('resolve_paid_order', { order_id: order.id, resolution: 'deliver' });

  test('the right amount pays the order: stock is sold, a delivery is created, and the confirming staff member is recorded', async () => {
    const code = newReceipt();
    // As typed from a phone.
    const typed = ` ${code.toLowerCase().slice(0, 5)} ${code.toLowerCase().slice(5)} `;
    expect(await confirm(order, typed)).toMatchObject({
      outcome: 'paid',
      payment: {
        status: 'completed',
        method: 'till',
        receipt: code,
        charge_cents: charge,
        confirmed_by: personIds.staff,
      },
    });
    expect(await stateOf(order)).toMatchObject({
      status: 'processing',
      money: 'paid',
      payments: ['till completed'],
      stock: 3,
    });
    expect(await eventsOf(order)).toEqual([
      'customer order_placed',
      'staff payment_completed',
      'staff payment_status_changed',
      'staff status_changed',
      'staff delivery_made',
    ]);
    const { rows } = await database.query<{ body: string }>(
      `select m.body from public.payment_messages as m join public.payments as p on p.id = m.payment_id
       where p.order_id = $1 and m.source = 'till'`,
      [order.id],
    );
    expect(rows.map(({ body }) => JSON.parse(body))).toEqual([
      { receipt: code, received_cents: charge, confirmed_by: personIds.staff, email: 'staff@jani.example' },
    ]);
  });

  test('a repeated receipt changes nothing', async () => {
    const code = newReceipt();
    await confirm(order, code);
    expect(await confirm(order, code)).toMatchObject({
      outcome: 'already_completed',
      payment: { receipt: code },
    });
    expect(await stateOf(order)).toMatchObject({ money: 'paid', payments: ['till completed'] });
  });

  test('rejects a receipt that paid another order, and stores nothing', async () => {
    const other = await placeForBoth();
    const code = newReceipt();
    await confirm(other, code);
    await expectRefusal(confirm(order, code), 409, 'receipt_used');
    expect(await stateOf(order)).toMatchObject({ money: 'unpaid', payments: [] });
  });

  describe('the receipt of money that went back', () => {
    const refunded = async (back: string) => {
      const { payment } = await pay(await placeForBoth());
      await asStaff('refund_part', {
        payment_id: payment.id,
        amount_cents: 10_000,
        way: 'mpesa',
        receipt: back,
        reason: 'One bottle was missing',
      });
    };

    test('of a refund pays no order', async () => {
      const other = await placeForBoth();
      const { payment } = await pay(other);
      await setStatus(other, 'cancelled');
      const back = newReceipt();
      await noteRefundByHand(payment, back);
      await expectRefusal(confirm(order, back), 409, 'receipt_of_refund');
      expect(await stateOf(order)).toMatchObject({ money: 'unpaid', payments: [] });
    });

    test('of a part pays no order, and corrects no receipt', async () => {
      const back = newReceipt();
      await refunded(back);
      await expectRefusal(confirm(order, back), 409, 'receipt_of_refund');
      const { payment } = await confirm(order);
      await expectRefusal(correct(payment, { receipt: back }), 409, 'receipt_of_refund');
    });

    test('pays an order if M-PESA has reported that it was received', async () => {
      const mistyped = newReceipt();
      await refunded(mistyped);
      await receive('who knows', mistyped, { received_cents: charge });
      expect(await confirm(order, mistyped)).toMatchObject({ outcome: 'paid' });
    });
  });

  test.each([
    ['too little', charge - 100],
    ['too much', charge + 100],
  ])('%s needs review and reserves no stock; delivering the order reserves it again', async (_, cents) => {
    expect(await confirm(order, newReceipt(), { received_cents: cents })).toMatchObject({
      outcome: 'paid_needs_review',
    });
    expect(await stateOf(order)).toMatchObject({
      status: 'pending',
      money: 'needs_review',
      payments: ['till completed'],
      stock: 5,
    });
    await deliver();
    expect(await stateOf(order)).toMatchObject({ status: 'processing', money: 'paid', stock: 3 });
  });

  describe('a typing error', () => {
    const messages = () =>
      readColumn(
        `select m.kind || ' ' || round(extract(epoch from q.due_at - m.created_at)) as line
         from public.outbox_messages as m join private.outbox_queue as q on q.message_id = m.id
         where m.order_id = $1 and m.channel = 'mail' order by 1`,
        [order.id],
      );

    test('in the amount is corrected: the order is paid, and the customer is notified of that only', async () => {
      const { payment } = await confirm(order, newReceipt(), { received_cents: charge - 100 });
      expect(await messages()).toEqual(['order_payment_held 15']);
      expect(await correct(payment, { received_cents: charge })).toMatchObject({ outcome: 'paid' });
      expect(await stateOf(order)).toMatchObject({
        status: 'processing',
        money: 'paid',
        payments: ['till completed'],
        stock: 3,
      });
      expect(await messages()).toEqual(['order_paid 15']);
      expect((await eventsOf(order)).filter((line) => line.includes('payment'))).toEqual([
        'staff payment_completed',
        'staff payment_status_changed',
        'staff payment_corrected',
        'staff payment_status_changed',
      ]);
    });

    test('that made the order look paid is corrected: the order needs review and reserves no stock', async () => {
      const { payment } = await confirm(order);
      expect(await messages()).toEqual(['order_paid 15']);
      expect(await correct(payment, { received_cents: charge - 5000 })).toMatchObject({
        outcome: 'needs_review',
      });
      expect(await stateOf(order)).toMatchObject({ status: 'pending', money: 'needs_review', stock: 5 });
      expect(await messages()).toEqual(['order_payment_held 15']);
    });

    test('in the receipt is corrected, and the wrong receipt can be used again', async () => {
      const [wrong, right] = [newReceipt(), newReceipt()];
      const { payment } = await confirm(order, wrong);
      expect(await correct(payment, { receipt: ` ${right.toLowerCase()} ` })).toMatchObject({
        outcome: 'paid',
      });
      const { rows } = await database.query(
        'select receipt, charge_cents from public.payments where order_id = $1',
        [order.id],
      );
      expect(rows).toEqual([{ receipt: right, charge_cents: charge }]);
      const other = await placeForBoth();
      expect(await confirm(other, wrong)).toMatchObject({ outcome: 'paid' });
      await expectRefusal(correct({ ...payment, receipt: right }, { receipt: wrong }), 409, 'receipt_used');
    });

    test('cannot be corrected once M-PESA has confirmed the payment', async () => {
      const { payment } = await confirm(order, newReceipt(), { received_cents: charge - 100 });
      await receive(order, payment.receipt ?? '', { received_cents: charge - 100 });
      await expectRefusal(correct(payment, { received_cents: charge }), 409, 'payment_confirmed');
    });

    test('in the amount cannot be corrected after the order was handed over; one in the receipt can', async () => {
      const { payment } = await confirm(order);
      await setStatus(order, 'shipped');
      await expectRefusal(correct(payment, { received_cents: charge - 100 }), 409, 'payment_final');
      expect(await correct(payment, { receipt: newReceipt() })).toMatchObject({ outcome: 'paid' });
    });

    test('is corrected by staff only, from its current version, to a receipt and an amount', async () => {
      const { payment } = await confirm(order, newReceipt(), { received_cents: charge - 100 });
      await expectRefusal(correct(payment, { by: 'customer', received_cents: charge }), 403, 'staff_only');
      await expectRefusal(
        correct({ ...payment, charge_cents: charge }, { received_cents: charge }),
        409,
        'payment_changed',
      );
      await expectRefusal(correct(payment, { receipt: 'UKL' }), 400, 'receipt_invalid');
      await expectRefusal(correct(payment, { received_cents: 150 }), 400, 'amount_invalid');
      expect(await correct(payment)).toMatchObject({ outcome: 'unchanged' });
    });
  });

  test('a refunded wrong amount leaves the order cancelled and its units in stock', async () => {
    const { payment } = await confirm(order, newReceipt(), { received_cents: charge - 100 });
    await noteRefundByHand(payment);
    expect(await stateOf(order)).toMatchObject({ status: 'cancelled', money: 'refunded', stock: 5 });
  });

  test('a payment reopens an expired order', async () => {
    await expire(order);
    expect(await stateOf(order)).toMatchObject({ status: 'cancelled', stock: 5 });
    expect(await confirm(order)).toMatchObject({ outcome: 'paid' });
    expect(await stateOf(order)).toMatchObject({ status: 'processing', money: 'paid', stock: 3 });
  });

  test('a second payment, by hand or by prompt, is recorded and flagged for refund', async () => {
    const payment = await prompt(order);
    await confirm(order);
    expect(await settle(payment)).toMatchObject({ outcome: 'paid_twice' });
    expect(await confirm(order)).toMatchObject({
      outcome: 'paid_twice',
      payment: { needs_refund: true },
    });
    expect(await stateOf(order)).toMatchObject({
      money: 'paid',
      payments: ['prompt completed, needs refund', 'till completed', 'till completed, needs refund'],
      stock: 3,
    });
  });

  test('rejects a second receipt from staff who saw the order unpaid, and accepts the first one again without effect', async () => {
    const [first, second] = [newReceipt(), newReceipt()];
    const confirmIfUnpaid = (code: string) => confirm(order, code, { only_if_unpaid: true });
    expect(await confirmIfUnpaid(first)).toMatchObject({ outcome: 'paid' });
    await expectRefusal(confirmIfUnpaid(second), 409, 'paid_meanwhile');
    expect(await stateOf(order)).toMatchObject({ money: 'paid', payments: ['till completed'] });
    expect(await confirmIfUnpaid(first)).toMatchObject({ outcome: 'already_completed' });
    expect(await confirm(order, second)).toMatchObject({ outcome: 'paid_twice' });
  });

  test('matches a receipt that M-PESA has already reported', async () => {
    const payment = await prompt(order);
    const code = newReceipt();
    await settle(payment, { receipt: code });
    expect(await confirm(order, code)).toMatchObject({
      outcome: 'already_completed',
      payment: { id: payment.id },
    });
    expect(await stateOf(order)).toMatchObject({ payments: ['prompt completed'] });
  });

  test("a prompt's receipt that staff entered before M-PESA reported it is one payment", async () => {
    const payment = await prompt(order);
    const code = newReceipt();
    await confirm(order, code);
    expect(await settle(payment, { receipt: code })).toMatchObject({
      outcome: 'confirmed_by_hand',
      payment: { id: payment.id, needs_refund: false, confirmed_by: personIds.staff },
    });
    expect(await settle(payment, { receipt: code })).toMatchObject({ outcome: 'already_completed' });
    expect(await stateOf(order)).toMatchObject({ money: 'paid', payments: ['prompt completed'], stock: 3 });
  });

  // M-PESA answers a query with neither amount nor receipt: until its callback arrives, it is unknown that this is one payment.
  test.each(['before', 'after'])(
    'a prompt that a query completed %s staff entered its receipt is one payment after the callback',
    async (when) => {
      const payment = await prompt(order);
      const code = newReceipt();
      const query = () => settle(payment, byQuery);
      if (when === 'before') await query();
      expect(await confirm(order, code)).toMatchObject({
        outcome: when === 'before' ? 'paid_twice' : 'paid',
      });
      if (when === 'after') expect(await query()).toMatchObject({ outcome: 'paid_twice' });
      expect(await settle(payment, { receipt: code })).toMatchObject({
        outcome: 'confirmed_by_hand',
        payment: { id: payment.id, receipt: code, needs_refund: false, confirmed_by: personIds.staff },
      });
      expect(await settle(payment, { receipt: code })).toMatchObject({ outcome: 'already_completed' });
      expect(await stateOf(order)).toMatchObject({ money: 'paid', payments: ['prompt completed'], stock: 3 });
    },
  );

  test('a payment that joins the receipt which staff entered later keeps the day on which it was paid', async () => {
    const payment = await prompt(order);
    await settle(payment, byQuery);
    const { rows } = await database.query<{ completed_at: string }>(
      `update public.payments set completed_at = completed_at - interval '2 days' where id = $1 returning completed_at`,
      [payment.id],
    );
    const code = newReceipt();
    await confirm(order, code);
    await settle(payment, { receipt: code });
    expect(await paymentOf(code)).toMatchObject({ id: payment.id, completed_at: rows[0]?.completed_at });
  });

  test('staff resolve a payment in review with the receipt that they saw', async () => {
    const payment = await prompt(order);
    await settle(payment, { received_cents: charge - 100 });
    expect(await stateOf(order)).toMatchObject({ money: 'unpaid', payments: ['prompt review'] });
    await confirm(order, newReceipt(), { received_cents: charge - 100 });
    await deliver();
    expect(await stateOf(order)).toMatchObject({
      money: 'paid',
      payments: ['prompt review', 'till completed'],
    });
  });

  test.each([
    ['a short receipt', { receipt: 'UKL12' }, 400, 'receipt_invalid'],
    ['no receipt', { receipt: null }, 400, 'receipt_invalid'],
    ['no amount', { received_cents: null }, 400, 'amount_invalid'],
    ['an amount of 0', { received_cents: 0 }, 400, 'amount_invalid'],
    ['an amount with cents', { received_cents: 190_150 }, 400, 'amount_invalid'],
    ['an unknown order', { order_id: '00000000-0000-4000-8000-000000000000' }, 404, 'order_not_found'],
  ])('rejects %s', async (_, change, status, code) => {
    await expectRefusal(confirm(order, newReceipt(), change), status, code);
    expect(await stateOf(order)).toMatchObject({ money: 'unpaid', payments: [] });
  });

  test.each(['customer', 'former staff', 'half-way staff'] as const)('%s may not confirm', async (person) => {
    await expectRefusal(confirm(order, newReceipt(), { by: person }), 403, 'staff_only');
    expect(await stateOf(order)).toMatchObject({ money: 'unpaid', payments: [] });
  });

  test.each([
    ['till_number', '12', false],
    ['till_number', '5123456', true],
    ['paybill_number', '12 34', false],
    ['paybill_number', '', true],
  ])('%s accepts "%s": %s', async (column, value, isFine) => {
    const saving = database.query(`update public.store_settings set ${column} = $1`, [value]);
    if (isFine) await saving;
    else await expect(saving).rejects.toMatchObject({ code: '23514' });
  });

  describe.runIf(kind === 'postgresql')('at the same time', () => {
    const refused = (error: unknown) => (error as { detail?: string }).detail ?? String(error);

    test('a receipt entered twenty times concurrently pays once', async () => {
      const code = newReceipt();
      const found = await concurrently(20, () => confirm(order, code));
      expect(found.filter(({ outcome }) => outcome === 'paid')).toHaveLength(1);
      expect(found.filter(({ outcome }) => outcome === 'already_completed')).toHaveLength(19);
    });

    test('a receipt entered concurrently for two orders pays one of them', async () => {
      const other = await place(product, { quantity: 2 });
      const code = newReceipt();
      const found = await concurrently(10, (index) =>
        confirm(index % 2 === 0 ? order : other, code).then(({ outcome }) => outcome, refused),
      );
      expect(found.filter((outcome) => outcome === 'paid')).toHaveLength(1);
      expect(found.filter((outcome) => outcome === 'receipt_used')).toHaveLength(5);
    });

    test('a confirmation and the callback of the same payment are one payment, in any order', async () => {
      for (let round = 0; round < 8; round += 1) {
        const placed = await placeForBoth();
        const payment = await prompt(placed);
        const code = newReceipt();
        await concurrently<unknown>(6, (index) =>
          index % 2 === 0 ? confirm(placed, code) : settle(payment, { receipt: code }),
        );
        expect(await stateOf(placed)).toMatchObject({ money: 'paid', payments: ['prompt completed'] });
        await expectBalancedBooks(database);
      }
    });

    test('a confirmation and the callback of another payment pay once and flag one for refund', async () => {
      for (let round = 0; round < 8; round += 1) {
        const placed = await placeForBoth();
        const payment = await prompt(placed);
        await concurrently<unknown>(2, (index) => (index === round % 2 ? confirm(placed) : settle(payment)));
        const { money, payments } = await stateOf(placed);
        expect(money).toBe('paid');
        expect(payments?.filter((line) => line.endsWith('needs refund'))).toHaveLength(1);
        await expectBalancedBooks(database);
      }
    });

    test('an order is paid when its payment and its expiry are concurrent', async () => {
      for (let round = 0; round < 8; round += 1) {
        const placed = await placeForBoth();
        await endPaymentTime(placed);
        const code = newReceipt();
        await concurrently<unknown>(4, (index) =>
          index % 2 === 0 ? expireReservations() : confirm(placed, code),
        );
        expect(await stateOf(placed)).toMatchObject({ status: 'processing', money: 'paid' });
        await expectBalancedBooks(database);
      }
    });
  });
});
