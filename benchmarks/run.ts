// `npm run bench`: measures the shop beside yardsticks and, with `compare COMMIT`, beside another commit (README.md).
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startThrowawayPostgresql } from '../scripts/databases/throwaway-postgresql.ts';
import { hasFallen, lowestRatio, measureGroup } from './measure.ts';
import { coldPanel } from './measurements/cold-panel.ts';
import { benchGrowth, type GrowthRow, growthSetups } from './measurements/growth.ts';
import { measureOrderCost } from './measurements/order-cost.ts';
import { cachedPages, efforts, idleRows, listRows, type RowGroup } from './measurements/rows.ts';
import { measureStarts } from './measurements/start.ts';
import { describeResults, type Result, saveResults } from './results.ts';
import { type BenchShop, type Build, openBenchShop } from './shops/bench-shop.ts';
import { buildCommit, buildWorkTree } from './shops/other-commit.ts';
import { createDatabase, prepareTpcB, startBareServer } from './yardsticks/yardsticks.ts';

const { values: options, positionals: words } = parseArgs({
  allowPositionals: true,
  options: { save: { type: 'boolean', default: false }, only: { type: 'string', default: '' } },
});
const isTrial = words.includes('trial');
const effort = isTrial ? efforts.trial : efforts.full;
/** Whether a row, or one of several, is chosen. */
const isChosen = (names: string) => names.includes(options.only);
const results: Result[] = [];

if (words.includes('growth')) {
  results.push(...(await measureGrowth()));
} else {
  const commit = words[0] === 'compare' ? words[1] : undefined;
  if (words[0] === 'compare' && !commit) throw new Error('npm run bench -- compare COMMIT');
  await measureShops(buildWorkTree(), commit ? buildCommit(commit) : null);
}
console.log(`\n${describeResults(results)}`);
if (options.save) saveResults(results, isTrial);
const fallen = results.filter(hasFallen);
if (fallen.length > 0) {
  console.error(
    `\nBelow ${lowestRatio}:\n${fallen.map(({ row, database }) => `${database}: ${row}`).join('\n')}`,
  );
  process.exitCode = 1;
}

async function measureShops(build: Build, other: Build | null): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'jani-bench-'));
  const cluster = await startThrowawayPostgresql({});
  try {
    const tpcb = await prepareTpcB(cluster.url);
    for (const database of ['PostgreSQL', 'PGlite'] as const) {
      results.push(...(await measureOn(database, build, other, folder, cluster.url, tpcb)));
    }
    if (isChosen('ready after a start, processor time of a start'))
      results.push(...(await measureStarts(effort.rounds, cluster.url, build, other)));
  } finally {
    await cluster.stop();
    await rm(folder, { recursive: true, force: true });
  }
  if (isChosen('one order')) results.push(...(await measureOrderCost(isTrial ? 200 : 1000, build, other)));
}

/** Measures all rows on one of the databases, while both shops are open. */
async function measureOn(
  database: 'PostgreSQL' | 'PGlite',
  build: Build,
  other: Build | null,
  folder: string,
  clusterUrl: string,
  tpcb: (seconds: number) => Promise<number>,
): Promise<Result[]> {
  const isEmbedded = database === 'PGlite';
  const closers: (() => unknown)[] = [];
  const open = async (opened: Build, name: string) => {
    const dataDir = join(folder, `${database}-${name}`);
    const url = isEmbedded ? undefined : await createDatabase(clusterUrl, name);
    // The first start adds catalogue and account; memory and bare PGlite begin with what it leaves.
    await (await openBenchShop(opened, dataDir, url)).close();
    if (isEmbedded) await cp(join(dataDir, 'database'), join(dataDir, 'copy'), { recursive: true });
    const shop = await openBenchShop(opened, dataDir, url);
    closers.push(() => shop.close());
    return { shop, url, copy: join(dataDir, 'copy') };
  };
  const bare = async (...given: Parameters<typeof startBareServer>) => {
    const server = await startBareServer(...given);
    closers.push(() => server.stop());
    return server.url;
  };
  try {
    const now = await open(build, 'now');
    const before: BenchShop | null = other ? (await open(other, 'before')).shop : null;
    const measured: Result[] = [];
    const measure = async (group: RowGroup) => {
      const rows = group.rows.filter(({ name }) => isChosen(name));
      if (rows.length === 0) return;
      measured.push(...(await measureGroup(database, { ...group, rows }, effort.rounds, now.shop, before)));
    };
    await measure(idleRows(effort));
    // The network is what it measures: one database is enough.
    if (isEmbedded) {
      const cold = coldPanel();
      closers.push(cold.close);
      await measure(cold);
    }

    const sameBytes: Record<string, string> = {};
    for (const path of cachedPages)
      await fetch(`${now.shop.url}${path}`, { headers: { 'accept-encoding': 'br' } });
    // A cached page is compressed better after its first answer.
    await wait(2000);
    for (const path of cachedPages) {
      sameBytes[path] = await bare('yardstick-http.mjs', { SOURCE_URL: `${now.shop.url}${path}` });
    }
    const yardsticks = {
      listName: `bare ${isEmbedded ? 'PGlite' : 'pg'} behind node:http`,
      listUrl: await bare(
        'yardstick-list.mjs',
        now.url ? { DATABASE_URL: now.url } : { DATABASE_FOLDER: now.copy },
      ),
      httpUrl: await bare('yardstick-http.mjs', {}),
      sameBytes,
      tpcb,
    };
    for (const group of listRows(effort, yardsticks)) await measure(group);
    return measured;
  } finally {
    for (const close of closers.reverse()) await close();
  }
}

/** Ratios of the large shop to the small one. */
async function measureGrowth(): Promise<Result[]> {
  const setups = growthSetups.filter((setup) => words.includes(setup));
  const rows: GrowthRow[] = await benchGrowth(
    {
      small: { orders: 3_000, products: 30 },
      large: isTrial ? { orders: 9_000, products: 300 } : { orders: 100_000, products: 10_000 },
    },
    isTrial ? 3 : 60,
    setups.length > 0 ? setups : growthSetups,
    isChosen,
  );
  return rows.map(({ name, smallMs, largeMs }) => ({
    row: `growth: ${name}`,
    database: '',
    value: largeMs,
    unit: 'ms',
    isCost: true,
    yardstick: { name: 'small shop', value: smallMs, ratio: smallMs / largeMs },
  }));
}
