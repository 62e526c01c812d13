// Short runs of the scenarios of `npm run torture`.
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readInvariants } from '../scripts/databases/money-invariants.ts';
import { findPostgresql } from '../scripts/databases/throwaway-postgresql.ts';
import { root } from './environment/shop-process.ts';
import { kill } from './scenarios/kill.ts';
import { stopPostgresql } from './scenarios/postgresql-stop.ts';
import { soak } from './scenarios/soak.ts';

const hasPostgresql = (await findPostgresql()) !== null;
if (!hasPostgresql) console.warn('No PostgreSQL on this machine: the torture tests are skipped.');
const seed = 6;

describe.skipIf(!hasPostgresql)('the shop', () => {
  let logs: string;
  beforeAll(async () => {
    logs = await mkdtemp(join(tmpdir(), 'jani-torture-'));
    // The processes run the build.
    const built = spawnSync(process.execPath, [join(root, 'scripts/build.mjs')], { stdio: 'inherit' });
    expect(built.status).toBe(0);
  }, 300_000);
  afterAll(() => rm(logs, { recursive: true, force: true }));

  // Concurrent, as most of the time is spent waiting for queries to M-PESA.
  describe.concurrent('neither loses nor invents money', () => {
    test('with lost, duplicate and delayed callbacks, answers and queries', async () => {
      const { violations, figures } = await soak({
        seed,
        payments: 60,
        customers: 20,
        logs: join(logs, 'soak'),
      });
      expect(violations, JSON.stringify(violations)).toEqual([]);
      expect(figures['callbacks lost']).toBeGreaterThan(0);
      expect(figures['queries failed']).toBeGreaterThan(0);
      expect(figures.completed).toBeGreaterThan(30);
      expect(figures['presses: done']).toBeGreaterThan(0);
      expect(figures['payments in cash: completed']).toBeGreaterThan(0);
      expect(figures['cash collected by riders']).toBeGreaterThan(0);
    }, 240_000);

    test('when a process is killed, and finish open work within 30 seconds', async () => {
      const { violations, figures } = await kill({ seed, kills: 6, logs: join(logs, 'kill') });
      expect(violations, JSON.stringify(violations)).toEqual([]);
      expect(figures.kills).toBe(6);
    }, 240_000);

    test('when PostgreSQL is stopped, and it recovers by itself', async () => {
      const { violations, figures } = await stopPostgresql({
        seed,
        stops: 3,
        logs: join(logs, 'postgres-stop'),
      });
      expect(violations, JSON.stringify(violations)).toEqual([]);
      expect(figures.stops).toBe(3);
    }, 240_000);
  });
});

test('reads every invariant from the SQL file', async () => {
  const invariants = await readInvariants();
  expect(invariants.length).toBeGreaterThanOrEqual(46);
  expect(invariants.filter(({ isAtRest }) => isAtRest)).toHaveLength(6);
});
