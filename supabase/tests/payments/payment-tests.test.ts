// A test with KSh 1 is a payment without an order: financial reports exclude it.
import { randomBytes } from 'node:crypto';
import type { Database } from '@jani-juice/backend/database';
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Database as Types } from '../../types.ts';
import {
  call,
  makeProduct,
  openShopDatabase,
  orderForm,
  type PlacedOrder,
  people,
  personIds,
} from '../shop-database.ts';

type Payment = Types['public']['Tables']['payments']['Row'];
type Refund = Types['public']['Tables']['refunds']['Row'];

const receipt = () => `UKL${randomBytes(4).toString('hex').toUpperCase().slice(0, 7)}`;
const secret = () => randomBytes(32).toString('hex');
const phone = '0722000111';

describe.each(testDatabases())('on %s', (kind) => {
  let database: Database;
  let product: string;
  beforeAll(async () => {
    database = await openShopDatabase(kind);
    product = await makeProduct(database, 1000);
  });
  afterAll(() => database.close());
  beforeEach(() => database.execute('delete from private.rate_limits'));

  const service = <Answer>(procedure: string, given: Record<string, unknown> = {}) =>
    call<Answer>(database, 'service', procedure, given);
  const staff = <Answer>(procedure: string, given: Record<string, unknown> = {}) =>
    call<Answer>(database, 'staff', procedure, given);
  const beginTest = () =>
    service<Payment>('begin_payment_test', {
      phone,
      callback_secret: secret(),
      requested_by: personIds.staff,
    });
  const beginOrder = async () => {
    const { id, tracking_number } = await call<PlacedOrder>(
      database,
      'visitor',
      'place_order',
      orderForm(product),
    );
    const begun = await service<{ payment: Payment }>('begin_payment', {
      order_id: id,
      tracking_number,
      phone,
      callback_secret: secret(),
    });
    return begun.payment;
  };
  const settle = (payment: Payment, change: Record<string, unknown> = {}) =>
    service<{ outcome: string; payment: Payment }>('settle_payment', {
      payment_id: payment.id,
      source: 'callback',
      body: '{}',
      result: 'succeeded',
      result_code: '0',
      received_cents: payment.charge_cents,
      receipt: receipt(),
      ...change,
    });

  /** Everything that counts the shop's payments. */
  async function reports() {
    const of = async (statement: string) =>
      (await asRole(database, people.staff, (session) => session.query(statement))).rows;
    const [{ day }] = (
      await database.query<{ day: string }>(`select (now() at time zone 'Africa/Nairobi')::date::text as day`)
    ).rows as [{ day: string }];
    const { rows: books } = await staff<{ rows: unknown[] }>('reconciliation_day', { day });
    const { unmatched } = await staff<{ unmatched: number }>('statement_status');
    const person = await staff<{ payments_for_others: unknown[] }>('export_person', {
      identifier: phone,
    });
    const metrics = (
      await asRole(database, people.service, (session) =>
        session.query(`select * from public.shop_metrics() where metric like 'payments%' order by 1, 2`),
      )
    ).rows;
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
    await database.query(rest, [(await beginTest()).id]);
    expect(await reports()).toEqual(before);

    await database.query(rest, [(await beginOrder()).id]);
    const after = await reports();
    expect(after.overdue).not.toEqual(before.overdue);
    expect(after.metrics).not.toEqual(before.metrics);
    expect(after.payments).not.toEqual(before.payments);
  });

  test('reports exclude a test before and after its refund, and include an order', async () => {
    const before = await reports();
    const begun = await beginTest();
    const code = receipt();
    expect(await settle(begun, { receipt: code })).toMatchObject({ outcome: 'completed' });
    expect(await reports()).toEqual(before);

    const confirmation = { source: 'confirmation', receipt: code, received_cents: 100, reference: 'TEST' };
    expect(await service('receive_mpesa_transaction', confirmation)).toMatchObject({
      outcome: 'already_completed',
      payment: { id: begun.id, order_id: null },
    });
    expect(await reports()).toEqual(before);

    const refund = await staff<Refund>('request_refund', { payment_id: begun.id, reason: 'Test with KSh 1' });
    await service('lease_refunds');
    await service('settle_reversal', {
      refund_id: refund.id,
      source: 'reversal_result',
      body: '{}',
      result: 'succeeded',
      refund_receipt: receipt(),
    });
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
    expect(await settle(await beginTest(), { received_cents: 200 })).toMatchObject({
      outcome: 'wrong_amount',
    });
    expect(await reports()).toEqual(before);

    await settle(await beginOrder(), { received_cents: 200 });
    expect((await reports()).books).not.toEqual(before.books);
  });

  test('customers cannot poll the status of a test', async () => {
    const begun = await beginTest();
    expect(await service('find_payment', { reference: begun.id })).toBeNull();
    expect(await service('find_payment', { reference: (await beginOrder()).id })).not.toBeNull();
  });

  test('the phone of a test is erased with its person', async () => {
    const phoneOf = async (payment: Payment) =>
      (
        await database.query<{ phone: string }>('select phone from public.payments where id = $1', [
          payment.id,
        ])
      ).rows[0]?.phone;
    const begun = await beginTest();
    const open = await beginTest();
    await settle(begun);
    await staff('erase_person', { identifier: phone });
    expect([await phoneOf(begun), await phoneOf(open)]).toEqual(['', '+254722000111']);
  });

  test('orders are queried before tests', async () => {
    const due = async (payment: Payment) => {
      await service('record_push', {
        payment_id: payment.id,
        body: '{}',
        checkout_request_id: `ws_CO_${secret()}`,
      });
      await database.query('update public.payments set next_query_at = now() where id = $1', [payment.id]);
    };
    await database.execute(`update public.payments set next_query_at = null where status = 'processing'`);
    const [test, ofOrder] = [await beginTest(), await beginOrder()];
    await due(test);
    await due(ofOrder);
    expect(await service('lease_payment_queries')).toMatchObject({ id: ofOrder.id });
    await database.execute('delete from private.rate_limits');
    expect(await service('lease_payment_queries')).toMatchObject({ id: test.id });
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
