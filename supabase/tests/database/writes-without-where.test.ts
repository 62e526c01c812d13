// Every UPDATE and DELETE in the database's functions has a WHERE.

import { throwawayDatabase } from '@jani-juice/backend/testing';
import { expect, test } from 'vitest';
import { shopMigrations } from '../../../scripts/databases/shop-migrations.ts';
import { writesWithoutWhere } from './writes-without-where.ts';

test.each([
  ['delete from private.prompt_pause;', ['delete from private.prompt_pause']],
  ["update public.orders as o set status = ';';", ["update public.orders as o set status = ''"]],
  ['with gone as (delete from a returning *) select * from gone where true;', ['delete from a returning *']],
  ['update a set b = (select c from d where true);', ['update a set b = (select c from d where true)']],
  ['delete from a -- where true\n;', ['delete from a']],
])('finds the write without a WHERE in %j', (body, found) => {
  expect(writesWithoutWhere(body)).toEqual(found);
});

test.each([
  'delete from a where b in (select c from d);',
  'update a as x set b = 1 from c where c.id = x.id returning x.*;',
  'insert into a (b) values (1) on conflict (b) do update set b = 2;',
  'select * from a for update;',
  'with gone as (delete from a where true returning *) select * from gone;',
])('accepts %j', (body) => {
  expect(writesWithoutWhere(body)).toEqual([]);
});

test('no function of the shop or of the platform writes without a WHERE', async () => {
  const database = await throwawayDatabase('pglite', shopMigrations);
  const { rows } = await database.query<{ name: string; body: string }>(
    `select p.oid::regprocedure::text as name, p.prosrc as body
     from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace join pg_language as l on l.oid = p.prolang
     where n.nspname not in ('pg_catalog', 'information_schema', 'extensions') and l.lanname in ('sql', 'plpgsql')`,
    [],
  );
  await database.close();
  expect(rows.length).toBeGreaterThan(200);
  expect(
    rows.flatMap(({ name, body }) => writesWithoutWhere(body).map((text) => `${name}: ${text}`)),
  ).toEqual([]);
});
