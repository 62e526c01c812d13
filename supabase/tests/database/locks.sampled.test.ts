// Concurrent work on the same orders, receipts, refunds and products never deadlocks: PostgreSQL would end one of the transactions
// (40P01), and its work would have to be repeated.
import { randomInt } from 'node:crypto';
import { DatabaseError } from '@jani-juice/backend/database';
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import { describe, expect, test } from 'vitest';
import { isExhaustive } from '../../../scripts/tests/test-depth.ts';
import { expectBalancedBooks } from '../payments/books/balanced-books.ts';
import {
  makeProduct,
  type PlacedOrder,
  people,
  secondStepPassed,
  untilOneQueryWaits,
} from '../shop-database.ts';
import { byQuery, newReceipt, reversalFailed, setUpShop } from '../steps.ts';

const charge = 95_100;
const other = secondStepPassed;
/** A deadlock needs several attempts: `npm run test:long` makes all of them. */
const rounds = (exhaustive: number) => (isExhaustive ? exhaustive : exhaustive / 5);
const pick = <Item>(items: readonly Item[]): Item => items[randomInt(items.length)] as Item;

// PGlite has one connection, so nothing is concurrent.
describe.skipIf(!testDatabases().includes('postgresql'))('on postgresql', () => {
  const shop = setUpShop('postgresql');
  const { database, callAs, asStaff, asService, queryAs, readRows, place, endPaymentTime } = shop;
  const { expireReservations, setStatus, recordPush, prompt, beginTest, settle, receive, confirm } = shop;
  const { assign, requestRefund, approveRefund, withdrawRefund, leaseRefunds, settleReversal } = shop;

  async function placeUnlimited(product: string): Promise<PlacedOrder> {
    await database.execute('delete from private.rate_limits');
    return place(product);
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
      products.push(await makeProduct(database, 100));
    }
    await database.query(
      `update public.products set category = $1 where id = any (string_to_array($2, ',')::uuid[])`,
      [names[0], products.join(',')],
    );
    const ended: string[] = [];
    for (let round = 0; round < rounds(40); round += 1) {
      const [from, to] = round % 2 === 0 ? names : names.toReversed();
      const orders: PlacedOrder[] = [];
      for (const product of products) orders.push(await placeUnlimited(product));
      // In random order: reservations are released by their time of expiry.
      await database.query(
        `update public.orders set reserved_until = now() - random() * interval '1 hour', expires_at = now()
         where id = any (string_to_array($1, ',')::uuid[])`,
        [orders.map(({ id }) => id).join(',')],
      );
      const paid = orders.slice(0, 4);
      ended.push(
        ...(await atOnce([
          () => queryAs('staff', 'update public.categories set name = $2 where name = $1', [from, to]),
          () => expireReservations(),
          () => expireReservations(),
          ...paid.map((order) => () => receive(order)),
          ...products.slice(-3).map((product) => () => placeUnlimited(product)),
          () => setStatus(paid[0] as PlacedOrder, 'cancelled'),
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
      const order = await placeUnlimited(product);
      // Unmatched money for which staff have requested a refund.
      const unknown = newReceipt();
      const cents = pick([charge, 190_000]);
      const reportMoney = (source: string, reference: string) =>
        receive(reference, unknown, { source, received_cents: cents });
      await reportMoney('confirmation', '');
      const strange = await requestRefund(unknown);
      // An order with two receipts entered by staff. M-PESA reports a smaller amount for one of them.
      const twice = await placeUnlimited(product);
      await confirm(twice);
      const { payment: second } = await confirm(twice);
      const refund = await requestRefund(second);
      const isUnderWay = round % 2 === 0;
      if (isUnderWay) await leaseRefunds();
      if (round % 3 === 0) {
        await database.query(
          `update public.refunds set sent_at = now() - interval '3 minutes' where status = 'sending'`,
        );
      }
      await endPaymentTime(order);
      ended.push(
        ...(await atOnce([
          () => reportMoney('statement', order.tracking_number),
          () => reportMoney('confirmation', order.tracking_number),
          () => withdrawRefund(strange),
          () => approveRefund(strange, other),
          () => withdrawRefund(refund, other),
          () => assign(order, unknown),
          () => callAs(other, 'resolve_difference', { decision: 'refund', receipt: unknown, is_sure: true }),
          () => requestRefund(second),
          () => settleReversal(strange, reversalFailed),
          () => settleReversal(strange),
          // M-PESA never refunds more than it received.
          () => settleReversal(refund, reversalFailed),
          () => leaseRefunds(),
          () => leaseRefunds(),
          () => expireReservations(),
          () => receive(twice, second.receipt ?? '', { source: 'statement', received_cents: charge - 100 }),
          () => setStatus(twice, 'cancelled'),
          () => asStaff('resolve_paid_order', { order_id: twice.id, resolution: 'refunded' }),
          () => confirm(order, unknown, { received_cents: cents }),
          () =>
            queryAs(
              other,
              'select public.take_back_payment(p.id) as answer from public.payments as p where p.receipt = $1',
              [unknown],
            ),
          () =>
            callAs(other, 'resolve_review', { order_id: order.id, decision: 'deliver', seen_cents: cents }),
          () => callAs(other, 'note_change', { payment_id: second.id, kind: 'returned', amount_cents: 100 }),
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
    const unknown = newReceipt();
    await receive('', unknown);
    const first = await requestRefund(unknown);
    expect(first.status).toBe('approved');
    await leaseRefunds();
    expect(await settleReversal(first, reversalFailed)).toMatchObject({ outcome: 'failed' });
    const second = await requestRefund(unknown);
    let late: Promise<unknown> | undefined;
    await database.transaction(async (session) => {
      await session.query('select from public.lease_refunds(at_most => 100)');
      late = settleReversal(first);
      await untilOneQueryWaits(database);
    });
    expect(await late).toMatchObject({ outcome: 'sent_by_another' });
    expect(await readRows('select status from public.refunds where id = $1', [second.id])).toEqual([
      { status: 'sending' },
    ]);
  });

  test('a payment that is being settled is not leased for a query', async () => {
    const product = await makeProduct(database, 10);
    const payment = await prompt(await placeUnlimited(product));
    await database.query('update public.payments set next_query_at = now() where id = $1', [payment.id]);

    let leasing: Promise<unknown> = Promise.resolve();
    await asRole(database, people.service, async (session) => {
      await session.query(
        `select public.settle_payment($1, 'callback', '{}', 'succeeded', '0', received_cents => ${charge}, receipt => $2)`,
        [payment.id, newReceipt()],
      );
      let isOver = false;
      leasing = asService('lease_payment_queries', { at_most: 10, per_minute: 1000 }).finally(() => {
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
      const test = await recordPush(await beginTest());
      // Only a query has reported it so far.
      await settle(test, byQuery);
      const code = newReceipt();
      ended.push(
        ...(await atOnce([
          () => settle(test, { receipt: code }),
          ...['confirmation', 'statement'].map(
            (source) => () => receive('TEST', code, { source, received_cents: 100 }),
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
