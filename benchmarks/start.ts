// Cost of a start, on a new folder and on a used one, compared with a bare PGlite on the same files.
import { execFile, spawn } from 'node:child_process';
import { cp, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { freePort } from '../scripts/free-port.ts';
import { until } from '../scripts/open-shop.ts';
import { startArguments } from '../scripts/start-arguments.ts';

interface Cost {
  /** Elapsed time until it is ready. */
  seconds: number;
  processorSeconds: number;
}

export interface StartRow {
  name: string;
  subject: Cost;
  yardstick: Cost;
}

/**
 * Measures starts of subject and yardstick alternately, each in its own process. Reads /proc, so it needs Linux.
 * @returns the medians
 */
export async function benchStart(rounds: number): Promise<StartRow[]> {
  // Otherwise the first start would build.
  await promisify(execFile)(process.execPath, ['scripts/build.mjs']);
  const costs = {
    newShop: [] as Cost[],
    usedShop: [] as Cost[],
    newLite: [] as Cost[],
    usedLite: [] as Cost[],
  };
  for (let round = 0; round < rounds; round += 1) {
    const folder = await mkdtemp(join(tmpdir(), 'jani-bench-start-'));
    try {
      costs.newShop.push(await startShop(join(folder, 'data')));
      costs.newLite.push(await startLite(join(folder, 'lite')));
      await cp(join(folder, 'data/database'), join(folder, 'copy'), { recursive: true });
      costs.usedShop.push(await startShop(join(folder, 'data')));
      costs.usedLite.push(await startLite(join(folder, 'copy')));
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
  return [
    {
      name: 'start on a new folder: the shop over a bare PGlite',
      subject: median(costs.newShop),
      yardstick: median(costs.newLite),
    },
    {
      name: 'start on a used folder: the shop over a bare PGlite',
      subject: median(costs.usedShop),
      yardstick: median(costs.usedLite),
    },
  ];
}

async function startShop(dataDir: string): Promise<Cost> {
  const port = await freePort();
  const environment = { PORT: String(port), SIMULATOR_PORT: String(await freePort()), DATA_DIR: dataDir };
  const began = performance.now();
  const child = spawn(process.execPath, startArguments, {
    env: { ...process.env, ...environment, DATABASE_URL: '' },
    stdio: 'ignore',
  });
  const ended = new Promise((done) => child.once('exit', done));
  try {
    await until(async () => {
      if (child.exitCode !== null) throw new Error('the shop exited');
      return (await fetch(`http://localhost:${port}/readyz`)).ok;
    }, 'the shop is ready');
    return {
      seconds: (performance.now() - began) / 1000,
      processorSeconds: await processorSecondsOf(child.pid),
    };
  } finally {
    child.kill();
    await ended;
  }
}

async function startLite(folder: string): Promise<Cost> {
  const began = performance.now();
  const program = fileURLToPath(new URL('yardstick-pglite.mjs', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [program, folder]);
  return { seconds: (performance.now() - began) / 1000, processorSeconds: Number(stdout) };
}

/** Processor time of all threads; Linux counts in hundredths of a second. */
async function processorSecondsOf(pid: number | undefined): Promise<number> {
  const status = await readFile(`/proc/${pid}/stat`, 'utf8');
  // The program's name, in brackets before it, may contain spaces.
  const fields = status.slice(status.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

function median(costs: Cost[]): Cost {
  const middleOf = (values: number[]) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
  return {
    seconds: middleOf(costs.map(({ seconds }) => seconds)),
    processorSeconds: middleOf(costs.map(({ processorSeconds }) => processorSeconds)),
  };
}
