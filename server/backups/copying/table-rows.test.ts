import type { Database } from '@jani-juice/backend/database';
import { testDatabases, throwawayDatabase } from '@jani-juice/backend/testing';
import { expect, test } from 'vitest';
import { digestOf, insertLines, LineDigest, listTables, readLines, setTextForm } from './table-rows.ts';

const tables = `
  create type public.mood as enum ('calm', 'it''s "odd"');
  create table public.parents ("Order" integer primary key, "from" text);
  create table public.values_of_all_types (
    id bigint generated always as identity primary key,
    parent integer references public.parents,
    twice integer generated always as (parent * 2) stored,
    flag boolean, small smallint, amount numeric, ratio double precision, words text, short varchar(8), moods public.mood[],
    moment timestamptz, day date, span interval, bytes bytea, document jsonb, plain json, nets inet, ids uuid, texts text[], lexemes tsvector
  );
  create table public.parts (n integer) partition by range (n);
  create table public.first_part partition of public.parts for values from (0) to (10);
  create unlogged table public.forgotten (id integer);`;

const rows = `
  insert into public.parts values (1), (2);
  insert into public.parents values (7, E'a\\tb\\n"c"\\\\ \\u2028 😀');
  insert into public.values_of_all_types
    (parent, flag, small, amount, ratio, words, short, moods, moment, day, span, bytes, document, plain, nets, ids, texts, lexemes)
  values
    (7, true, -1, 'NaN', 0.1 + 0.2, '', 'null', '{calm,"it''s \\"odd\\""}', 'infinity', '-infinity', '-1 mon 2 days', '\\x00ff',
      'null', '{"b":1, "a": [1e400]}', '10.0.0.1', '5a000000-0000-4000-8000-000000000001', '{{a,NULL},{"","\\"}"}}', 'a:1A b'),
    (null, null, null, 12345678901234567890.0010, 'infinity', repeat('[{(', 2000), null, '{}', '2026-11-27 00:00:00.123456+03',
      '0001-01-01 BC', '0', '', '{"deep": null}', null, '::1/64', null, '[5:6]={a,b}', '');
  insert into public.values_of_all_types (words) select repeat('x', n) from generate_series(1, 1200) as n;
  insert into public.values_of_all_types (words) values ('equal'), ('equal');`;

const printed = `select one::text as row from public.values_of_all_types as one order by id`;

const databases = testDatabases();
const ways = databases.map((from, index) => [from, databases.at(index - 1) ?? from] as const);

test.each(ways)('copies every value from %s to %s', async (from, to) => {
  const [source, target] = [await throwawayDatabase(from, []), await throwawayDatabase(to, [])];
  await source.execute(tables + rows);
  await target.execute(tables);
  await copyAll(source, target);
  expect((await target.query(printed)).rows).toEqual((await source.query(printed)).rows);
  expect((await target.query('select from public.parts')).rowCount).toBe(2);
  await target.close();
  await source.close();
});

async function copyAll(source: Database, target: Database): Promise<void> {
  await source.transaction(async (reading) => {
    await setTextForm(reading);
    const listed = await listTables(reading);
    expect(listed.map(({ name }) => name)).toEqual([
      'public.parents',
      'public.parts',
      'public.values_of_all_types',
    ]);
    await target.transaction(async (writing) => {
      await setTextForm(writing);
      for (const table of listed) {
        const digest = new LineDigest();
        for await (const lines of readLines(reading, table)) {
          digest.add(lines);
          await insertLines(writing, table, lines);
        }
        expect(await digestOf(writing, table)).toEqual(digest.result());
      }
    });
  });
}

test('the digest of a table depends on its rows, not on their order', () => {
  const of = (...lines: string[]) => {
    const digest = new LineDigest();
    digest.add(lines);
    return digest.result();
  };
  expect(of('a', 'b')).toEqual(of('b', 'a'));
  expect(of('a', 'a')).not.toEqual(of('b', 'b'));
  expect(of('a', 'a').hash).not.toBe(of().hash);
});
