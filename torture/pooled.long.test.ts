// Short runs of the scenarios with several processes behind PgBouncer in transaction mode.
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { pgbouncer } from '../scripts/databases/throwaway-pgbouncer.ts';
import { findPostgresql } from '../scripts/databases/throwaway-postgresql.ts';
import { openPooledShops } from './environment/pooled-shops.ts';
import { root } from './environment/shop-process.ts';
import { pooled } from './scenarios/pooled.ts';
import { rolling } from './scenarios/rolling.ts';
import { trackers } from './scenarios/trackers.ts';

const isPossible = pgbouncer !== undefined && (await findPostgresql()) !== null;
if (!isPossible)
  console.warn('PgBouncer or PostgreSQL is not installed: the tests behind a pooler are skipped.');

describe.runIf(isPossible)('several processes behind a pooler', () => {
  let logs: string;
  beforeAll(async () => {
    logs = await mkdtemp(join(tmpdir(), 'jani-torture-'));
    // The processes run the build.
    const built = spawnSync(process.execPath, [join(root, 'scripts/build.mjs')], { stdio: 'inherit' });
    expect(built.status).toBe(0);
  }, 300_000);
  afterAll(() => rm(logs, { recursive: true, force: true }));

  test('do not start without notifications', async () => {
    const opened = openPooledShops(join(logs, 'unlistening'), { processes: 1, isListening: false });
    await expect(opened).rejects.toThrow(/Set DATABASE_LISTEN_URL to the address of the database/);
  }, 300_000);

  test('settle every payment once and update every tracker despite a kill', async () => {
    const { violations, figures } = await pooled({ orders: 30, logs: join(logs, 'pooled') });
    expect(violations, JSON.stringify(violations)).toEqual([]);
    expect(figures['paid once']).toBe(figures.prompts);
    // Connections are identified by name. A short run may have only short-lived ones.
    expect(figures['connections at any moment, most']).toBeGreaterThan(0);
  }, 600_000);

  test('are updated one after another without a failed page, file or order', async () => {
    const { violations, figures } = await rolling({ orders: 20, logs: join(logs, 'rolling') });
    expect(violations, JSON.stringify(violations)).toEqual([]);
    expect(figures['files read']).toBeGreaterThan(100);
  }, 600_000);

  test('show every tracker the final status of its order', async () => {
    const { violations, figures } = await trackers({
      trackers: 100,
      updatesPerSecond: 25,
      p95LimitMs: Number.POSITIVE_INFINITY,
      logs: join(logs, 'trackers'),
    });
    expect(violations, JSON.stringify(violations)).toEqual([]);
    expect(figures.updates).toBe(200);
  }, 600_000);
});
