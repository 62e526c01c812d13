// The long proofs in short: each as `npm run torture` runs it, for seconds instead of minutes.
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findPostgresql } from '../scripts/throwaway-postgresql.ts';
import { kill } from './kill.ts';
import { readPromises } from './money-invariants.ts';
import { stopPostgresql } from './postgres-stop.ts';
import { root } from './shop-process.ts';
import { soak } from './soak.ts';

const hasPostgresql = (await findPostgresql()) !== null;
if (!hasPostgresql) console.warn('No PostgreSQL on this machine: the torture is skipped.');
const seed = 6;

describe.skipIf(!hasPostgresql)('the shop', () => {
  let logs: string;
  beforeAll(async () => {
    logs = await mkdtemp(join(tmpdir(), 'jani-torture-'));
    // The processes run what is built.
    const built = spawnSync(process.execPath, [join(root, 'scripts/build.mjs')], { stdio: 'inherit' });
    expect(built.status).toBe(0);
  }, 300_000);
  afterAll(() => rm(logs, { recursive: true, force: true }));

  // At the same time: most of it is waiting for M-PESA to be asked.
  describe.concurrent('loses no money and invents none', () => {
    test('over roads that lose, double and delay notices, answers and questions', async () => {
      const { broken, figures } = await soak({ seed, payments: 60, customers: 20, logs: join(logs, 'soak') });
      expect(broken).toEqual([]);
      expect(figures['notices lost']).toBeGreaterThan(0);
      expect(figures['queries failed']).toBeGreaterThan(0);
      expect(figures.completed).toBeGreaterThan(30);
    }, 240_000);

    test('when a process is killed, and open work goes on within 30 seconds', async () => {
      const { broken, figures } = await kill({ seed, kills: 6, logs: join(logs, 'kill') });
      expect(broken).toEqual([]);
      expect(figures.kills).toBe(6);
    }, 240_000);

    test('when PostgreSQL is stopped under it, and it recovers by itself', async () => {
      const { broken, figures } = await stopPostgresql({ seed, stops: 3, logs: join(logs, 'postgres-stop') });
      expect(broken).toEqual([]);
      expect(figures.stops).toBe(3);
    }, 240_000);
  });
});

test('every promise about money is read from the file that tells them', async () => {
  const promises = await readPromises();
  expect(promises.length).toBeGreaterThanOrEqual(28);
  expect(promises.filter(({ isAtRest }) => isAtRest)).toHaveLength(6);
});
