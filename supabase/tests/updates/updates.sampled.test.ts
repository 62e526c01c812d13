// Every version that shops have got can be updated to this one, with all rows. A migration of theirs that has changed or gone fails here.
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Database, migrate } from '@jani-juice/backend/database';
import { testDatabases, throwawayDatabase } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { shopMigrations } from '../../../scripts/databases/shop-migrations.ts';
import { isExhaustive } from '../../../scripts/tests/test-depth.ts';
import { describeCatalogue } from '../database/database-catalogue.ts';
import { expectBalancedBooks } from '../payments/books/balanced-books.ts';
import type { PlacedOrder } from '../shop-database.ts';
import { type Steps, shopSteps } from '../steps.ts';
import { initialUnits } from './fill-shop.ts';
import { findLostObjects } from './lost-objects.ts';
import { listFixtures, openFixture } from './open-fixture.ts';
import { asHostedProject, pushMigrations } from './supabase-db-push.ts';

const allFixtures = await listFixtures();
const oldest = allFixtures[0] ?? '';
/** Every one on PGlite, which most shops have, and in `npm run test:long`. */
const fixtures =
  isExhaustive || testDatabases().includes('pglite') ? allFixtures : [oldest, allFixtures.at(-1) ?? ''];
const migrations = shopMigrations.find(({ name }) => name === 'shop')?.folder ?? '';
/** What updates correct: states of deliveries, by customer, and a receipt that was stored in two spellings, as two transactions. */
const corrections: Record<string, { deliveries: Record<string, string>; transactions: number }> = {
  [oldest]: {
    deliveries: { onTheWay: 'failed', sentBack: 'failed', shipped: 'pending' },
    transactions: 1,
  },
};

/** Counts and sums that an update must not change. */
const readBooks = async (database: Database) =>
  (
    await database.query<Record<string, number>>(`select
      (select count(*)::integer from public.orders) as orders,
      (select sum(stock_quantity)::integer from public.products) as stock,
      (select sum(total_amount)::integer from public.orders) as total,
      (select count(*)::integer from public.orders where payment_status = 'paid') as paid,
      (select sum(charge_cents)::integer from public.payments where status = 'completed' and not needs_refund) as received,
      (select sum(refund_cents)::integer from public.refunds) as refunds,
      (select count(*)::integer from public.payment_messages) as payment_messages,
      (select count(*)::integer from public.outbox_messages) as messages,
      (select count(*)::integer from public.mpesa_transactions) as transactions,
      (select count(*)::integer from auth.users) as accounts`)
  ).rows[0] ?? {};

/** The state of each order, by its customer. */
const readOrders = async (database: Database) =>
  (
    await database.query(
      `select o.customer_name, o.status, o.payment_status, d.delivery_status
       from public.orders as o left join public.deliveries as d on d.order_id = o.id order by 1`,
    )
  ).rows;

/** Why each order was cancelled, by its number; null also where the version knew no reasons. */
const readReasons = async (database: Database) =>
  Object.fromEntries(
    (
      await database.query<{ number: string; reason: string | null }>(
        `select o.order_number as number, to_jsonb(o) ->> 'cancel_reason' as reason from public.orders as o where o.status = 'cancelled'`,
      )
    ).rows.map(({ number, reason }) => [number, reason]),
  );

/** Without the brackets, which a dump writes otherwise than the migration did. */
const catalogueOf = async (database: Database) => {
  const catalogue = await describeCatalogue(database);
  return Object.fromEntries(
    [...catalogue].map(([object, definition]) => [object, definition?.replaceAll(/[()]/g, '')]),
  );
};

test.each(testDatabases())('there are databases to update, on %s', async (kind) => {
  expect(allFixtures.length).toBeGreaterThan(1);
  // Only a version whose migrations are all here can be the next one's past.
  const folder = await mkdtemp(join(tmpdir(), 'jani-updates-'));
  const database = await openFixture(kind, oldest);
  await writeFile(join(folder, '20261126094000_baseline.sql'), 'select 1;');
  await expect(migrate(database, [{ name: 'shop', folder }])).rejects.toThrow();
  await asHostedProject(database);
  await expect(pushMigrations(database, folder)).rejects.toThrow('Remote migration versions not found');
  await database.close();
  await rm(folder, { recursive: true });
});

describe.each(testDatabases().flatMap((kind) => fixtures.map((fixture) => ({ kind, fixture }))))(
  'the database of $fixture on $kind',
  ({ kind, fixture }) => {
    let database: Database;
    let before: {
      books: Record<string, number>;
      orders: Record<string, unknown>[];
      reasons: Record<string, string | null>;
    };
    let shop: Steps;

    const correctedOrders = () =>
      before.orders.map((order) => {
        const delivery_status = corrections[fixture]?.deliveries[String(order.customer_name)];
        return { ...order, ...(delivery_status ? { delivery_status } : {}) };
      });

    beforeAll(async () => {
      database = await openFixture(kind, fixture);
      shop = shopSteps(database);
      before = {
        books: await readBooks(database),
        orders: await readOrders(database),
        reasons: await readReasons(database),
      };
      await migrate(database, shopMigrations);
    });
    afterAll(() => database.close());

    test('has the catalogue of a new shop', async () => {
      const fresh = await throwawayDatabase(kind, shopMigrations);
      expect(await catalogueOf(database)).toEqual(await catalogueOf(fresh));
      await fresh.close();
      expect(await migrate(database, shopMigrations)).toEqual([]);
    });

    test('keeps every order, unit, message, account and shilling', async () => {
      const { transactions = 0, ...books } = before.books;
      expect(await readBooks(database)).toEqual({
        ...books,
        transactions: transactions - (corrections[fixture]?.transactions ?? 0),
      });
      expect(before.orders.length).toBeGreaterThan(10);
      expect(await readOrders(database)).toEqual(correctedOrders());
      await expectBalancedBooks(database, { stock: await unitsOf(database) });
    });

    test('keeps texts and limits that the owner changed', async () => {
      expect(
        await shop.readRow(
          `select body from public.message_templates where kind = 'order_payment_held' and channel = 'text'`,
        ),
      ).toEqual({ body: '{shop}: {paid} received. Karibu! {link}' });
      expect(
        await shop.readRow(`select allowed::integer from private.limits where name = 'place_order'`),
      ).toEqual({
        allowed: 77,
      });
    });

    test('keeps why each order was cancelled, or takes it from the timeline', async () => {
      const reasons = await readReasons(database);
      expect(Object.keys(reasons).length).toBeGreaterThan(0);
      if (Object.values(before.reasons).some((reason) => reason !== null)) {
        expect(reasons).toEqual(before.reasons);
        return;
      }
      const { rows } = await database.query<{ number: string; told: string | null }>(
        `select o.order_number as number, case
           when e.details ->> 'reason' = 'not_paid_in_time' then 'not_paid_in_time'
           when o.payment_status = 'refunded' then 'refunded'
           when e.actor = 'staff' then 'by_shop'
         end as told
         from public.orders as o
         cross join lateral (
           select actor, details from public.order_events
           where order_id = o.id and kind = 'status_changed' and details ->> 'to' = 'cancelled'
           order by id desc limit 1
         ) as e
         where o.status = 'cancelled'`,
      );
      expect(rows.length).toBeGreaterThan(0);
      for (const { number, told } of rows) expect(reasons[number] ?? null).toBe(told);
    });

    test('sells: an earlier order and a new one are paid, and an earlier payment is taken back', async () => {
      const typed = await shop.readValue(
        `select p.id from public.payments as p join public.orders as o on o.id = p.order_id where o.customer_name = 'typed'`,
      );
      expect(await shop.asStaff('take_back_payment', { payment_id: typed })).toBe('unpaid');
      await shop.asStaff('resume_prompts');
      // The order waits as it did when the database was stored.
      await database.query(
        `update public.orders set expires_at = now() + interval '15 minutes', expiry_limit = now() + interval '30 minutes',
           reserved_until = case when reserved_until is not null then now() + interval '15 minutes' end
         where customer_name = 'open'`,
      );
      const earlier = await shop.readRows<PlacedOrder>(
        `select id, tracking_number from public.orders where customer_name = 'open'`,
      );
      expect(earlier).toHaveLength(1);
      const [product = ''] = (await unitsOf(database)).keys();
      for (const order of [...earlier, await shop.place(product, { address: '10.9.9.9' })]) {
        await shop.settle((await shop.begin(order)).payment);
        expect(await shop.stateOf(order)).toMatchObject({ money: 'paid' });
      }
      await expectBalancedBooks(database, { stock: await unitsOf(database) });
    });

    test('is updated by supabase db push, too', async () => {
      const project = await openFixture(kind, fixture);
      await asHostedProject(project);
      await pushMigrations(project, migrations);
      expect(await readOrders(project)).toEqual(correctedOrders());
      expect(await catalogueOf(project)).toEqual(await catalogueOf(database));
      await project.close();
    });
  },
);

describe.each(testDatabases())('migrations that keep earlier versions working, on %s', (kind) => {
  test('keep the tables, columns and procedures of the versions before', async () => {
    const fresh = await throwawayDatabase(kind, shopMigrations);
    const now = await describeCatalogue(fresh);
    await fresh.close();
    const files = (await readdir(migrations)).filter((name) => name.endsWith('.sql'));
    for (const fixture of fixtures) {
      const database = await openFixture(kind, fixture);
      const { rows } = await database.query<{ version: string }>(
        `select version from platform.schema_migrations where source = 'shop'`,
      );
      const applied = new Set(rows.map(({ version }) => `${version}.sql`));
      const texts = files
        .filter((name) => !applied.has(name))
        .map((name) => readFile(join(migrations, name), 'utf8'));
      const promise = (await Promise.all(texts)).every((text) =>
        text.startsWith('-- Earlier versions keep working'),
      );
      if (promise) expect(findLostObjects(await describeCatalogue(database), now), fixture).toEqual([]);
      await database.close();
    }
  });

  test.each([
    ['alter table public.products drop column tagline cascade', ['column products.tagline']],
    ['alter table public.payments rename to charges', ['relation payments']],
    ['drop function public.list_fees(text)', ['function list_fees(text)']],
    ['alter function public.list_fees(text) rename to fees', ['function list_fees(text)']],
    [
      'drop function public.list_fees(text); create function public.list_fees(area text, day date) returns text language sql return area',
      ['function list_fees(text)'],
    ],
    [
      'drop function public.list_fees(text); create function public.list_fees(area text, day date default null) returns text language sql return area',
      [],
    ],
    ['alter table public.products add column origin text; create table public.farms (id integer)', []],
  ])('detects what %s takes away', async (statements, lost) => {
    const database = await throwawayDatabase(kind, shopMigrations);
    await database.execute(
      'create function public.list_fees(area text) returns text language sql return area',
    );
    const before = await describeCatalogue(database);
    await database.execute(statements);
    const found = findLostObjects(before, await describeCatalogue(database));
    expect(found.filter((object) => lost.length === 0 || lost.includes(object))).toEqual(lost);
    await database.close();
  });
});

describe.each(testDatabases())('the update from the oldest version on %s', (kind) => {
  test('joins receipts of two spellings, lists what was not read, and says why money is under review', async () => {
    const database = await openFixture(kind, oldest);
    await migrate(database, shopMigrations);
    const read = async (query: string) => (await database.query(query)).rows;
    expect(
      await read(
        `select receipt from public.payments where receipt <> upper(trim(receipt))
         union all select receipt from public.mpesa_transactions where receipt <> upper(trim(receipt))
         union all select receipt from public.payment_messages where receipt <> upper(trim(receipt))`,
      ),
    ).toEqual([]);
    const of = (name: string) => `from public.payments as p join public.orders as o on o.id = p.order_id
      where o.customer_name = '${name}'`;
    expect(await read(`select p.needs_refund, p.method ${of('both')}`)).toEqual([
      { needs_refund: false, method: 'prompt' },
    ]);
    expect(await read(`select p.review_cause ${of('review')}`)).toEqual([{ review_cause: 'wrong_amount' }]);
    expect(
      await read(
        'select count(*)::integer as waiting from public.messages_to_check where resolution is null',
      ),
    ).toEqual([{ waiting: 1 }]);
    expect(
      await read(`select position('{receipt}' in default_body) > 0 as is_new from public.message_templates
        where kind = 'order_payment_held' and channel = 'text'`),
    ).toEqual([{ is_new: true }]);
    await database.close();
  });
});

/** The product of the fixture's orders, with its initial units. */
async function unitsOf(database: Database): Promise<Map<string, number>> {
  const { rows } = await database.query<{ id: string }>(
    `select id from public.products where name = 'Test drink'`,
  );
  return new Map(rows.map(({ id }) => [id, initialUnits]));
}
