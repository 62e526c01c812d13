// A test with KSh 1 is a payment without an order: financial reports exclude it.
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { makeProduct } from '../shop-database.ts';
import { nairobiDay, newReceipt, type Payment, setUpShop } from '../steps.ts';

const phone = '0722000111';

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, asStaff, asService, queryAs, readValue, place, begin, recordPush, beginTest } = shop;
  const { settle, receive, requestRefund, settleReversal } = shop;
  let product: string;
  beforeAll(async () => {
    product = await makeProduct(database, 1000);
  });
  beforeEach(() => database.execute('delete from private.rate_limits'));

  const beginTestOfPerson = () => beginTest({ phone });
  const beginOrder = async () => (await begin(await place(product), { phone })).payment;

  /** Everything that counts the shop's payments. */
  async function reports() {
    const of = async (statement: string) => (await queryAs('staff', statement)).rows;
    const { rows: books } = await asStaff<{ rows: unknown[] }>('reconciliation_day', { day: nairobiDay() });
    const { unmatched } = await asStaff<{ unmatched: number }>('statement_status');
    const person = await asStaff<{ payments_for_others: unknown[] }>('export_person', {
      identifier: phone,
    });
    const { rows: metrics } = await queryAs(
      'service',
      `select * from public.shop_metrics() where metric like 'payments%' order by 1, 2`,
    );
    return {
      dashboard: await of(
        'select received, received_this_week, received_today from public.dashboard_figures()',
      ),
      overdue: await of('select overdue_payments from public.system_status()'),
      books,
      unmatched,
      payments: person.payments_for_others,
      metrics,
    };
  }
  const rest = 'update public.payments set created_at = now() - interval $$6 minutes$$ where id = $1';

  test('an open test does not count as overdue; an open payment of an order does', async () => {
    const before = await reports();
    await database.query(rest, [(await beginTestOfPerson()).id]);
    expect(await reports()).toEqual(before);

    await database.query(rest, [(await beginOrder()).id]);
    const after = await reports();
    expect(after.overdue).not.toEqual(before.overdue);
    expect(after.metrics).not.toEqual(before.metrics);
    expect(after.payments).not.toEqual(before.payments);
  });

  test('reports exclude a test before and after its refund, and include an order', async () => {
    const before = await reports();
    const begun = await beginTestOfPerson();
    const code = newReceipt();
    expect(await settle(begun, { receipt: code })).toMatchObject({ outcome: 'completed' });
    expect(await reports()).toEqual(before);

    expect(await receive('TEST', code, { received_cents: 100 })).toMatchObject({
      outcome: 'already_completed',
      payment: { id: begun.id, order_id: null },
    });
    expect(await reports()).toEqual(before);

    const refund = await requestRefund(begun);
    await asService('lease_refunds');
    await settleReversal(refund);
    const { rows } = await database.query(
      'select refunded_at is not null as went_back from public.payments where id = $1',
      [begun.id],
    );
    expect(rows).toEqual([{ went_back: true }]);
    expect(await reports()).toEqual(before);
    const { rows: events } = await database.query(
      'select from public.reconciliation_events where payment_id = $1',
      [begun.id],
    );
    expect(events).toEqual([]);

    await settle(await beginOrder());
    const after = await reports();
    for (const report of ['dashboard', 'books', 'payments', 'metrics'] as const) {
      expect(after[report], report).not.toEqual(before[report]);
    }
  });

  test('a test in review is not a difference; a payment of an order in review is', async () => {
    const before = await reports();
    expect(await settle(await beginTestOfPerson(), { received_cents: 200 })).toMatchObject({
      outcome: 'wrong_amount',
    });
    expect(await reports()).toEqual(before);

    await settle(await beginOrder(), { received_cents: 200 });
    expect((await reports()).books).not.toEqual(before.books);
  });

  test('customers cannot poll the status of a test', async () => {
    const begun = await beginTestOfPerson();
    expect(await asService('find_payment', { reference: begun.id })).toBeNull();
    expect(await asService('find_payment', { reference: (await beginOrder()).id })).not.toBeNull();
  });

  test('the phone of a test is erased with its person', async () => {
    const phoneOf = (payment: Payment) =>
      readValue('select phone from public.payments where id = $1', [payment.id]);
    const begun = await beginTestOfPerson();
    const open = await beginTestOfPerson();
    await settle(begun);
    await asStaff('erase_person', { identifier: phone });
    expect([await phoneOf(begun), await phoneOf(open)]).toEqual(['', '+254722000111']);
  });

  test('orders are queried before tests', async () => {
    const due = async (payment: Payment) => {
      await recordPush(payment);
      await database.query('update public.payments set next_query_at = now() where id = $1', [payment.id]);
    };
    await database.execute(`update public.payments set next_query_at = null where status = 'processing'`);
    const [test, ofOrder] = [await beginTestOfPerson(), await beginOrder()];
    await due(test);
    await due(ofOrder);
    expect(await asService('lease_payment_queries')).toMatchObject({ id: ofOrder.id });
    await database.execute('delete from private.rate_limits');
    expect(await asService('lease_payment_queries')).toMatchObject({ id: test.id });
  });

  test.each([
    ['a test of an order', `purpose = 'test'`],
    ['a payment without an order', 'order_id = null'],
    ['a test of another amount', `purpose = 'test', order_id = null, requested_by = id, charge_cents = 200`],
  ])('a payment cannot become %s', async (_, change) => {
    const payment = await beginOrder();
    await expect(
      database.query(`update public.payments set ${change} where id = $1`, [payment.id]),
    ).rejects.toMatchObject({ code: '23514', constraint: 'a payment is for an order or a test' });
  });
});
