// Concurrent work on the same orders, receipts, refunds and products never deadlocks: PostgreSQL would end one of the transactions
// (40P01), and its work would have to be repeated.
import { randomBytes, randomInt } from 'node:crypto';
import { type Database, DatabaseError } from '@jani-juice/backend/database';
import { asRole, type Claims, testDatabases } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isExhaustive } from '../../../scripts/test-depth.ts';
import { expectBalancedBooks } from '../payments/balanced-books.ts';
import {
  call,
  makeProduct,
  openShopDatabase,
  orderForm,
  type PlacedOrder,
  people,
  secondStepPassed,
  untilOneQueryWaits,
} from '../shop-database.ts';

const charge = 95_100;
const receipt = () => `UKL${randomBytes(4).toString('hex').toUpperCase().slice(0, 7)}`;
/** A deadlock needs several attempts: `npm run test:long` makes all of them. */
const rounds = (exhaustive: number) => (isExhaustive ? exhaustive : exhaustive / 5);
const pick = <Item>(items: readonly Item[]): Item => items[randomInt(items.length)] as Item;

// PGlite has one connection, so nothing is concurrent.
describe.skipIf(!testDatabases().includes('postgresql'))('on postgresql', () => {
  let database: Database;

  beforeAll(async () => {
    database = await openShopDatabase('postgresql');
  });
  afterAll(() => database.close());

  const service = <Answer>(procedure: string, given: Record<string, unknown> = {}) =>
    call<Answer>(database, 'service', procedure, given);
  const as = <Answer>(member: Claims, sql: string, parameters: unknown[]) =>
    asRole(
      database,
      member,
      async (session) => (await session.query<{ answer: Answer }>(sql, parameters)).rows[0]?.answer as Answer,
    );
  const staff = people.staff;
  const other = secondStepPassed;

  async function place(product: string): Promise<PlacedOrder> {
    await database.execute('delete from private.rate_limits');
    return call<PlacedOrder>(database, 'visitor', 'place_order', { ...orderForm(product), quantity: 1 });
  }
  /** Runs all calls concurrently. Returns the errors of PostgreSQL; refusals of the shop are allowed. */
  async function atOnce(works: (() => Promise<unknown>)[]): Promise<string[]> {
    const ends = await Promise.allSettled(works.toSorted(() => Math.random() - 0.5).map((work) => work()));
    return ends.flatMap((end) => {
      if (end.status === 'fulfilled') return [];
      const problem: unknown = end.reason;
      if (problem instanceof DatabaseError && problem.code.startsWith('PT4')) return [];
      return [
        problem instanceof DatabaseError
          ? `${problem.code} ${problem.message} ${problem.detail}`
          : String(problem),
      ];
    });
  }

  // Rows that reference an order take FOR KEY SHARE on it, also rows of another order's transaction. Only FOR UPDATE waits for that.
  test('functions lock orders FOR NO KEY UPDATE', async () => {
    const { rows } = await database.query(
      `select proname from pg_proc
       where pronamespace in ('public'::regnamespace, 'private'::regnamespace) and prosrc ~ 'public\\.orders as o[^;]* for update\\y'`,
    );
    expect(rows).toEqual([]);
  });

  test('renaming a category, expiring reservations of its products and late payments', async () => {
    const names = ['Before', 'After'];
    await database.query('insert into public.categories (name) values ($1)', [names[0]]);
    const products: string[] = [];
    for (let number = 0; number < 12; number += 1) {
      const product = await makeProduct(database, 100);
      products.push(product);
    }
    await database.query(
      `update public.products set category = $1 where id = any (string_to_array($2, ',')::uuid[])`,
      [names[0], products.join(',')],
    );
    const ended: string[] = [];
    for (let round = 0; round < rounds(40); round += 1) {
      const [from, to] = round % 2 === 0 ? names : names.toReversed();
      const orders: PlacedOrder[] = [];
      for (const product of products) orders.push(await place(product));
      // In random order: reservations are released by their time of expiry.
      await database.query(
        `update public.orders set reserved_until = now() - random() * interval '1 hour', expires_at = now()
         where id = any (string_to_array($1, ',')::uuid[])`,
        [orders.map(({ id }) => id).join(',')],
      );
      const paid = orders.slice(0, 4);
      ended.push(
        ...(await atOnce([
          () => as(staff, 'update public.categories set name = $2 where name = $1', [from, to]),
          () => service('expire_reservations'),
          () => service('expire_reservations'),
          ...paid.map(
            (order) => () =>
              service('receive_mpesa_transaction', {
                source: 'confirmation',
                receipt: receipt(),
                received_cents: charge,
                reference: order.tracking_number,
                body: '{}',
              }),
          ),
          ...products.slice(-3).map((product) => () => place(product)),
          () => as(staff, `update public.orders set status = 'cancelled' where id = $1`, [paid[0]?.id]),
        ])),
      );
    }
    expect(ended.join('\n')).toBe('');
    await expectBalancedBooks(database);
  }, 120_000);

  test('approving, sending, settling and withdrawing refunds while their payments are settled and their orders expire', async () => {
    const product = await makeProduct(database, 1_000);
    const ended: string[] = [];
    for (let round = 0; round < rounds(60); round += 1) {
      const order = await place(product);
      // Unmatched money for which staff have requested a refund.
      const unknown = receipt();
      const cents = pick([charge, 190_000]);
      const report = (source: string, reference: string, change: Record<string, unknown> = {}) =>
        service('receive_mpesa_transaction', {
          source,
          receipt: unknown,
          received_cents: cents,
          reference,
          body: '{}',
          ...change,
        });
      await report('confirmation', '');
      const strange = await as<{ id: string }>(
        staff,
        `select to_jsonb(public.request_refund('Unknown payer', receipt => $1, is_sure => true)) as answer`,
        [unknown],
      );
      // An order with two receipts entered by staff. M-PESA reports a smaller amount for one of them.
      const twice = await place(product);
      const [first, second] = [receipt(), receipt()];
      for (const code of [first, second]) {
        await as(staff, 'select public.confirm_till_payment($1, $2, $3) as answer', [twice.id, code, charge]);
      }
      const payments = (
        await database.query<{ id: string; receipt: string }>(
          'select id, receipt from public.payments where order_id = $1 order by created_at',
          [twice.id],
        )
      ).rows;
      const double = payments.find((payment) => payment.receipt === second);
      const refund = await as<{ id: string }>(
        staff,
        `select to_jsonb(public.request_refund('Paid twice', $1)) as answer`,
        [double?.id],
      );
      const isUnderWay = round % 2 === 0;
      if (isUnderWay) await service('lease_refunds', { at_most: 100 });
      if (round % 3 === 0) {
        await database.query(
          `update public.refunds set sent_at = now() - interval '3 minutes' where status = 'sending'`,
        );
      }
      const settle = (refundId: string, outcome: string) => () =>
        service('settle_reversal', {
          refund_id: refundId,
          source: 'reversal_result',
          body: '{}',
          result: outcome,
          result_code: outcome === 'failed' ? '11' : '0',
          ...(outcome === 'succeeded' ? { refund_receipt: receipt() } : {}),
        });
      await database.query(
        'update public.orders set reserved_until = now(), expires_at = now() where id = $1',
        [order.id],
      );
      ended.push(
        ...(await atOnce([
          () => report('statement', order.tracking_number),
          () => report('confirmation', order.tracking_number),
          () => as(staff, 'select public.withdraw_refund($1) as answer', [strange.id]),
          () => as(other, 'select public.approve_refund($1) as answer', [strange.id]),
          () => as(other, 'select public.withdraw_refund($1) as answer', [refund.id]),
          () =>
            as(staff, `select public.resolve_difference('give', $1, order_id => $2) as answer`, [
              unknown,
              order.id,
            ]),
          () =>
            as(other, `select public.resolve_difference('refund', $1, is_sure => true) as answer`, [unknown]),
          () => as(staff, `select public.request_refund('Paid twice', $1) as answer`, [double?.id]),
          settle(strange.id, 'failed'),
          settle(strange.id, 'succeeded'),
          // M-PESA never refunds more than it received.
          settle(refund.id, 'failed'),
          () => service('lease_refunds', { at_most: 100 }),
          () => service('lease_refunds', { at_most: 100 }),
          () => service('expire_reservations'),
          () =>
            service('receive_mpesa_transaction', {
              source: 'statement',
              receipt: second,
              received_cents: charge - 100,
              reference: twice.tracking_number,
              body: '{}',
            }),
          () => as(staff, `update public.orders set status = 'cancelled' where id = $1`, [twice.id]),
          () => as(staff, `select public.resolve_paid_order($1, 'refunded') as answer`, [twice.id]),
          () =>
            as(staff, 'select public.confirm_till_payment($1, $2, $3) as answer', [order.id, unknown, cents]),
          () =>
            as(
              other,
              'select public.take_back_payment(p.id) as answer from public.payments as p where p.receipt = $1',
              [unknown],
            ),
          () => as(other, `select public.resolve_review($1, 'deliver', $2) as answer`, [order.id, cents]),
          () => as(other, `select to_jsonb(public.note_change($1, 'returned', 100)) as answer`, [double?.id]),
        ])),
      );
    }
    expect(ended.join('\n')).toBe('');
    // Refunds have reached several statuses.
    const { rows } = await database.query<{ status: string }>('select distinct status from public.refunds');
    expect(rows.length).toBeGreaterThan(2);
    await expectBalancedBooks(database);
  }, 120_000);

  test('the late success of a refund waits for a second refund of the same payment that is being sent', async () => {
    const unknown = receipt();
    await service('receive_mpesa_transaction', {
      source: 'confirmation',
      receipt: unknown,
      received_cents: charge,
      reference: '',
      body: '{}',
    });
    const request = () =>
      as<{ id: string; status: string }>(
        staff,
        `select to_jsonb(public.request_refund('No order', receipt => $1, is_sure => true)) as answer`,
        [unknown],
      );
    const settle = (refundId: string, result: string) =>
      service<{ outcome: string }>('settle_reversal', {
        refund_id: refundId,
        source: 'reversal_result',
        body: '{}',
        result,
        result_code: result === 'failed' ? '11' : '0',
        ...(result === 'succeeded' ? { refund_receipt: receipt() } : {}),
      });
    const first = await request();
    expect(first.status).toBe('approved');
    await service('lease_refunds', { at_most: 100 });
    expect(await settle(first.id, 'failed')).toMatchObject({ outcome: 'failed' });
    const second = await request();
    let late: Promise<unknown> | undefined;
    await database.transaction(async (session) => {
      await session.query('select from public.lease_refunds(at_most => 100)');
      late = settle(first.id, 'succeeded');
      await untilOneQueryWaits(database);
    });
    expect(await late).toMatchObject({ outcome: 'sent_by_another' });
    const { rows } = await database.query('select status from public.refunds where id = $1', [second.id]);
    expect(rows).toEqual([{ status: 'sending' }]);
  });

  test('a payment that is being settled is not leased for a query', async () => {
    const product = await makeProduct(database, 10);
    const { id: order_id, tracking_number } = await place(product);
    const { payment } = await service<{ payment: { id: string } }>('begin_payment', {
      order_id,
      tracking_number,
      phone: '0712345678',
      callback_secret: randomBytes(32).toString('hex'),
    });
    const checkout = `ws_CO_${randomBytes(8).toString('hex')}`;
    await service('record_push', { payment_id: payment.id, body: '{}', checkout_request_id: checkout });
    await database.query('update public.payments set next_query_at = now() where id = $1', [payment.id]);

    let leasing: Promise<unknown> = Promise.resolve();
    await asRole(database, people.service, async (session) => {
      await session.query(
        `select public.settle_payment($1, 'callback', '{}', 'succeeded', '0', received_cents => ${charge}, receipt => $2)`,
        [payment.id, receipt()],
      );
      let isOver = false;
      leasing = service('lease_payment_queries', { at_most: 10, per_minute: 1000 }).finally(() => {
        isOver = true;
      });
      // The lease ends or waits for the settlement.
      for (;;) {
        const { rows } = await database.query<{ waits: boolean }>(
          `select exists (select from pg_stat_activity
             where datname = current_database() and wait_event_type = 'Lock') as waits`,
        );
        if (isOver || rows[0]?.waits) break;
      }
    });
    await leasing;
    const { rows } = await database.query(
      'select status, next_query_at, query_count from public.payments where id = $1',
      [payment.id],
    );
    expect(rows).toEqual([{ status: 'completed', next_query_at: null, query_count: 0 }]);
  });

  test('a KSh 1 test receives its callback and its confirmation concurrently', async () => {
    const ended: string[] = [];
    for (let round = 0; round < rounds(40); round += 1) {
      await database.execute('delete from private.rate_limits');
      const test = await service<{ id: string }>('begin_payment_test', {
        phone: '0712345678',
        callback_secret: randomBytes(32).toString('hex'),
        requested_by: people.staff.sub,
      });
      const checkout = `ws_CO_${randomBytes(8).toString('hex')}`;
      await service('record_push', { payment_id: test.id, body: '{}', checkout_request_id: checkout });
      // Only a query has reported it so far.
      await service('settle_payment', {
        payment_id: test.id,
        source: 'query',
        body: '{}',
        result: 'succeeded',
      });
      const code = receipt();
      ended.push(
        ...(await atOnce([
          () =>
            service('settle_payment', {
              payment_id: test.id,
              source: 'callback',
              body: '{}',
              result: 'succeeded',
              received_cents: 100,
              receipt: code,
              checkout_request_id: checkout,
            }),
          ...['confirmation', 'statement'].map(
            (source) => () =>
              service('receive_mpesa_transaction', {
                source,
                receipt: code,
                received_cents: 100,
                reference: 'TEST',
                body: '{}',
              }),
          ),
        ])),
      );
      await database.query(
        'update public.payments set created_at = created_at - interval $$1 hour$$ where purpose = $$test$$',
      );
    }
    expect(ended.join('\n')).toBe('');
  }, 120_000);
});
