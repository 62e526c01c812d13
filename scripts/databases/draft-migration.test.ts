// A draft migrates from the catalogue of the migrations to that of the schemas.
import type { Database } from '@jani-juice/backend/database';
import { throwawayDatabase } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { describeCatalogue } from '../../supabase/tests/database/database-catalogue.ts';
import { draftMigration } from './draft-migration.ts';
import { readSchemas } from './schema-files.ts';
import { shopMigrations } from './shop-migrations.ts';

const schemas = readSchemas()
  .map(({ sql }) => sql)
  .join('\n');
let database: Database;
let current: Map<string, string>;
beforeAll(async () => {
  database = await throwawayDatabase('pglite', shopMigrations);
  current = await describeCatalogue(database);
});
afterAll(() => database.close());

test('has no statements where nothing differs', () => {
  expect(draftMigration(current, current, schemas).trim()).toBe('');
});

test('writes functions, triggers, policies, indexes, comments and grants of the schemas', async () => {
  await database.execute('begin');
  await database.execute(`
    create or replace function private.masked_name(name text) returns text language sql immutable set search_path = ''
      as 'select name';
    drop function private.masked_phone(text);
    create function private.masked_phone(phone text) returns integer language sql as 'select 1';
    create function private.forgotten() returns void language sql as '';
    comment on function private.is_email(text) is 'Other.';
    revoke execute on function public.track_order from anon;
    drop trigger products_after_change on public.products;
    drop policy "Staff send broadcasts to public topics" on realtime.messages;
    drop index public.products_newest_first;
  `);
  const changed = await describeCatalogue(database);
  const draft = draftMigration(changed, current, schemas);
  expect(draft).not.toContain('Write the statements');
  await database.execute(draft);
  expect(Object.fromEntries(await describeCatalogue(database))).toEqual(Object.fromEntries(current));
  await database.execute('rollback');
});

test('writes the whole statement of a new table', async () => {
  await database.execute('begin');
  await database.execute('drop table private.held_units cascade');
  const draft = draftMigration(await describeCatalogue(database), current, schemas);
  await database.execute(draft);
  expect(Object.fromEntries(await describeCatalogue(database))).toEqual(Object.fromEntries(current));
  await database.execute('rollback');
});

test('drops a removed table with its objects', async () => {
  await database.execute('begin');
  await database.execute(`create table private.forgotten (id uuid primary key, constraint "x y" check (id is not null));
    create index forgotten_by_id on private.forgotten (id)`);
  const draft = draftMigration(await describeCatalogue(database), current, schemas);
  expect(draft.trim()).toBe('drop table private.forgotten;');
  await database.execute('rollback');
});

test('writes constraints and grants of a table that exists', async () => {
  await database.execute('begin');
  await database.execute(`
    alter table public.products drop constraint "product slugs are unique", drop constraint "a product has a name",
      add constraint "a product has a name" check (name <> '');
    alter table public.orders add constraint forgotten check (total_amount < 5);
    grant update on public.products to anon;
    comment on table public.products is 'Other.';
  `);
  const draft = draftMigration(await describeCatalogue(database), current, schemas);
  expect(draft).not.toContain('Write the statements');
  await database.execute(draft);
  expect(Object.fromEntries(await describeCatalogue(database))).toEqual(Object.fromEntries(current));
  await database.execute('rollback');
});

test('describes differences of columns', async () => {
  await database.execute('begin');
  await database.execute('alter table public.products alter column tagline set default $$new$$');
  const draft = draftMigration(await describeCatalogue(database), current, schemas);
  expect(draft).toMatch(/^-- Write the statements for what differs here:\n-- column products\.tagline\n/);
  expect(draft.replaceAll(/^--.*$/gm, '').trim()).toBe('');
  await database.execute('rollback');
});
