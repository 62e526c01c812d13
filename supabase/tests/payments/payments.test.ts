// Payments of an order: one open payment, one settlement, and balanced books for messages in any order.
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { expectRefusal, makeProduct, type PlacedOrder, people, stockOf } from '../shop-database.ts';
import {
  byQuery,
  concurrently,
  failed,
  newCheckoutRequestId,
  newPhone,
  newReceipt,
  newSecret,
  type Payment,
  setUpShop,
} from '../steps.ts';
import { expectBalancedBooks } from './books/balanced-books.ts';

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, asService, queryAs, readColumn, readValue, place, endPaymentTime } = shop;
  const { expireReservations, expire, setStatus, handOver, stateOf, begin, recordPush, prompt } = shop;
  const { settle } = shop;
  let product: string;
  let order: PlacedOrder;

  beforeAll(async () => {
    // No window ends during the tests.
    await database.query(`update private.limits set within = '1000 days' where true`);
  });
  beforeEach(async () => {
    product = await makeProduct(database, 5);
    order = await place(product, { quantity: 2 });
  });
  afterEach(() => expectBalancedBooks(database));

  /** An order of both units of a new product. */
  const placeForBoth = async () => place(await makeProduct(database, 2), { quantity: 2 });
  // All processes together query once in twelve seconds; only one test waits for that.
  const forgetLastQuery = () =>
    database.query(`delete from private.rate_limits where bucket = 'payment_queries'`);
  const leaseAtOnce = async (atMost: number) =>
    (
      await queryAs<{ payment: Payment }>(
        'service',
        'select to_jsonb(public.lease_payment_queries($1)) as payment',
        [atMost],
      )
    ).rows.map(({ payment }) => payment);
  const lease = async (atMost = 100) => {
    await forgetLastQuery();
    return leaseAtOnce(atMost);
  };

  const unpaid = {
    status: 'pending',
    money: 'unpaid',
    is_reserved: true,
    deliveries: 0,
    stock: 3,
    payments: [] as string[],
    refunds: [],
  };
  const paid = {
    ...unpaid,
    status: 'processing',
    money: 'paid',
    is_reserved: false,
    deliveries: 1,
    payments: ['prompt completed'],
  };
  const outcomesOf = ({ id }: Payment) =>
    readColumn(
      `select source || ' ' || coalesce(outcome, '-') from public.payment_messages where payment_id = $1 order by id`,
      [id],
    );

  describe('beginning', () => {
    test('the table itself refuses a second open attempt of an order, and cents that M-PESA cannot charge', async () => {
      const insert = (status: string, cents: number) =>
        database.query(
          `insert into public.payments (order_id, phone, charge_cents, status) values ($1, '+254712345678', $2, $3)`,
          [order.id, cents, status],
        );
      await insert('processing', 190_100);
      for (const status of ['initiating', 'processing'])
        await expect(insert(status, 190_100)).rejects.toThrow('one open attempt per order');
      await expect(insert('failed', 190_150)).rejects.toThrow('M-PESA charges whole shillings');
      await database.query(`delete from public.payments where order_id = $1`, [order.id]);
    });

    test('opens one payment of the order’s charge, and returns it until it ends', async () => {
      const first = await begin(order, { phone: '0712 345-678', expected_cents: order.total_amount });
      expect(first).toMatchObject({
        is_new: true,
        tracking_number: order.tracking_number,
        payment: { status: 'initiating', charge_cents: 190_100, phone: '+254712345678' },
      });
      const second = await begin(order, { phone: '0722222222' });
      expect(second).toMatchObject({ is_new: false, payment: { id: first.payment.id } });
      await settle(first.payment, failed);
      const third = await begin(order);
      expect(third.is_new).toBe(true);
      expect(third.payment.id).not.toBe(first.payment.id);
    });

    test('charges whole shillings, rounded up', async () => {
      const odd = await makeProduct(database, 5, 12_345);
      const placed = await place(odd, { expected_total: 12_445 });
      const { payment } = await begin(placed, { expected_cents: 12_445 });
      expect(payment.charge_cents).toBe(12_500);
    });

    test.each([
      ['an invalid phone', { phone: '12345' }, 400, 'phone_invalid'],
      ['an unknown order', { order_id: '00000000-0000-4000-8000-000000000000' }, 404, 'order_not_found'],
      ["another amount than the order's", { expected_cents: 190_000 }, 409, 'amount_changed'],
    ])('with %s is rejected and creates nothing', async (_, change, status, code) => {
      await expectRefusal(begin(order, change), status, code);
      expect(await stateOf(order)).toEqual(unpaid);
    });

    test('is rejected for a cancelled order', async () => {
      await expire(order);
      await expectRefusal(begin(order), 409, 'order_cancelled');
    });

    test('is rejected for a free order', async () => {
      const free = await makeProduct(database, 5, 0);
      await database.query('update public.store_settings set delivery_fee = 0');
      const placed = await place(free, { expected_total: 0 });
      await database.query('update public.store_settings set delivery_fee = 100');
      await expectRefusal(begin(placed), 409, 'nothing_to_pay');
    });

    test('returns the completed payment after success, so that no second prompt is sent', async () => {
      const payment = await prompt(order);
      await settle(payment);
      expect(await begin(order)).toMatchObject({
        is_new: false,
        payment: { id: payment.id, status: 'completed' },
      });
    });

    test('is rejected for an order that was marked as paid by hand', async () => {
      await database.query(`update public.orders set payment_status = 'refunded' where id = $1`, [order.id]);
      await expectRefusal(begin(order), 409, 'order_already_paid');
      await database.query(`update public.orders set payment_status = 'unpaid' where id = $1`, [order.id]);
    });

    test('requires the tracking number of the same order, otherwise the order does not exist', async () => {
      const other = await place(product, { quantity: 2 });
      const handle = await readValue('select live_handle from public.orders where id = $1', [order.id]);
      for (const change of [
        { tracking_number: other.tracking_number },
        { tracking_number: 'JJ-20200101-1000' },
        { tracking_number: '' },
        { tracking_number: 'x'.repeat(1_000_000) },
        { order_id: other.id },
        { order_id: handle },
      ]) {
        await expectRefusal(begin(order, change), 404, 'order_not_found');
      }
      expect(await stateOf(order)).toEqual({ ...unpaid, stock: 1 });
      expect(await begin(order)).toMatchObject({ is_new: true });
    });

    /** Starts a number of prompts, which fail. */
    const fail = async (times: number, placed: PlacedOrder, address: string, to?: string) => {
      for (let n = 0; n < times; n += 1) {
        const { payment } = await begin(placed, { address, ...(to ? { phone: to } : {}) });
        await settle(payment, failed);
      }
    };

    test('prompts ten times per order and network, without affecting other networks', async () => {
      await fail(10, order, '203.0.113.1');
      await expectRefusal(begin(order, { address: '203.0.113.1' }), 429, 'too_many_attempts');
      await fail(10, order, '198.51.100.1');
      await expectRefusal(begin(order, { address: '198.51.100.1' }), 429, 'too_many_attempts');
      expect(await begin(order, { address: '192.0.2.1' })).toMatchObject({ is_new: true });
    });

    test('prompts ten times per phone and network, for all orders together', async () => {
      const busy = newPhone();
      const orders = [order, await place(product, { quantity: 2 })];
      for (const placed of orders) await fail(5, placed, '203.0.113.2', busy);
      await expectRefusal(begin(order, { phone: busy, address: '203.0.113.2' }), 429, 'too_many_prompts');
      expect(await begin(order, { phone: newPhone(), address: '203.0.113.2' })).toMatchObject({
        is_new: true,
      });
      expect(await begin(orders[1] ?? order, { phone: busy, address: '198.51.100.2' })).toMatchObject({
        is_new: true,
      });
    });

    /** An order of another customer for a product with much stock. */
    const placeFor = async (change: Record<string, unknown> = {}) =>
      place(await makeProduct(database, 1), { customer_phone: newPhone(), ...change });
    /** Prompts a phone for other customers' orders from as many networks; M-PESA accepts, and the phone declines each. */
    const decline = async (times: number, to: string) => {
      for (let n = 0; n < times; n += 1) {
        const { payment } = await begin(await placeFor(), { phone: to, address: `198.18.${n}.1` });
        await settle(await recordPush(payment), failed);
      }
    };

    test('prompts a phone with 20 unpaid prompts within a day only for its own orders', async () => {
      const victim = newPhone();
      await decline(20, victim);
      const strange = await placeFor();
      const unanswered = [429, 'too_many_unanswered_prompts'] as const;
      await expectRefusal(begin(strange, { phone: victim, address: '192.0.2.1' }), ...unanswered);
      expect(await begin(strange, { phone: newPhone(), address: '192.0.2.1' })).toMatchObject({
        is_new: true,
      });

      const own = (email: string) => placeFor({ customer_phone: victim, customer_email: email });
      for (let n = 0; n < 2; n += 1) {
        expect(
          await begin(await own('owner@example.com'), { phone: victim, address: '192.0.2.2' }),
        ).toMatchObject({
          is_new: true,
        });
      }
      const third = await own('Owner@example.com');
      await expectRefusal(begin(third, { phone: victim, address: '192.0.2.2' }), ...unanswered);
      // One network does not exhaust the prompts of another.
      const { payment } = await begin(third, { phone: victim, address: '203.0.113.77' });
      await settle(payment);
      // From here on, the email address of the paid order identifies the customer.
      for (let n = 0; n < 3; n += 1) {
        expect(
          await begin(await own('owner@example.com'), { phone: victim, address: '192.0.2.2' }),
        ).toMatchObject({
          is_new: true,
        });
      }
      const pretended = await own('stranger@example.com');
      await expectRefusal(begin(pretended, { phone: victim, address: '192.0.2.2' }), ...unanswered);

      await database.query(
        `update public.payments set created_at = now() - interval '25 hours' where phone = $1`,
        [`+254${victim.slice(1)}`],
      );
      expect(await begin(await placeFor(), { phone: victim, address: '192.0.2.1' })).toMatchObject({
        is_new: true,
      });
    });

    test('does not count prompts that M-PESA refused immediately', async () => {
      const busy = newPhone();
      for (let n = 0; n < 21; n += 1) {
        const { payment } = await begin(order, { phone: busy, address: `198.18.${n}.2` });
        await recordPush(payment, { refusal_code: '500.001.1001', refusal_description: 'locked' });
      }
      expect(await begin(order, { phone: busy, address: '198.18.99.2' })).toMatchObject({ is_new: true });
    });

    test('prompts a hundred times per network', async () => {
      await database.query(
        `insert into private.rate_limits (bucket, subject, window_start, hits)
         select 'payment_prompts', '203.0.113.3', date_bin(within, clock_timestamp(), timestamptz '2000-01-01'), 100
         from private.limits where name = 'payment_prompts'`,
      );
      await expectRefusal(begin(order, { address: '203.0.113.3' }), 429, 'too_many_payments');
      expect(await begin(order, { address: '203.0.113.4' })).toMatchObject({ is_new: true });
    });

    test('counts a call that is rejected later', async () => {
      await database.query(
        `insert into private.prompt_pause (code, caused_by, until) values ('2006', '+254700000000', now() + interval '1 hour')`,
      );
      for (let n = 0; n < 10; n += 1) {
        await expectRefusal(begin(order, { address: '203.0.113.5' }), 409, 'prompts_paused');
      }
      await expectRefusal(begin(order, { address: '203.0.113.5' }), 429, 'too_many_attempts');
      expect(await stateOf(order)).toEqual(unpaid);
      await database.query('delete from private.prompt_pause');
      expect(await begin(order, { address: '198.51.100.5' })).toMatchObject({ is_new: true });
    });

    test('extends the reservation while a prompt is open', async () => {
      await database.query(
        `update public.orders set reserved_until = now() + interval '1 second', expires_at = now() + interval '1 second' where id = $1`,
        [order.id],
      );
      await begin(order);
      expect(
        await readValue(
          `select reserved_until > now() + interval '4 minutes' from public.orders where id = $1`,
          [order.id],
        ),
      ).toBe(true);
    });
  });

  describe('the answer to the push', () => {
    test('allows queries of the payment when accepted', async () => {
      const payment = await prompt(order);
      expect(payment).toMatchObject({
        status: 'processing',
        checkout_request_id: expect.stringMatching(/^ws_CO_/),
        merchant_request_id: 'm-1',
        next_query_at: expect.any(String),
      });
      expect(await outcomesOf(payment)).toEqual(['push accepted']);
    });

    test('ends the payment when refused, and another can start', async () => {
      const { payment } = await begin(order);
      expect(
        await recordPush(payment, { refusal_code: '500.001.1001', refusal_description: 'locked' }),
      ).toMatchObject({ status: 'failed', result_code: '500.001.1001', result_description: 'locked' });
      expect(await outcomesOf(payment)).toEqual(['push refused']);
      expect((await begin(order)).is_new).toBe(true);
    });

    test('leaves the payment open when lost, and the callback completes it', async () => {
      const { payment } = await begin(order);
      await recordPush(payment, {});
      expect(await stateOf(order)).toEqual({ ...unpaid, payments: ['prompt processing'] });
      expect((await begin(order)).is_new).toBe(false);
      expect((await settle(payment, { checkout_request_id: 'ws_CO_lost' })).outcome).toBe('paid');
      expect(await stateOf(order)).toEqual(paid);
      expect(await outcomesOf(payment)).toEqual(['push unknown', 'callback paid']);
    });

    test('does not change a settled payment after the callback', async () => {
      const { payment } = await begin(order);
      await settle(payment, { checkout_request_id: 'ws_CO_early' });
      const after = await recordPush(payment, {
        checkout_request_id: 'ws_CO_early',
        merchant_request_id: 'm-2',
      });
      expect(after).toMatchObject({
        status: 'completed',
        checkout_request_id: 'ws_CO_early',
        merchant_request_id: 'm-2',
        next_query_at: null,
      });
    });

    test('is rejected for an unknown payment', async () => {
      const attempt = recordPush({ id: '00000000-0000-4000-8000-000000000000' } as Payment, {});
      await expectRefusal(attempt, 404, 'payment_not_found');
    });
  });

  describe('settling', () => {
    test('a success marks the order paid, sells the stock and creates the delivery', async () => {
      const payment = await prompt(order);
      const { outcome, payment: after } = await settle(payment, {
        body: '{"raw":true}',
        receipt: 'UKL1234567',
        source_address: '196.201.214.200',
      });
      expect(outcome).toBe('paid');
      expect(after).toMatchObject({
        status: 'completed',
        receipt: 'UKL1234567',
        result_code: '0',
        needs_refund: false,
        completed_at: expect.any(String),
      });
      expect(await stateOf(order)).toEqual(paid);
      const { rows } = await database.query(
        `select body, source_address from public.payment_messages where payment_id = $1 and source = 'callback'`,
        [payment.id],
      );
      expect(rows).toEqual([{ body: '{"raw":true}', source_address: '196.201.214.200' }]);
    });

    test('the same success three times is one payment', async () => {
      const payment = await prompt(order);
      const again = { receipt: newReceipt() };
      const found = [
        await settle(payment, again),
        await settle(payment, again),
        await settle(payment, again),
      ];
      expect(found.map(({ outcome }) => outcome)).toEqual(['paid', 'already_completed', 'already_completed']);
      expect(await stateOf(order)).toEqual(paid);
    });

    test('a failure ends the payment, and the order can still be paid', async () => {
      const payment = await prompt(order);
      expect((await settle(payment, failed)).outcome).toBe('failed');
      expect(await stateOf(order)).toEqual({ ...unpaid, payments: ['prompt failed'] });
    });

    test('a success supersedes a failure', async () => {
      const payment = await prompt(order);
      await settle(payment, failed);
      expect((await settle(payment)).outcome).toBe('paid');
      expect(await stateOf(order)).toEqual(paid);
    });

    test('a failure never supersedes a success', async () => {
      const payment = await prompt(order);
      await settle(payment);
      expect((await settle(payment, failed)).outcome).toBe('superseded');
      expect((await settle(payment, { ...failed, source: 'query' })).outcome).toBe('superseded');
      expect((await settle(payment, { received_cents: 100 })).outcome).toBe('superseded');
      expect(await stateOf(order)).toEqual(paid);
    });

    test('an inconclusive message is stored and changes nothing', async () => {
      const payment = await prompt(order);
      const { outcome, payment: after } = await settle(payment, {
        result: 'pending',
        result_code: '4999',
        received_cents: null,
        receipt: null,
      });
      expect(outcome).toBe('pending');
      expect(after).toEqual(payment);
      expect(await outcomesOf(payment)).toEqual(['push accepted', 'callback pending']);
    });

    test.each([
      ['one shilling less', 190_000],
      ['one shilling more', 190_200],
      ['a hundredth of it', 1_901],
      ['a hundred times as much', 19_010_000],
      ['an amount of 0', 0],
      ['a negative amount', -190_100],
      ['the largest integer', 2_147_483_647],
      ['no amount', null],
    ])('a callback with %s needs review and pays nothing', async (_, cents) => {
      const payment = await prompt(order);
      expect((await settle(payment, { received_cents: cents })).outcome).toBe('wrong_amount');
      expect(await stateOf(order)).toEqual({ ...unpaid, payments: ['prompt review'] });
      expect((await begin(order)).is_new).toBe(false);
    });

    test('a query has no amount: it completes an open payment, but not one in review', async () => {
      const payment = await prompt(order);
      expect((await settle(payment, byQuery)).outcome).toBe('paid');

      const other = await place(product, { quantity: 1 });
      const doubtful = await prompt(other);
      await settle(doubtful, { received_cents: 100 });
      expect((await settle(doubtful, byQuery)).outcome).toBe('needs_review');
      expect((await stateOf(other)).payments).toEqual(['prompt review']);
      expect((await settle(doubtful)).outcome).toBe('paid');
    });

    test('a later callback adds the receipt that a query does not return', async () => {
      const payment = await prompt(order);
      await settle(payment, byQuery);
      const { outcome, payment: after } = await settle(payment, { receipt: 'UKLLATE001' });
      expect([outcome, after.receipt]).toEqual(['already_completed', 'UKLLATE001']);
    });

    test('a receipt that paid one order does not pay another', async () => {
      const payment = await prompt(order);
      const { payment: first } = await settle(payment);
      const other = await place(product, { quantity: 1 });
      const second = await prompt(other);
      expect((await settle(second, { receipt: first.receipt })).outcome).toBe('receipt_replayed');
      expect(await stateOf(other)).toMatchObject({ money: 'unpaid', payments: ['prompt processing'] });
    });

    test('a request id of another payment, or an unknown one, changes nothing', async () => {
      const other = await place(product, { quantity: 1 });
      const foreign = await prompt(other);
      const payment = await prompt(order);
      for (const checkout_request_id of [foreign.checkout_request_id, 'ws_CO_unknown']) {
        expect((await settle(payment, { checkout_request_id })).outcome).toBe('other_request');
        expect((await settle(payment, { ...failed, checkout_request_id })).outcome).toBe('other_request');
      }
      const { payment: unanswered } = await begin(await place(product, { quantity: 1 }));
      const stolen = { checkout_request_id: foreign.checkout_request_id };
      expect((await settle(unanswered, stolen)).outcome).toBe('other_request');
      expect(await stateOf(order)).toMatchObject({ money: 'unpaid', payments: ['prompt processing'] });
      expect(await stateOf(other)).toMatchObject({ money: 'unpaid', payments: ['prompt processing'] });
    });

    test('a second success for one order is recorded, flagged for refund, and sells nothing twice', async () => {
      const first = await prompt(order);
      await settle(first, failed);
      const second = await prompt(order);
      await settle(second);
      expect((await settle(first)).outcome).toBe('paid_twice');
      expect(await stateOf(order)).toEqual({
        ...paid,
        payments: ['prompt completed, needs refund', 'prompt completed'],
      });
    });

    test('rejects an unknown result and an unknown payment', async () => {
      const payment = await prompt(order);
      await expectRefusal(settle(payment, { result: 'perhaps' }), 400, 'result_unknown');
      await expectRefusal(
        settle({ ...payment, id: '00000000-0000-4000-8000-000000000000' }),
        404,
        'payment_not_found',
      );
      expect(await outcomesOf(payment)).toEqual(['push accepted']);
    });

    test('a payment does not change a status that staff have advanced', async () => {
      const payment = await prompt(order);
      await handOver(order, 'shipped');
      await settle(payment);
      expect(await stateOf(order)).toMatchObject({ status: 'shipped', money: 'paid' });
    });

    test('messages about one payment have the same result in any order', async () => {
      const messages = [
        failed,
        {},
        { received_cents: 100 },
        byQuery,
        { result: 'pending', received_cents: null, receipt: null },
      ];
      for (let turn = 0; turn < messages.length; turn += 1) {
        const placed = await placeForBoth();
        const payment = await prompt(placed);
        for (let step = 0; step < messages.length; step += 1) {
          await settle(payment, messages[(turn + step) % messages.length]);
          await expectBalancedBooks(database);
        }
        expect(await stateOf(placed)).toMatchObject({
          money: 'paid',
          payments: ['prompt completed'],
          stock: 0,
        });
      }
    });
  });

  describe('reservations', () => {
    test('that expired are cancelled and their stock released, once', async () => {
      expect(await expire(order)).toBe(1);
      expect(await expireReservations()).toBe(0);
      expect(await stateOf(order)).toEqual({ ...unpaid, status: 'cancelled', is_reserved: false, stock: 5 });
    });

    test('that have not expired do not change', async () => {
      expect(await expireReservations()).toBe(0);
      expect(await stateOf(order)).toEqual(unpaid);
    });

    test.each([
      [
        'the payment is in review',
        async () => void (await settle(await prompt(order), { received_cents: 100 })),
      ],
      ['the order is paid', async () => void (await settle(await prompt(order)))],
    ])('do not change when %s', async (_, happen) => {
      await happen();
      await endPaymentTime(order);
      expect(await expireReservations()).toBe(0);
      expect((await stateOf(order)).stock).toBe(3);
    });

    test.each([
      ['a prompt is open', prompt],
      ['the push is unanswered', begin],
    ])('end at their time when %s, and the order waits', async (_, happen) => {
      await happen(order);
      expect(await expire(order)).toBe(1);
      expect(await stateOf(order)).toMatchObject({ status: 'pending', money: 'unpaid', stock: 5 });
      expect(await expireReservations()).toBe(0);
    });

    test('end when the prompt has failed', async () => {
      await settle(await prompt(order), failed);
      expect(await expire(order)).toBe(1);
      expect(await stateOf(order)).toMatchObject({ status: 'cancelled', stock: 5 });
    });

    test('of an order that staff cancelled are released, and a late payment reserves them again', async () => {
      const payment = await prompt(order);
      await settle(payment, failed);
      await setStatus(order, 'cancelled');
      expect(await expireReservations()).toBe(1);
      expect(await stateOf(order)).toMatchObject({ status: 'cancelled', stock: 5 });
      await settle(payment);
      expect(await stateOf(order)).toEqual(paid);
    });

    test('of an order that staff cancelled and that is paid before their release are sold once', async () => {
      const payment = await prompt(order);
      await database.query(`update public.orders set status = 'cancelled' where id = $1`, [order.id]);
      await settle(payment);
      expect(await stateOf(order)).toEqual(paid);
    });

    test('a late payment reserves the stock again if it is available', async () => {
      const payment = await prompt(order);
      await settle(payment, failed);
      await expire(order);
      expect((await settle(payment)).outcome).toBe('paid');
      expect(await stateOf(order)).toEqual(paid);
    });

    test('a late payment for a sold-out product needs review', async () => {
      const payment = await prompt(order);
      await settle(payment, failed);
      await expire(order);
      const quick = await place(product, { quantity: 4 });
      expect((await settle(payment)).outcome).toBe('paid_needs_review');
      expect(await stateOf(order)).toEqual({
        ...unpaid,
        status: 'cancelled',
        money: 'needs_review',
        is_reserved: false,
        payments: ['prompt completed'],
        stock: 1,
      });
      expect(await stateOf(quick)).toMatchObject({ money: 'unpaid' });
    });

    test('a late payment for a deleted product needs review', async () => {
      const payment = await prompt(order);
      await settle(payment, failed);
      await expire(order);
      await database.query('delete from public.products where id = $1', [product]);
      expect((await settle(payment)).outcome).toBe('paid_needs_review');
    });

    test('of a reopened order are made again, and paid once', async () => {
      await expire(order);
      await database.query(`update public.orders set status = 'pending' where id = $1`, [order.id]);
      expect(await stateOf(order)).toMatchObject({ status: 'pending', stock: 3 });
      const payment = await prompt(order);
      await settle(payment);
      expect(await stateOf(order)).toEqual(paid);
    });
  });

  describe('queries of M-PESA', () => {
    const due = (payment: Payment) =>
      database.query('update public.payments set next_query_at = now() where id = $1', [payment.id]);
    const waitOf = async (payment: Payment) =>
      Math.round(
        Number(
          await readValue(
            'select extract(epoch from next_query_at - updated_at) from public.payments where id = $1',
            [payment.id],
          ),
        ),
      );
    const leased = async (payment: Payment) => (await lease()).some(({ id }) => id === payment.id);

    test('start after a delay, and continue at growing intervals up to ten minutes', async () => {
      const payment = await prompt(order);
      expect(await leased(payment)).toBe(false);
      const waits: number[] = [];
      for (let turn = 0; turn < 13; turn += 1) {
        await due(payment);
        expect(await leased(payment)).toBe(true);
        expect(await leased(payment)).toBe(false);
        waits.push(await waitOf(payment));
      }
      expect(waits.slice(0, 4)).toEqual([10, 15, 23, 34]);
      expect(waits).toEqual([...waits].sort((a, b) => a - b));
      expect(waits.at(-1)).toBe(600);
    });

    test('continue for a payment with very many queries', async () => {
      const payment = await prompt(order);
      await database.query('update public.payments set query_count = 100000 where id = $1', [payment.id]);
      await due(payment);
      expect(await leased(payment)).toBe(true);
      expect(await waitOf(payment)).toBe(600);
    });

    test('lease the requested number of payments, the longest waiting first', async () => {
      const first = await prompt(order);
      const second = await prompt(await place(product, { quantity: 1 }));
      // Due earlier than any other payment of this file.
      await database.query(
        `update public.payments set next_query_at = now() - interval '1 hour' * case when id = $1 then 2 else 1 end where id in ($1, $2)`,
        [first.id, second.id],
      );
      expect((await lease(1)).map(({ id }) => id)).toEqual([first.id]);
      expect((await lease(1)).map(({ id }) => id)).toEqual([second.id]);
      const later = (await lease(1)).map(({ id }) => id);
      expect(later).not.toContain(first.id);
      expect(later).not.toContain(second.id);
    });

    test('for a network with many prompts do not delay those of others', async () => {
      // Payments of earlier tests become due on a slow machine.
      await database.query(
        `update public.payments set next_query_at = now() + interval '1 day' where status = 'processing'`,
      );
      const promptFrom = async (address: string, minutesDue: number) => {
        const payment = await prompt(await place(await makeProduct(database, 2), { address }));
        await database.query(
          `update public.payments set next_query_at = now() - make_interval(mins => $2) where id = $1`,
          [payment.id, minutesDue],
        );
        return payment.id;
      };
      // IP addresses of one /24, and of one /48.
      const many = [await promptFrom('203.0.113.5', 50), await promptFrom('203.0.113.77', 40)];
      const others = [await promptFrom('2001:db8:9:1::1', 30), await promptFrom('2001:db8:9:2::1', 20)];
      const customer = await promptFrom('198.51.100.9', 1);
      const queried: string[] = [];
      for (let turn = 0; turn < 5; turn += 1) queried.push(...(await lease(1)).map(({ id }) => id));
      expect(queried).toEqual([many[0], others[0], customer, many[1], others[1]]);
    });

    test('are limited to five per minute, evenly, for all processes together', async () => {
      const first = await prompt(order);
      const second = await prompt(await place(product, { quantity: 1 }));
      await due(first);
      await due(second);
      await forgetLastQuery();
      const early = [await leaseAtOnce(1), await leaseAtOnce(1), await leaseAtOnce(1)].flat();
      expect(early.length).toBeLessThan(3);
      const windows = await readValue<number>(
        `select count(*)::integer from private.rate_limits where bucket = 'payment_queries'`,
      );
      expect(early.length).toBe(Math.min(windows ?? 0, 2));
    });

    test('with a higher limit lease many at once, and then wait as long as that many take', async () => {
      const many = await concurrently(5, async () => prompt(await placeForBoth()));
      for (const payment of many) await due(payment);
      await forgetLastQuery();
      const askAtOnce = () => queryAs('service', 'select public.lease_payment_queries(4, 6)');
      // Four at six per minute take forty seconds, in which at most one new window begins.
      const leased = [await askAtOnce(), await askAtOnce(), await askAtOnce()].map(
        ({ rowCount }) => rowCount,
      );
      expect(leased[0]).toBe(4);
      expect([0, 1]).toContain(leased[1]);
      expect(leased.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(5);
    });

    test('end with the payment', async () => {
      const payment = await prompt(order);
      await settle(payment, failed);
      expect(await leased(payment)).toBe(false);
    });

    test('end after 15 minutes when the push was never answered, and the order can be paid again', async () => {
      const { payment } = await begin(order);
      await recordPush(payment, {});
      const age = (interval: string) =>
        database.query(`update public.payments set created_at = now() - $2::interval where id = $1`, [
          payment.id,
          interval,
        ]);
      await age('14 minutes');
      await lease();
      expect((await stateOf(order)).payments).toEqual(['prompt processing']);
      await age('16 minutes');
      await lease();
      expect((await stateOf(order)).payments).toEqual(['prompt unresolved']);
      expect((await begin(order)).is_new).toBe(true);
      expect((await settle(payment, { checkout_request_id: 'ws_CO_very_late' })).outcome).toBe('paid');
    });

    test('end after a day without a result, and the stock is released', async () => {
      const payment = await prompt(order);
      await endPaymentTime(order);
      await database.query(
        `update public.payments set created_at = now() - interval '25 hours', next_query_at = now() where id = $1`,
        [payment.id],
      );
      expect(await leased(payment)).toBe(false);
      expect((await stateOf(order)).payments).toEqual(['prompt unresolved']);
      expect(await expireReservations()).toBe(1);
      expect((await stateOf(order)).stock).toBe(5);
    });
  });

  describe('finding', () => {
    test('rejects unknown references of a network after sixty, but finds every known payment', async () => {
      const { payment } = await begin(order);
      const find = (reference: string, address: string) =>
        asService<Payment | null>('find_payment', { reference }, address);
      for (let n = 0; n < 60; n += 1) expect(await find(`ws_CO_${n}`, '203.0.113.9')).toBeNull();
      await expectRefusal(find('ws_CO_60', '203.0.113.9'), 429, 'too_many_lookups');
      // A customer behind the same IP address still sees the payment.
      expect(await find(payment.id, '203.0.113.9')).toMatchObject({ id: payment.id });
      expect(await find('x'.repeat(1_000_000), '203.0.113.10')).toBeNull();
    });

    test("finds a payment by M-PESA's request id and by its own, and its callbacks by their secret", async () => {
      const callback_secret = newSecret();
      const { payment } = await begin(order, { callback_secret });
      const find = (reference: string) => asService<Payment | null>('find_payment', { reference });
      const bySecret = async (given: string) =>
        (await readValue('select payment_id from public.store_callback($1, $2)', [given, '{}'])) ?? null;
      expect((await find(payment.id))?.id).toBe(payment.id);
      await recordPush(payment, { checkout_request_id: `ws_CO_${payment.id}` });
      expect((await find(`ws_CO_${payment.id}`))?.id).toBe(payment.id);
      expect(await find('ws_CO_nobody')).toBeNull();
      expect(await bySecret(callback_secret)).toBe(payment.id);
      expect(await bySecret(newSecret())).toBeNull();
      expect(await bySecret('')).toBeNull();
    });
  });

  describe.runIf(kind === 'postgresql')('at the same time', () => {
    test('50 concurrent calls open one payment', async () => {
      const begun = await concurrently(50, () => begin(order));
      expect(begun.filter(({ is_new }) => is_new)).toHaveLength(1);
      expect(new Set(begun.map(({ payment }) => payment.id)).size).toBe(1);
    });

    test('20 concurrent callbacks of one success pay once, and none fails', async () => {
      const payment = await prompt(order);
      const again = { receipt: newReceipt() };
      const found = await concurrently(20, () => settle(payment, again));
      expect(found.filter(({ outcome }) => outcome === 'paid')).toHaveLength(1);
      expect(found.filter(({ outcome }) => outcome === 'already_completed')).toHaveLength(19);
    });

    test("callbacks, queries, failures and the push's answer pay once, in any order", async () => {
      for (let round = 0; round < 5; round += 1) {
        const placed = await placeForBoth();
        const { payment } = await begin(placed);
        const checkout_request_id = newCheckoutRequestId();
        const again = { receipt: newReceipt(), checkout_request_id };
        await concurrently<unknown>(16, (index) => {
          if (index % 4 === 0) return recordPush(payment, { checkout_request_id });
          if (index % 4 === 1) return settle(payment, again);
          if (index % 4 === 2) return settle(payment, { ...failed, checkout_request_id });
          return settle(payment, { ...byQuery, checkout_request_id });
        });
        expect(await stateOf(placed)).toMatchObject({
          money: 'paid',
          payments: ['prompt completed'],
          stock: 0,
        });
        await expectBalancedBooks(database);
      }
    });

    test('one receipt reported for two orders pays one of them', async () => {
      const other = await place(product, { quantity: 1 });
      const attempts = [await prompt(order), await prompt(other)];
      const again = { receipt: newReceipt() };
      const found = await concurrently(10, (index) => settle(attempts[index % 2] as Payment, again));
      const paidOrders = [await stateOf(order), await stateOf(other)].filter(({ money }) => money === 'paid');
      expect(paidOrders).toHaveLength(1);
      expect(found.filter(({ outcome }) => outcome === 'receipt_replayed')).toHaveLength(5);
    });

    test('concurrent processes release the stock of expired orders once', async () => {
      const orders = [order];
      for (let index = 0; index < 30; index += 1) orders.push(await placeForBoth());
      for (const placed of orders) await endPaymentTime(placed);
      const counts = await concurrently(8, () => expireReservations());
      expect(counts.reduce((sum, count) => sum + count, 0)).toBe(31);
      expect(await stockOf(database, product)).toBe(5);
    });

    test('an order is either paid or cancelled when its payment and its expiry are concurrent', async () => {
      for (let round = 0; round < 10; round += 1) {
        const placed = await placeForBoth();
        const payment = await prompt(placed);
        await settle(payment, failed);
        await endPaymentTime(placed);
        await concurrently(6, (index) =>
          (index % 2 === 0 ? expireReservations() : settle(payment)).then(() => null),
        );
        // In either order, the payment is recorded and the stock is sold.
        expect(await stateOf(placed)).toMatchObject({ status: 'processing', money: 'paid', stock: 0 });
        await expectBalancedBooks(database);
      }
    });

    test('a new payment and the expiry of the reservation do not conflict', async () => {
      for (let round = 0; round < 10; round += 1) {
        const placed = await placeForBoth();
        await endPaymentTime(placed);
        const [begun] = await Promise.allSettled([begin(placed), expireReservations(), expireReservations()]);
        const { status, stock } = await stateOf(placed);
        expect([status, stock]).toEqual(begun.status === 'fulfilled' ? ['pending', 0] : ['cancelled', 2]);
      }
    });

    test('assigning a delivery does not conflict with the payment that creates it', async () => {
      for (let round = 0; round < 20; round += 1) {
        const placed = await placeForBoth();
        const payment = await prompt(placed);
        const assign = () =>
          asRole(database, people.staff, (session) =>
            session.query(
              `insert into public.deliveries (order_id, delivery_status) values ($1, 'assigned')
               on conflict (order_id) do update set delivery_status = excluded.delivery_status`,
              [placed.id],
            ),
          );
        // One of them would fail with a deadlock.
        await Promise.all([assign(), settle(payment), assign(), settle(payment), assign()]);
        expect(await stateOf(placed)).toMatchObject({ money: 'paid', deliveries: 1 });
      }
    });

    test('due payments are leased to one caller, and to no other for a while', async () => {
      for (let index = 0; index < 3; index += 1) await prompt(await placeForBoth());
      await database.query(`update public.payments set next_query_at = now() where status = 'processing'`);
      await forgetLastQuery();
      const leases = await concurrently(10, () => leaseAtOnce(2));
      // The twelve seconds may have ended in between, so that a second caller leased others.
      const given = leases.flat().map(({ id }) => id);
      expect(new Set(given).size).toBe(given.length);
      expect([2, 4]).toContain(given.length);
    });
  });
});
