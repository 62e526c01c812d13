// supabase/schemas describes the current database; the migrations lead to the same catalogue.
import { platform, testDatabases, throwawayDatabase } from '@jani-juice/backend/testing';
import { expect, test } from 'vitest';
import { readSchemas } from '../../../scripts/databases/schema-files.ts';
import { shopMigrations } from '../../../scripts/databases/shop-migrations.ts';
import { describeCatalogue } from './database-catalogue.ts';

const [kind = 'pglite'] = testDatabases();
const schemas = readSchemas();

test('schemas and migrations give the same catalogue', async () => {
  const [migrated, declared] = await Promise.all([
    throwawayDatabase(kind, shopMigrations),
    throwawayDatabase(kind, [platform]),
  ]);
  for (const { sql } of schemas) await declared.execute(sql);
  const [expected, described] = [await describeCatalogue(migrated), await describeCatalogue(declared)];
  await Promise.all([migrated.close(), declared.close()]);
  expect(expected.size).toBeGreaterThan(1000);
  expect(Object.fromEntries(described)).toEqual(Object.fromEntries(expected));
});

test('detects a change of any kind', async () => {
  const database = await throwawayDatabase(kind, shopMigrations);
  const before = await describeCatalogue(database);
  const changes: [statement: string, object: string][] = [
    ['alter table public.products alter column tagline set default $$new$$', 'column products.tagline'],
    [
      'alter table public.products drop constraint "stock is never below zero"',
      'constraint products stock is never below zero',
    ],
    ['drop index public.products_newest_first', 'index products_newest_first'],
    ['revoke select on public.products from anon', 'relation products'],
    ['comment on table public.products is $$Other$$', 'relation products'],
    ['alter function private.is_email(text) set enable_seqscan = off', 'function private.is_email(text)'],
    ['revoke execute on function public.track_order from anon', 'function track_order'],
    ['drop trigger products_before_change on public.products', 'trigger products products_before_change'],
    [
      'drop policy "staff read and edit every product" on public.products',
      'policy public.products staff read and edit every product',
    ],
    [
      'alter publication supabase_realtime drop table public.orders',
      'published supabase_realtime public.orders',
    ],
  ];
  for (const [statement, object] of changes) {
    let after = before;
    const undone = database.transaction(async (session) => {
      await session.query(statement);
      after = await describeCatalogue(session);
      throw new Error('rolled back');
    });
    await expect(undone).rejects.toThrow('rolled back');
    const changed = [...before]
      .filter(([key, definition]) => after.get(key) !== definition)
      .map(([key]) => key);
    expect(
      changed.some((key) => key.startsWith(object)),
      `${statement}: ${changed.join(', ')}`,
    ).toBe(true);
  }
  await database.close();
});

test('a table has one trigger for each timing, and payments have two after a change', async () => {
  const database = await throwawayDatabase(kind, shopMigrations);
  const { rows } = await database.query<{ place: string; triggers: string[] }>(
    `select concat_ws(' ', t.tgrelid::regclass, case when t.tgtype & 2 > 0 then 'before' else 'after' end,
         case when t.tgtype & 1 > 0 then 'row' else 'statement' end) as place,
       array_agg(t.tgname::text order by t.tgname) as triggers
     from pg_trigger as t
     join pg_proc as p on p.oid = t.tgfoid
     where not t.tgisinternal and p.pronamespace in ('public'::regnamespace, 'private'::regnamespace)
     group by 1`,
    [],
  );
  await database.close();
  expect(rows.length).toBeGreaterThan(20);
  expect(rows.filter(({ triggers }) => triggers.length > 1)).toEqual([
    { place: 'payments after row', triggers: ['payments_after_receipt', 'payments_after_status_change'] },
  ]);
});

test('plans are forbidden where a typed text or a burst decides the cost, and not compiled there', async () => {
  const database = await throwawayDatabase(kind, shopMigrations);
  const { rows } = await database.query<{ name: string; is_compiled: boolean }>(
    `select p.proname::text as name, not 'jit=off' = any (p.proconfig) as is_compiled from pg_proc as p
     where exists (select from unnest(p.proconfig) as setting where setting ~ '^(enable_.*=off|jit)') order by 1`,
    [],
  );
  await database.close();
  expect(rows.filter((row) => row.is_compiled)).toEqual([]);
  expect(rows.map(({ name }) => name)).toEqual([
    'alerts_to_send',
    'better_search',
    'change_order_items',
    'count_along_index',
    'count_call_from',
    'count_held_units',
    'delete_unused_words',
    'due_messages',
    'found_products',
    'hits_so_far',
    'home_products',
    'index_product',
    'is_in_item_names',
    'is_in_rider_names',
    'last_of_phones',
    'lease_messages',
    'newest_of_phones',
    'orders_of_phone',
    'place_order',
    'read_search',
    'search_products',
    'sent_without_priority',
    'shop_page',
    'shop_page_ids',
    'sums_of_phones',
    'track_order',
    'walk_by_text',
    'walk_list',
    'withheld_messages',
  ]);
});

test.each(schemas)('$path fits on a few screens', ({ sql }) => {
  expect(sql.split('\n').length).toBeLessThanOrEqual(600);
});
