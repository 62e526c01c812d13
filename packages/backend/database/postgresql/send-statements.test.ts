import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { platform, testDatabases, throwawayDatabase } from '../../testing/throwaway.ts';
import { readAsRole } from '../as-role.ts';
import type { Database } from '../database.ts';

describe.each(testDatabases().filter((kind) => kind !== 'pglite'))('reads of one turn on %s', (kind) => {
  let database: Database;
  beforeAll(async () => {
    database = await throwawayDatabase(kind, [platform]);
  });
  afterAll(() => database.close());

  const read = (sql: string, isShort: boolean, role = 'anon') =>
    readAsRole<Record<string, unknown>>(database, { role }, { sql, parameters: [] }, { isShort });
  const connectionsOf = async (reads: ReturnType<typeof read>[]) =>
    new Set((await Promise.all(reads)).map(({ rows }) => rows[0]?.pid));

  test('short ones share connections, others do not', async () => {
    const sql = 'select pg_backend_pid() as pid from pg_sleep(0.02)';
    const short = await connectionsOf(Array.from({ length: 8 }, () => read(sql, true)));
    expect(short.size).toBe(2);
    const long = await connectionsOf(Array.from({ length: 8 }, () => read(sql, false)));
    expect(long.size).toBe(8);
  });

  test('each has its own transaction, role and failure', async () => {
    const sql = 'select current_user::text as role, txid_current_if_assigned() as writes';
    const [first, failed, denied, last] = await Promise.allSettled([
      read(sql, true, 'anon'),
      read('select 1 / 0', true),
      read('create table public.anything ()', true),
      read(sql, true, 'authenticated'),
    ]);
    expect(first).toMatchObject({ value: { rows: [{ role: 'anon', writes: null }] } });
    expect(failed).toMatchObject({ reason: { code: '22012' } });
    expect(denied.status).toBe('rejected');
    expect(last).toMatchObject({ value: { rows: [{ role: 'authenticated', writes: null }] } });
  });

  test('all fail when their connection breaks, and later ones get another', async () => {
    const reads = Array.from({ length: 3 }, () => read('select pg_sleep(60)', true));
    const settled = Promise.allSettled(reads);
    await expect
      .poll(async () => {
        const { rows } = await database.query<{ ended: boolean }>(
          `select pg_terminate_backend(pid) as ended from pg_stat_activity where query like 'select pg_sleep(60)' and datname = current_database()`,
        );
        return rows.length;
      })
      .toBe(1);
    expect((await settled).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect((await read('select 1 as one', true)).rows).toEqual([{ one: 1 }]);
  });
});
