// Starts of the shop, as `npm start` makes them, compared with a bare PGlite on the same files.
import { execFile, spawn } from 'node:child_process';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { freePort } from '../../scripts/tests/free-port.ts';
import { startArgumentsOf } from '../../scripts/tests/start-arguments.ts';
import { summarise } from '../measure.ts';
import type { Result } from '../results.ts';
import { type Build, processorSecondsOf } from '../shops/bench-shop.ts';
import { createDatabase } from '../yardsticks/yardsticks.ts';

interface Cost {
  /** Until it is ready. */
  elapsed: number;
  processor: number;
}

/** Folders of a round, in which both builds start. */
type Kind = 'new folder' | 'used folder' | 'PostgreSQL';

/**
 * Measures starts of each build and of a bare PGlite alternately, each in its own process.
 * @param clusterUrl where the shops have databases of their own
 */
export async function measureStarts(
  rounds: number,
  clusterUrl: string,
  build: Build,
  other: Build | null,
): Promise<Result[]> {
  const costs: Record<Kind, { value: Cost; other?: Cost; yardstick?: Cost }[]> = {
    'new folder': [],
    'used folder': [],
    PostgreSQL: [],
  };
  const builds = other ? [build, other] : [build];
  const folder = await mkdtemp(join(tmpdir(), 'jani-bench-start-'));
  try {
    const databases = new Map<Build, string>();
    for (const each of builds) {
      const url = await createDatabase(clusterUrl, `start_${builds.indexOf(each)}`);
      databases.set(each, url);
      // Migrates it.
      await startShop(each, join(folder, `on-${builds.indexOf(each)}`), url);
    }
    for (let round = 0; round < rounds; round += 1) {
      const files = join(folder, String(round));
      const measured: Record<Kind, Cost[]> = { 'new folder': [], 'used folder': [], PostgreSQL: [] };
      for (const [index, each] of builds.entries()) {
        const dataDir = join(files, String(index));
        measured['new folder'].push(await startShop(each, dataDir, ''));
        measured['used folder'].push(await startShop(each, dataDir, ''));
        measured.PostgreSQL.push(
          await startShop(each, join(folder, `on-${index}`), databases.get(each) ?? ''),
        );
      }
      await cp(join(files, '0/database'), join(files, 'copy'), { recursive: true });
      const sticks = {
        'new folder': await startPglite(join(files, 'bare')),
        'used folder': await startPglite(join(files, 'copy')),
        PostgreSQL: undefined,
      };
      for (const kind of Object.keys(costs) as Kind[]) {
        const [value, before] = measured[kind];
        const yardstick = sticks[kind];
        if (value)
          costs[kind].push({
            value,
            ...(before ? { other: before } : {}),
            ...(yardstick ? { yardstick } : {}),
          });
      }
      await rm(files, { recursive: true, force: true });
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return (Object.keys(costs) as Kind[]).flatMap((kind) =>
    (['elapsed', 'processor'] as const).map((figure) => {
      const database = kind === 'PostgreSQL' ? kind : 'PGlite';
      const where = kind === 'PostgreSQL' ? '' : ` on a ${kind}`;
      const name = figure === 'elapsed' ? `ready after a start${where}` : `processor time of a start${where}`;
      const seconds = costs[kind].map((cost) => ({
        value: cost.value[figure],
        ...(cost.other ? { other: cost.other[figure] } : {}),
        ...(cost.yardstick ? { yardstick: cost.yardstick[figure] } : {}),
      }));
      const yardstick = kind === 'PostgreSQL' ? undefined : 'bare PGlite';
      return summarise(database, { name, unit: 's', isCost: true }, seconds, yardstick, other?.name);
    }),
  );
}

async function startShop(build: Build, dataDir: string, databaseUrl: string): Promise<Cost> {
  const port = await freePort();
  const environment = { PORT: String(port), SIMULATOR_PORT: String(await freePort()), DATA_DIR: dataDir };
  const began = performance.now();
  const child = spawn(process.execPath, startArgumentsOf(build.root), {
    cwd: build.root,
    env: { ...process.env, ...environment, DATABASE_URL: databaseUrl },
    stdio: 'ignore',
  });
  const ended = new Promise((done) => child.once('exit', done));
  try {
    const isReady = () =>
      fetch(`http://127.0.0.1:${port}/readyz`).then(
        ({ ok }) => ok,
        () => false,
      );
    while (!(await isReady())) {
      if (child.exitCode !== null) throw new Error(`the shop of ${build.name} exited`);
      await wait(5);
    }
    return {
      elapsed: (performance.now() - began) / 1000,
      processor: await processorSecondsOf(child.pid ?? Number.NaN),
    };
  } finally {
    child.kill();
    await ended;
  }
}

async function startPglite(folder: string): Promise<Cost> {
  const began = performance.now();
  const program = fileURLToPath(new URL('../yardsticks/yardstick-start.mjs', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [program, folder]);
  return { elapsed: (performance.now() - began) / 1000, processor: Number(stdout) };
}
