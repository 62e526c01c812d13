// Behind PgBouncer in transaction mode, every transaction may get another server connection.

import { type Database, receivesNotifications } from '@jani-juice/backend/database';
import { openPostgresql } from '@jani-juice/backend/postgresql';
import { asRole } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { pgbouncer, startThrowawayPgbouncer } from '../../scripts/databases/throwaway-pgbouncer.ts';
import {
  type Cluster,
  findPostgresql,
  startThrowawayPostgresql,
} from '../../scripts/databases/throwaway-postgresql.ts';

const isPossible = pgbouncer !== undefined && (await findPostgresql()) !== null;
if (!isPossible)
  console.warn('PgBouncer or PostgreSQL is not installed: the tests behind a pooler are skipped.');

const serverConnections = 4;

describe.runIf(isPossible)('behind a pooler in transaction mode', () => {
  let cluster: Cluster;
  let pooler: Awaited<ReturnType<typeof startThrowawayPgbouncer>>;
  const open: Database[] = [];
  const openPooled = (listenUrl?: string) => {
    const database = openPostgresql(pooler.url, { listenUrl });
    open.push(database);
    return database;
  };

  beforeAll(async () => {
    cluster = await startThrowawayPostgresql();
    pooler = await startThrowawayPgbouncer(cluster.url, serverConnections);
  });
  afterAll(async () => {
    for (const database of open) await database.close();
    await pooler?.stop();
    await cluster?.stop();
  });

  test('receives notifications over the direct connection, not through the pooler', async () => {
    expect(await receivesNotifications(openPooled(cluster.url))).toBe(true);
    expect(await receivesNotifications(openPooled(), 500)).toBe(false);
  });

  test('three processes share few server connections, and every statement works', async () => {
    const processes = [openPooled(cluster.url), openPooled(cluster.url), openPooled(cluster.url)];
    await processes[0]?.execute(
      'create role anon nologin; create table public.hits (id bigserial, word text);',
    );
    await processes[0]?.execute(
      'grant all on all tables in schema public to anon; grant all on all sequences in schema public to anon',
    );
    const work = Array.from({ length: 300 }, async (_, index) => {
      const database = processes[index % 3] as Database;
      await asRole(database, { role: 'anon' }, (session) =>
        session.query('insert into public.hits (word) values ($1)', [`word ${index}`]),
      );
      const read = await database.read<{ role: string; words: number }>(
        'select current_user::text as role, count(*) as words from public.hits where word = $1',
        [`word ${index}`],
        { role: 'anon' },
      );
      expect(read.rows).toEqual([{ role: 'anon', words: 1 }]);
      const { rows } = await database.query<{ role: string }>('select current_user::text as role');
      expect(rows).toEqual([{ role: 'postgres' }]);
    });
    await Promise.all(work);
    const direct = openPostgresql(cluster.url, { poolSize: 1 });
    open.push(direct);
    const { rows } = await direct.query<{ count: number }>(
      `select count(*) from pg_stat_activity where application_name = 'backend' and pid <> pg_backend_pid()`,
    );
    expect(rows[0]?.count).toBeLessThanOrEqual(serverConnections);
  });

  test('named statements fail', async () => {
    const processes = [openPooled(), openPooled(), openPooled()];
    const work = Array.from({ length: 300 }, (_, index) =>
      processes[index % 3]?.query('select $1::int + 41', [index]),
    );
    const ends = await Promise.allSettled(work);
    expect(ends.some(({ status }) => status === 'rejected')).toBe(true);
  });
});
