// Calls that grow with nothing but their own answer: what they read in a large shop, beside a small one of the same daily rate.

import type { Database } from '@jani-juice/backend/database';
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { fillShop } from '../../../scripts/databases/fill-shop.ts';
import { isExhaustive } from '../../../scripts/tests/test-depth.ts';
import { openShopDatabase, type Person, people } from '../shop-database.ts';

const today = `(now() at time zone 'Africa/Nairobi')::date`;
const newestWithout = `(select receipt from public.mpesa_transactions where payment_id is null and resolution is null order by transacted_at desc limit 1)`;

const newestPhone = `(select customer_phone from public.orders order by created_at desc limit 1)`;

const calls: [person: Person, call: string][] = [
  ['service', 'public.lease_messages()'],
  ['service', 'public.expire_reservations(1)'],
  ['service', 'public.claim_due_jobs()'],
  ['service', 'public.lease_pushes()'],
  ['service', 'public.shop_metrics()'],
  ['staff', 'public.search_orders()'],
  ['staff', `public.search_orders(search => '%%')`],
  ['staff', `public.search_orders(search => 'unknown text')`],
  ['staff', `public.count_orders(search => '%%')`],
  ['staff', `public.search_orders(rider => 'Kevin Otieno')`],
  ['staff', `public.search_orders(search => 'Kevin Otieno')`],
  ['staff', `public.search_orders(payment => 'to_decide')`],
  ['staff', 'public.count_work()'],
  ['staff', 'public.work_queue()'],
  ['staff', 'public.waiting_notices()'],
  ['staff', `public.search_deliveries(due => 'late')`],
  ['staff', 'public.recent_riders()'],
  ['staff', `public.customer_by_phone(${newestPhone})`],
  ['staff', `public.drinks_to_order('drink')`],
  ['staff', `public.day_totals(${today} - 5)`],
  ['staff', `public.cash_of_day(${today} - 5)`],
  ['staff', `public.cash_due_of_day(${today} - 5)`],
  ['staff', `public.money_entries(${today} - 5, ${today} - 5)`],
  ['staff', `public.report(${today} - 29, ${today})`],
  ['staff', `public.delivery_report(${today} - 29, ${today})`],
  // The orders whose fee and day are to be agreed on.
  ['staff', `public.orders where awaits_agreement and status <> 'cancelled' order by created_at limit 50`],
  ['staff', `public.reconciliation_day(${today} - 5)`],
  ['staff', `public.reconciliation_days(${today} - 29, ${today})`],
  ['staff', 'public.statement_status()'],
  ['staff', `public.suggest_orders(${newestWithout})`],
  ['staff', 'public.search_messages()'],
  ['staff', `public.search_messages(search => '%%')`],
  ['staff', 'public.message_budgets()'],
  ['staff', 'public.system_status()'],
  ['staff', 'public.count_payments_since(now())'],
  // The drink with the longest history.
  ['staff', `public.product_history('00000001-0000-4000-8000-000000000001')`],
  ['visitor', `public.product_and_related('drink-7')`],
];

// Sixty days are more than any period that these calls read.
const ordersPerDay = isExhaustive ? 50 : 25;
const [small, large] = [60 * ordersPerDay, isExhaustive ? 40_000 : 6000];

describe.each(testDatabases())('on %s', (kind) => {
  let databases: Database[];
  beforeAll(async () => {
    databases = await Promise.all(
      [small, large].map(async (orders) => {
        const database = await openShopDatabase(kind);
        await fillShop((script) => database.execute(script), { orders, products: 30, ordersPerDay });
        return database;
      }),
    );
  }, 300_000);
  afterAll(() => Promise.all(databases.map((database) => database.close())));

  /** Pages that a call reads, once its plans are cached. */
  const pagesOf = (database: Database, person: Person, call: string) =>
    asRole(database, people[person], async (session) => {
      await session.query(`select from ${call}`);
      const { rows } = await session.query<{ 'QUERY PLAN': string }>(
        `explain (analyze, buffers, timing off, format text) select * from ${call}`,
      );
      const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
      const [, hit = 0, , read = 0] = /Buffers: shared(?: hit=(\d+))?( read=(\d+))?/.exec(plan) ?? [];
      return Number(hit) + Number(read);
    });

  test('reads at most twice as much', async () => {
    const grown: Record<string, number[]> = {};
    for (const database of databases) await database.execute('analyze');
    for (const [person, call] of calls) {
      const pages: number[] = [];
      for (const database of databases) pages.push(await pagesOf(database, person, call));
      const [few = 0, many = 0] = pages;
      // Another level of an index costs a page per row.
      if (many > 2 * few + 60) grown[call] = pages;
    }
    expect(grown).toEqual({});
  });
});
