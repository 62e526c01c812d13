// A new shop begins with the rows of supabase/schemas/6_running/27_rows.sql, to which the migrations lead.
import { testDatabases, throwawayDatabase } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readSchemas } from '../../../scripts/databases/schema-files.ts';
import { shopMigrations } from '../../../scripts/databases/shop-migrations.ts';

const [kind = 'pglite'] = testDatabases();

type Database = Awaited<ReturnType<typeof throwawayDatabase>>;
let migrated: Database;
let declared: Database;
beforeAll(async () => {
  const platform = shopMigrations.filter(({ name }) => name === 'platform');
  [migrated, declared] = await Promise.all([
    throwawayDatabase(kind, shopMigrations),
    throwawayDatabase(kind, platform),
  ]);
  for (const { sql } of readSchemas()) await declared.execute(sql);
});
afterAll(() => Promise.all([migrated.close(), declared.close()]));

/** Number of rows by table. */
async function countRows(database: Database): Promise<Record<string, number>> {
  const { rows: tables } = await database.query<{ name: string }>(
    `select c.oid::regclass::text as name from pg_class as c
     where c.relkind = 'r' and c.relnamespace in ('public'::regnamespace, 'private'::regnamespace)`,
  );
  const counts: [string, number][] = [];
  for (const { name } of tables) {
    const { rows } = await database.query<{ count: number }>(
      `select count(*)::integer as count from ${name}`,
    );
    counts.push([name, rows[0]?.count ?? 0]);
  }
  return Object.fromEntries(counts.filter(([, count]) => count > 0));
}

test('no other table has rows', async () => {
  const counts = await countRows(migrated);
  expect(Object.keys(counts).sort()).toEqual([
    'delivery_areas',
    'message_templates',
    'private.limits',
    'private.person_hash_key',
    'reply_templates',
    'search_synonyms',
    'shop_texts',
    'store_settings',
  ]);
  expect(await countRows(declared)).toEqual(counts);
});

test.each([
  ['settings', "select to_jsonb(s) - 'updated_at' as row from public.store_settings as s"],
  [
    'areas',
    `select to_jsonb(a) - '{id,created_at,updated_at}'::text[] as row from public.delivery_areas as a order by a.position`,
  ],
  ['limits', 'select to_jsonb(l) as row from private.limits as l order by l.name'],
  [
    'templates of messages',
    `select to_jsonb(t) - '{id,created_at,updated_at}'::text[] as row from public.message_templates as t order by t.kind, t.channel`,
  ],
  ['texts', "select to_jsonb(t) - 'updated_at' as row from public.shop_texts as t order by t.slug"],
  [
    'synonyms',
    `select to_jsonb(s) - '{id,created_at}'::text[] as row from public.search_synonyms as s order by s.word`,
  ],
  ['reply templates', 'select t.title, t.body from public.reply_templates as t order by t.title'],
  [
    'buckets',
    `select to_jsonb(b) - '{created_at,updated_at}'::text[] as row from storage.buckets as b where b.id = 'product-images'`,
  ],
])('the %s are the same', async (_, query) => {
  const [{ rows: expected }, { rows }] = await Promise.all([migrated.query(query), declared.query(query)]);
  expect(expected.length).toBeGreaterThan(0);
  expect(rows).toEqual(expected);
});
