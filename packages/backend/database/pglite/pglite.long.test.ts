import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { copyMigratedDatabase } from '../../testing/throwaway.ts';
import { openPglite } from './pglite.ts';

test('runs a checkpoint before the write-ahead log grows long', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'jani-pglite-'));
  await copyMigratedDatabase(join(folder, 'database'), []);
  const database = await openPglite(join(folder, 'database'), {
    isDurable: false,
    maxLogBytes: 20 * 1024 * 1024,
    logCheckIntervalMs: 50,
  });
  const first = '000000010000000000000001';
  const segments = async () =>
    (await readdir(join(folder, 'database/pg_wal'))).filter((name) => /^[0-9A-F]{24}$/.test(name));
  expect(await segments()).toContain(first);
  await database.execute(
    `create table public.much as select n, repeat('x', 500) as text from generate_series(1, 60000) as n`,
  );
  await expect.poll(segments, { timeout: 30_000 }).not.toContain(first);
  expect((await database.query('select from public.much')).rowCount).toBe(60_000);
  await database.close();
  await rm(folder, { recursive: true });
});

test('reuses the space of deleted rows', async () => {
  const grown = async (maxDeadRows: number) => {
    const database = await openPglite(undefined, { maxDeadRows, logCheckIntervalMs: 50 });
    await database.execute('create table public.passing (text text)');
    const read = async <Value>(expression: string) =>
      (await database.query<{ value: Value }>(`select ${expression} as value`)).rows[0]?.value;
    const dead = `(select n_dead_tup::integer from pg_stat_user_tables where relname = 'passing')`;
    for (let round = 0; round < 5; round += 1) {
      await database.execute(
        `insert into public.passing select repeat('x', 500) from generate_series(1, 2000)`,
      );
      await database.execute('delete from public.passing');
      await database.execute('select pg_stat_force_next_flush()');
      if (maxDeadRows < 2000) await expect.poll(() => read(dead), { timeout: 30_000 }).toBe(0);
    }
    const bytes = await read<number>(`pg_table_size('public.passing')::integer`);
    await database.close();
    return bytes;
  };
  expect(await grown(1000)).toBeLessThan(2 * 2000 * 500);
  // Nothing else would have done it.
  expect(await grown(1_000_000)).toBeGreaterThan(5 * 2000 * 500);
});

test('leaves the indexes of a busy database to a quiet time', async () => {
  const database = await openPglite(undefined, {
    maxDeadRows: 100,
    maxQuietMessages: 100,
    logCheckIntervalMs: 500,
  });
  const read = async (expression: string) =>
    (await database.query<{ value: number }>(`select (${expression})::integer as value`)).rows[0]?.value;
  /** Entries of the index, as last counted. */
  const entries = `select i.reltuples from pg_class as i where i.relname = 'passing_pkey'`;
  const vacuums = `select vacuum_count from pg_stat_user_tables where relname = 'passing'`;
  await database.execute(`
    create table public.passing (n integer primary key);
    insert into public.passing select generate_series(1, 2000);
    select pg_stat_force_next_flush()`);
  // With statistics: they are gathered otherwise, which counts the entries.
  await database.execute('vacuum analyze public.passing');
  expect(await read(entries)).toBe(2000);
  await database.execute('delete from public.passing where n > 1000; select pg_stat_force_next_flush()');
  const before = (await read(vacuums)) ?? 0;
  // Queries without a pause, except that timers run.
  while ((await read(vacuums)) === before) await new Promise(setImmediate);
  expect(await read(entries)).toBe(2000);
  await expect.poll(() => read(vacuums), { timeout: 30_000, interval: 500 }).toBe(before + 2);
  expect(await read(entries)).toBe(1000);
  await database.close();
});

test('gathers statistics of tables that are new or have changed, and of no other', async () => {
  const database = await openPglite(undefined, { maxQuietMessages: 100, logCheckIntervalMs: 200 });
  const read = async (expression: string) =>
    (await database.query<{ value: number }>(`select (${expression})::integer as value`)).rows[0]?.value;
  const known = `select coalesce(max(c.reltuples), -1) from pg_class as c where c.relname = 'known'`;
  const analyzes = `select analyze_count from pg_stat_user_tables where relname = 'known'`;
  await database.execute(`
    create table public.known (n integer);
    insert into public.known select generate_series(1, 2000);
    select pg_stat_force_next_flush()`);
  await expect.poll(() => read(known), { timeout: 30_000, interval: 500 }).toBe(2000);
  const gathered = await read(analyzes);
  // Fewer than a tenth.
  await database.execute(
    'insert into public.known select 1 from generate_series(1, 100); select pg_stat_force_next_flush()',
  );
  await new Promise((done) => setTimeout(done, 1500));
  expect(await read(analyzes)).toBe(gathered);
  await database.execute(
    'insert into public.known select 1 from generate_series(1, 400); select pg_stat_force_next_flush()',
  );
  await expect.poll(() => read(known), { timeout: 30_000, interval: 500 }).toBe(2500);
  // Queries without a pause, except that timers run: only a table that doubles is worth the wait.
  await database.execute(
    'insert into public.known select 1 from generate_series(1, 5000); select pg_stat_force_next_flush()',
  );
  while ((await read(known)) !== 7500) await new Promise(setImmediate);
  await database.close();
});

test('rejects values that are nested too deeply, in a transaction and outside, and continues', async () => {
  const database = await openPglite();
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
  const asJson = 'select $1::jsonb is null as answer';
  const refusal = { name: 'DatabaseError', code: '22P02' };
  expect((await database.query(asJson, [nested(900)])).rows).toEqual([{ answer: false }]);
  // Accepted: brackets within a JSON string do not nest.
  const words = { said: `"\\${nested(6000)}${'['.repeat(30_000)}` };
  const { rows } = await database.query(`select $1::jsonb ->> 'said' as said`, [words]);
  expect(rows).toEqual([words]);
  for (const depth of [1001, 6000, 300_000]) {
    await expect(database.query(asJson, [nested(depth)])).rejects.toMatchObject(refusal);
    const inTransaction = database.transaction((session) => session.query(asJson, [nested(depth)]));
    await expect(inTransaction).rejects.toMatchObject(refusal);
    const asSetting = database.transaction((session) => session.query('select 1'), {
      settings: { 'request.headers': nested(depth) },
    });
    await expect(asSetting).rejects.toMatchObject(refusal);
    await expect(database.read(asJson, [nested(depth)], {})).rejects.toMatchObject(refusal);
    const asSettingOfRead = database.read('select 1', [], { 'request.headers': nested(depth) });
    await expect(asSettingOfRead).rejects.toMatchObject(refusal);
  }
  expect((await database.query('select 1 as answer')).rows).toEqual([{ answer: 1 }]);
  await database.close();
});

test('only the owner can access the database folder, even one created with other permissions', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'jani-pglite-'));
  const modeOf = async (path: string) => (await stat(join(folder, path))).mode & 0o777;
  const fresh = await openPglite(join(folder, 'data/database'), { isDurable: false });
  await fresh.close();
  expect([await modeOf('data'), await modeOf('data/database')]).toEqual([0o700, 0o700]);
  // As created by earlier versions.
  await chmod(join(folder, 'data/database'), 0o755);
  const again = await openPglite(join(folder, 'data/database'), { isDurable: false });
  await again.close();
  expect(await modeOf('data/database')).toBe(0o700);
  await rm(folder, { recursive: true });
});

test('releases the archive from which a new database was created', async () => {
  await promisify(execFile)(process.execPath, ['scripts/build/make-blank-database.mjs']);
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  const usedMb = () => {
    collectGarbage();
    return process.memoryUsage().arrayBuffers / 1024 / 1024;
  };
  const before = usedMb();
  const folder = await mkdtemp(join(tmpdir(), 'jani-pglite-'));
  const database = await openPglite(join(folder, 'database'), {
    isDurable: false,
    blanks: 'build/blank-database',
  });
  // The archive has about 40 MB.
  await expect.poll(() => usedMb() - before).toBeLessThan(10);
  await database.close();
  await rm(folder, { recursive: true });
});
