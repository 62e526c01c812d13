// Payments at the till: confirmed by staff, once per receipt, concurrently with M-PESA's messages.
import { randomBytes, randomInt } from 'node:crypto';
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
  type Person,
  type PlacedOrder,
  personIds,
  stockOf,
} from '../shop-database.ts';
import { expectBalancedBooks } from './balanced-books.ts';

type Payment = Types['public']['Tables']['payments']['Row'];
interface Settled {
  outcome: string;
  payment: Payment;
}

const receipt = () => `UKL${randomBytes(4).toString('hex').toUpperCase().slice(0, 7)}`;
const charge = 190_100;

describe.each(testDatabases())('on %s', (kind) => {
  let database: Database;
  let product: string;
  let order: PlacedOrder;

  beforeAll(async () => {
    database = await openShopDatabase(kind);
  });
  afterAll(() => database.close());
  beforeEach(async () => {
    product = await newProduct(5);
    order = await place(product);
  });
  afterEach(() => expectBalancedBooks(database));

  async function newProduct(stock: number): Promise<string> {
    const id = await makeProduct(database, stock);
    return id;
  }
  const place = (productId: string) =>
    call<PlacedOrder>(database, 'visitor', 'place_order', {
      ...orderForm(productId),
      quantity: 2,
      expected_total: charge,
    });
  const confirm = (code: string, cents = charge, placed = order, person: Person = 'staff') =>
    call<Settled>(database, person, 'confirm_till_payment', {
      order_id: placed.id,
      receipt: code,
      received_cents: cents,
    });
  /** A payment whose prompt is on a phone. */
  async function prompt(placed = order): Promise<Payment> {
    const { payment } = await call<{ payment: Payment }>(database, 'service', 'begin_payment', {
      order_id: placed.id,
      tracking_number: placed.tracking_number,
      phone: `07${String(randomInt(100_000_000)).padStart(8, '0')}`,
      callback_secret: randomBytes(32).toString('hex'),
    });
    return call<Payment>(database, 'service', 'record_push', {
      payment_id: payment.id,
      body: '{}',
      checkout_request_id: `ws_CO_${randomBytes(8).toString('hex')}`,
    });
  }
  const callback = (payment: Payment, change: Record<string, unknown> = {}) =>
    call<Settled>(database, 'service', 'settle_payment', {
      payment_id: payment.id,
      source: 'callback',
      body: '{"raw":true}',
      result: 'succeeded',
      result_code: '0',
      received_cents: payment.charge_cents,
      receipt: receipt(),
      checkout_request_id: payment.checkout_request_id,
      ...change,
    });
  const decide = (decision: string, placed = order) =>
    call(database, 'staff', 'resolve_paid_order', { order_id: placed.id, resolution: decision });

  /** State of an order and its payments. */
  async function state(placed = order) {
    const { rows } = await database.query<{ order: string; money: string; payments: string[] }>(
      `select o.status as order, o.payment_status as money,
              coalesce((select json_agg(p.method || ' ' || p.status || case when p.needs_refund then ', needs refund' else '' end
                                        order by p.created_at)
                        from public.payments as p where p.order_id = o.id), '[]') as payments
       from public.orders as o where o.id = $1`,
      [placed.id],
    );
    return { ...rows[0], stock: await stockOf(database, product) };
  }
  const events = async (placed = order) =>
    (
      await database.query<{ line: string }>(
        `select actor || ' ' || kind as line from public.order_events where order_id = $1 order by id`,
        [placed.id],
      )
    ).rows.map(({ line }) => line);

  test('the right amount pays the order: stock is sold, a delivery is created, and the confirming staff member is recorded', async () => {
    const code = receipt();
    // As typed from a phone.
    const typed = ` ${code.toLowerCase().slice(0, 5)} ${code.toLowerCase().slice(5)} `;
    expect(await confirm(typed)).toMatchObject({
      outcome: 'paid',
      payment: {
        status: 'completed',
        method: 'till',
        receipt: code,
        charge_cents: charge,
        confirmed_by: personIds.staff,
      },
    });
    expect(await state()).toEqual({
      order: 'processing',
      money: 'paid',
      payments: ['till completed'],
      stock: 3,
    });
    expect(await events()).toEqual([
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
    const code = receipt();
    await confirm(code);
    expect(await confirm(code)).toMatchObject({ outcome: 'already_completed', payment: { receipt: code } });
    expect(await state()).toMatchObject({ money: 'paid', payments: ['till completed'] });
  });

  test('rejects a receipt that paid another order, and stores nothing', async () => {
    const other = await place(await newProduct(2));
    const code = receipt();
    await confirm(code, charge, other);
    await expectRefusal(confirm(code), 409, 'receipt_used');
    expect(await state()).toMatchObject({ money: 'unpaid', payments: [] });
  });

  test.each([
    ['too little', charge - 100],
    ['too much', charge + 100],
  ])('%s needs review and reserves no stock; delivering the order reserves it again', async (_, cents) => {
    expect(await confirm(receipt(), cents)).toMatchObject({ outcome: 'paid_needs_review' });
    expect(await state()).toEqual({
      order: 'pending',
      money: 'needs_review',
      payments: ['till completed'],
      stock: 5,
    });
    await decide('deliver');
    expect(await state()).toMatchObject({ order: 'processing', money: 'paid', stock: 3 });
  });

  describe('a typing error', () => {
    interface Corrected {
      outcome: string;
    }
    const correct = (
      seen: Payment,
      change: { receipt?: string; received_cents?: number },
      person: Person = 'staff',
    ): Promise<Corrected> =>
      call<Corrected>(database, person, 'correct_till_payment', {
        payment_id: seen.id,
        seen_receipt: seen.receipt,
        seen_cents: seen.charge_cents,
        receipt: seen.receipt,
        received_cents: seen.charge_cents,
        ...change,
      });
    const messages = async () =>
      (
        await database.query<{ line: string }>(
          `select m.kind || ' ' || round(extract(epoch from q.due_at - m.created_at)) as line
           from public.outbox_messages as m join private.outbox_queue as q on q.message_id = m.id
           where m.order_id = $1 and m.channel = 'mail' order by 1`,
          [order.id],
        )
      ).rows.map(({ line }) => line);

    test('in the amount is corrected: the order is paid, and the customer is notified of that only', async () => {
      const { payment } = await confirm(receipt(), charge - 100);
      expect(await messages()).toEqual(['order_payment_held 15']);
      expect(await correct(payment, { received_cents: charge })).toMatchObject({ outcome: 'paid' });
      expect(await state()).toEqual({
        order: 'processing',
        money: 'paid',
        payments: ['till completed'],
        stock: 3,
      });
      expect(await messages()).toEqual(['order_paid 15']);
      expect((await events()).filter((line) => line.includes('payment'))).toEqual([
        'staff payment_completed',
        'staff payment_status_changed',
        'staff payment_corrected',
        'staff payment_status_changed',
      ]);
    });

    test('that made the order look paid is corrected: the order needs review and reserves no stock', async () => {
      const { payment } = await confirm(receipt());
      expect(await messages()).toEqual(['order_paid 15']);
      expect(await correct(payment, { received_cents: charge - 5000 })).toMatchObject({
        outcome: 'needs_review',
      });
      expect(await state()).toMatchObject({ order: 'pending', money: 'needs_review', stock: 5 });
      expect(await messages()).toEqual(['order_payment_held 15']);
    });

    test('in the receipt is corrected, and the wrong receipt can be used again', async () => {
      const [wrong, right] = [receipt(), receipt()];
      const { payment } = await confirm(wrong);
      expect(await correct(payment, { receipt: ` ${right.toLowerCase()} ` })).toMatchObject({
        outcome: 'paid',
      });
      const { rows } = await database.query(
        'select receipt, charge_cents from public.payments where order_id = $1',
        [order.id],
      );
      expect(rows).toEqual([{ receipt: right, charge_cents: charge }]);
      const other = await place(await newProduct(2));
      expect(await confirm(wrong, charge, other)).toMatchObject({ outcome: 'paid' });
      await expectRefusal(correct({ ...payment, receipt: right }, { receipt: wrong }), 409, 'receipt_used');
    });

    test('cannot be corrected once M-PESA has confirmed the payment', async () => {
      const { payment } = await confirm(receipt(), charge - 100);
      await call(database, 'service', 'receive_mpesa_transaction', {
        source: 'confirmation',
        receipt: payment.receipt,
        received_cents: charge - 100,
        reference: order.tracking_number,
        transacted_at: new Date().toISOString(),
        body: '{}',
      });
      await expectRefusal(correct(payment, { received_cents: charge }), 409, 'payment_confirmed');
    });

    test('in the amount cannot be corrected after the order was handed over; one in the receipt can', async () => {
      const { payment } = await confirm(receipt());
      await database.query(`update public.orders set status = 'shipped' where id = $1`, [order.id]);
      await expectRefusal(correct(payment, { received_cents: charge - 100 }), 409, 'payment_final');
      expect(await correct(payment, { receipt: receipt() })).toMatchObject({ outcome: 'paid' });
    });

    test('is corrected by staff only, from its current version, to a receipt and an amount', async () => {
      const { payment } = await confirm(receipt(), charge - 100);
      await expectRefusal(correct(payment, { received_cents: charge }, 'customer'), 403, 'staff_only');
      await expectRefusal(
        correct({ ...payment, charge_cents: charge }, { received_cents: charge }),
        409,
        'payment_changed',
      );
      await expectRefusal(correct(payment, { receipt: 'UKL' }), 400, 'receipt_invalid');
      await expectRefusal(correct(payment, { received_cents: 150 }), 400, 'amount_invalid');
      expect(await correct(payment, {})).toMatchObject({ outcome: 'unchanged' });
    });
  });

  test('a refunded wrong amount leaves the order cancelled and its units in stock', async () => {
    const { payment } = await confirm(receipt(), charge - 100);
    await call(database, 'staff', 'note_refund_by_hand', {
      payment_id: payment.id,
      refund_receipt: receipt(),
      reason: 'Too little came',
    });
    expect(await state()).toMatchObject({ order: 'cancelled', money: 'refunded', stock: 5 });
  });

  test('a payment reopens an expired order', async () => {
    await database.query(
      `update public.orders set reserved_until = now() - interval '1 second', expires_at = now() - interval '1 second' where id = $1`,
      [order.id],
    );
    await call(database, 'service', 'expire_reservations');
    expect(await state()).toMatchObject({ order: 'cancelled', stock: 5 });
    expect(await confirm(receipt())).toMatchObject({ outcome: 'paid' });
    expect(await state()).toMatchObject({ order: 'processing', money: 'paid', stock: 3 });
  });

  test('a second payment, by hand or by prompt, is recorded and flagged for refund', async () => {
    const payment = await prompt();
    await confirm(receipt());
    expect(await callback(payment)).toMatchObject({ outcome: 'paid_twice' });
    expect(await confirm(receipt())).toMatchObject({
      outcome: 'paid_twice',
      payment: { needs_refund: true },
    });
    expect(await state()).toMatchObject({
      money: 'paid',
      payments: ['prompt completed, needs refund', 'till completed', 'till completed, needs refund'],
      stock: 3,
    });
  });

  test('rejects a second receipt from staff who saw the order unpaid, and accepts the first one again without effect', async () => {
    const [first, second] = [receipt(), receipt()];
    const confirmIfUnpaid = (code: string) =>
      call<Settled>(database, 'staff', 'confirm_till_payment', {
        order_id: order.id,
        receipt: code,
        received_cents: charge,
        only_if_unpaid: true,
      });
    expect(await confirmIfUnpaid(first)).toMatchObject({ outcome: 'paid' });
    await expectRefusal(confirmIfUnpaid(second), 409, 'paid_meanwhile');
    expect(await state()).toMatchObject({ money: 'paid', payments: ['till completed'] });
    expect(await confirmIfUnpaid(first)).toMatchObject({ outcome: 'already_completed' });
    expect(await confirm(second)).toMatchObject({ outcome: 'paid_twice' });
  });

  test('matches a receipt that M-PESA has already reported', async () => {
    const payment = await prompt();
    const code = receipt();
    await callback(payment, { receipt: code });
    expect(await confirm(code)).toMatchObject({ outcome: 'already_completed', payment: { id: payment.id } });
    expect(await state()).toMatchObject({ payments: ['prompt completed'] });
  });

  test("a prompt's receipt that staff entered before M-PESA reported it is one payment", async () => {
    const payment = await prompt();
    const code = receipt();
    await confirm(code);
    expect(await callback(payment, { receipt: code })).toMatchObject({
      outcome: 'confirmed_by_hand',
      payment: { id: payment.id, needs_refund: false, confirmed_by: personIds.staff },
    });
    expect(await callback(payment, { receipt: code })).toMatchObject({ outcome: 'already_completed' });
    expect(await state()).toMatchObject({ money: 'paid', payments: ['prompt completed'], stock: 3 });
  });

  // M-PESA answers a query with neither amount nor receipt: until its callback arrives, it is unknown that this is one payment.
  test.each(['before', 'after'])(
    'a prompt that a query completed %s staff entered its receipt is one payment after the callback',
    async (when) => {
      const payment = await prompt();
      const code = receipt();
      const query = () => callback(payment, { source: 'query', received_cents: null, receipt: null });
      if (when === 'before') await query();
      expect(await confirm(code)).toMatchObject({ outcome: when === 'before' ? 'paid_twice' : 'paid' });
      if (when === 'after') expect(await query()).toMatchObject({ outcome: 'paid_twice' });
      expect(await callback(payment, { receipt: code })).toMatchObject({
        outcome: 'confirmed_by_hand',
        payment: { id: payment.id, receipt: code, needs_refund: false, confirmed_by: personIds.staff },
      });
      expect(await callback(payment, { receipt: code })).toMatchObject({ outcome: 'already_completed' });
      expect(await state()).toMatchObject({ money: 'paid', payments: ['prompt completed'], stock: 3 });
    },
  );

  test('staff resolve a payment in review with the receipt that they saw', async () => {
    const payment = await prompt();
    await callback(payment, { received_cents: charge - 100 });
    expect(await state()).toMatchObject({ money: 'unpaid', payments: ['prompt review'] });
    await confirm(receipt(), charge - 100);
    await decide('deliver');
    expect(await state()).toMatchObject({ money: 'paid', payments: ['prompt review', 'till completed'] });
  });

  test.each([
    ['a short receipt', { receipt: 'UKL12' }, 400, 'receipt_invalid'],
    ['no receipt', { receipt: null }, 400, 'receipt_invalid'],
    ['no amount', { received_cents: null }, 400, 'amount_invalid'],
    ['an amount of 0', { received_cents: 0 }, 400, 'amount_invalid'],
    ['an amount with cents', { received_cents: 190_150 }, 400, 'amount_invalid'],
    ['an unknown order', { order_id: '00000000-0000-4000-8000-000000000000' }, 404, 'order_not_found'],
  ])('rejects %s', async (_, change, status, code) => {
    const given = { order_id: order.id, receipt: receipt(), received_cents: charge, ...change };
    await expectRefusal(call(database, 'staff', 'confirm_till_payment', given), status, code);
    expect(await state()).toMatchObject({ money: 'unpaid', payments: [] });
  });

  test.each(['customer', 'former staff', 'half-way staff'] as const)('%s may not confirm', async (person) => {
    await expectRefusal(confirm(receipt(), charge, order, person), 403, 'staff_only');
    expect(await state()).toMatchObject({ money: 'unpaid', payments: [] });
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
    const times = <T>(count: number, work: (index: number) => Promise<T>) =>
      Promise.all(Array.from({ length: count }, (_, index) => work(index)));
    const refused = (error: unknown) => (error as { detail?: string }).detail ?? String(error);

    test('a receipt entered twenty times concurrently pays once', async () => {
      const code = receipt();
      const found = await times(20, () => confirm(code));
      expect(found.filter(({ outcome }) => outcome === 'paid')).toHaveLength(1);
      expect(found.filter(({ outcome }) => outcome === 'already_completed')).toHaveLength(19);
    });

    test('a receipt entered concurrently for two orders pays one of them', async () => {
      const other = await place(product);
      const code = receipt();
      const found = await times(10, (index) =>
        confirm(code, charge, index % 2 === 0 ? order : other).then(({ outcome }) => outcome, refused),
      );
      expect(found.filter((outcome) => outcome === 'paid')).toHaveLength(1);
      expect(found.filter((outcome) => outcome === 'receipt_used')).toHaveLength(5);
    });

    test('a confirmation and the callback of the same payment are one payment, in any order', async () => {
      for (let round = 0; round < 8; round += 1) {
        const placed = await place(await newProduct(2));
        const payment = await prompt(placed);
        const code = receipt();
        await times<unknown>(6, (index) =>
          index % 2 === 0 ? confirm(code, charge, placed) : callback(payment, { receipt: code }),
        );
        expect(await state(placed)).toMatchObject({ money: 'paid', payments: ['prompt completed'] });
        await expectBalancedBooks(database);
      }
    });

    test('a confirmation and the callback of another payment pay once and flag one for refund', async () => {
      for (let round = 0; round < 8; round += 1) {
        const placed = await place(await newProduct(2));
        const payment = await prompt(placed);
        await times<unknown>(2, (index) =>
          index === round % 2 ? confirm(receipt(), charge, placed) : callback(payment),
        );
        const { money, payments } = await state(placed);
        expect(money).toBe('paid');
        expect(payments?.filter((line) => line.endsWith('needs refund'))).toHaveLength(1);
        await expectBalancedBooks(database);
      }
    });

    test('an order is paid when its payment and its expiry are concurrent', async () => {
      for (let round = 0; round < 8; round += 1) {
        const placed = await place(await newProduct(2));
        await database.query(
          `update public.orders set reserved_until = now() - interval '1 second', expires_at = now() - interval '1 second' where id = $1`,
          [placed.id],
        );
        const code = receipt();
        await times<unknown>(4, (index) =>
          index % 2 === 0 ? call(database, 'service', 'expire_reservations') : confirm(code, charge, placed),
        );
        expect(await state(placed)).toMatchObject({ order: 'processing', money: 'paid' });
        await expectBalancedBooks(database);
      }
    });
  });
});
