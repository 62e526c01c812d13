// `npm run bench`: each row measures the shop and a yardstick alternately and prints their ratio.
import { fork } from 'node:child_process';
import { openShop } from '../scripts/open-shop.ts';
import { startThrowawayPostgresql } from '../scripts/throwaway-postgresql.ts';
import { benchGrowth, type GrowthRow, growthSetups } from './growth.ts';
import { benchLite } from './lite.ts';
import { compare, type Load, load, type Row } from './load.ts';
import { benchOrderSearch } from './order-search.ts';
import { benchProductSearch } from './product-search.ts';
import { benchStart, type StartRow } from './start.ts';
import { benchWork, type MemoryRow } from './work-per-request.ts';

const rows: Row[] = [];
const starts: StartRow[] = [];
const growth: GrowthRow[] = [];
const memory: MemoryRow[] = [];
const parts = process.argv.slice(2);
if (parts.length === 0 || parts.includes('storefront')) await benchStorefront();
if (parts.length === 0 || parts.includes('lite')) rows.push(...(await benchLite()));
if (parts.length === 0 || parts.includes('orders')) {
  // Shorter rounds, because this part has many rows.
  const isTrial = parts.includes('trial');
  rows.push(
    ...(await benchOrderSearch(isTrial ? [1_000, 10_000] : [1_000, 10_000, 100_000], {
      rounds: isTrial ? 1 : 3,
      seconds: 1,
    })),
  );
}
if (parts.length === 0 || parts.includes('search')) {
  const isTrial = parts.includes('trial');
  rows.push(
    ...(await benchProductSearch(isTrial ? [10_000] : [1_000, 10_000], {
      rounds: isTrial ? 1 : 3,
      seconds: 1,
    })),
  );
}
if (parts.length === 0 || parts.includes('work')) {
  const isTrial = parts.includes('trial');
  const work = await benchWork(isTrial ? 1 : 3, isTrial ? 2 : 8, isTrial ? 500 : 20_000);
  rows.push(...work.rows);
  memory.push(...work.memory);
}
if (parts.length === 0 || parts.includes('start')) {
  starts.push(...(await benchStart(parts.includes('trial') ? 1 : 5)));
}
if (parts.length === 0 || parts.includes('growth')) {
  const isTrial = parts.includes('trial');
  const setups = growthSetups.filter((setup) => parts.includes(setup));
  growth.push(
    ...(await benchGrowth(
      {
        small: { orders: 3_000, products: 30 },
        large: isTrial ? { orders: 9_000, products: 300 } : { orders: 100_000, products: 10_000 },
      },
      isTrial ? 3 : 60,
      setups.length > 0 ? setups : growthSetups,
    )),
  );
}

async function benchStorefront(): Promise<void> {
  const cluster = await startThrowawayPostgresql({});
  const shop = await openShop({ DATABASE_URL: cluster.url });
  try {
    const { publishable } = await shop.keys();

    const plain = await yardstick('yardstick-pg.mjs', 4701, { DATABASE_URL: cluster.url });
    const list = `${shop.url}/rest/v1/products?select=*&is_active=eq.true&order=created_at.desc`;
    const products = await compare(
      () => load(list, { apikey: publishable }),
      () => load(plain.url),
    );
    rows.push({ name: 'products list: /rest/v1 over pg behind node:http (PostgreSQL)', ...products });
    plain.stop();

    const bytes = await yardstick('yardstick-static.mjs', 4702, { SOURCE_URL: `${shop.url}/shop` });
    const page = await compare(
      () => load(`${shop.url}/shop`, { 'accept-encoding': 'br' }),
      () => load(bytes.url, { 'accept-encoding': 'br' }),
    );
    rows.push({ name: 'shop page: cached page over a bare node:http with the same bytes', ...page });
    bytes.stop();
  } finally {
    await shop.close();
    await cluster.stop();
  }
}

if (starts.length > 0) {
  console.log(
    '\n| row | shop, processor (wall) | yardstick, processor (wall) | ratio by processor |\n|---|---|---|---|',
  );
  const cost = ({ seconds, processorSeconds }: StartRow['subject']) =>
    `${processorSeconds.toFixed(2)} s (${seconds.toFixed(2)} s)`;
  for (const { name, subject, yardstick: stick } of starts) {
    const ratio = subject.processorSeconds / stick.processorSeconds;
    console.log(`| ${name} | ${cost(subject)} | ${cost(stick)} | ${ratio.toFixed(2)} |`);
  }
}
if (memory.length > 0) console.log('\n| memory | idle | after the load |\n|---|---|---|');
for (const { name, idleMb, afterMb } of memory) {
  console.log(`| ${name} | ${idleMb.toFixed(0)} MB | ${afterMb.toFixed(0)} MB |`);
}
if (growth.length > 0) console.log('\n| point | small shop | large shop | ratio |\n|---|---|---|---|');
for (const { name, smallMs, largeMs } of growth) {
  console.log(
    `| ${name} | ${smallMs.toFixed(2)} ms | ${largeMs.toFixed(2)} ms | ${(largeMs / smallMs).toFixed(2)} |`,
  );
}
const cell = ({ requestsPerSecond, p50Ms, p99Ms }: Load) =>
  `${Math.round(requestsPerSecond)}/s, p50 ${p50Ms.toFixed(2)} ms${Number.isNaN(p99Ms) ? '' : `, p99 ${p99Ms.toFixed(2)} ms`}`;
if (rows.length > 0) console.log('\n| row | shop | yardstick | ratio |\n|---|---|---|---|');
for (const { name, subject, yardstick: stick, ratio } of rows) {
  console.log(`| ${name} | ${cell(subject)} | ${cell(stick)} | ${ratio.toFixed(ratio < 0.01 ? 5 : 2)} |`);
}

/** Starts a yardstick in its own process. */
function yardstick(file: string, port: number, environment: Record<string, string>) {
  const child = fork(new URL(file, import.meta.url), {
    execArgv: [],
    env: { ...process.env, ...environment, NODE_ENV: 'production', PORT: String(port) },
  });
  return new Promise<{ url: string; stop(): void }>((done, fail) => {
    child.once('exit', (code) => fail(new Error(`${file} ended with ${code}`)));
    child.once('message', () => done({ url: `http://127.0.0.1:${port}/`, stop: () => void child.kill() }));
  });
}
