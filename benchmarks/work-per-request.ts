// The two costliest requests of a visitor under load: an order, beside PostgreSQL's own TPC-B, and a page that is not cached,
// beside a bare `node:http`; and the memory of the process before and after.
import { execFile, fork } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { freePort } from '../scripts/free-port.ts';
import { openShop } from '../scripts/open-shop.ts';
import { findPostgresql, startThrowawayPostgresql } from '../scripts/throwaway-postgresql.ts';
import { compare, load, type Row } from './load.ts';

const run = promisify(execFile);
const clients = 8;

export interface MemoryRow {
  name: string;
  idleMb: number;
  afterMb: number;
}

/**
 * Measures shops on PostgreSQL and on PGlite.
 * @param rounds of each row: subject and yardstick alternately
 * @param seconds of each load
 * @param unpaidOrders of other networks, for the row with many
 */
export async function benchWork(
  rounds: number,
  seconds: number,
  unpaidOrders: number,
): Promise<{ rows: Row[]; memory: MemoryRow[] }> {
  const rows: Row[] = [];
  const memory: MemoryRow[] = [];
  const folder = await mkdtemp(join(tmpdir(), 'jani-bench-'));
  const cluster = await startThrowawayPostgresql({});
  try {
    const tpcb = await prepareTpcB(cluster.url, seconds);
    for (const [database, settings] of [
      ['PostgreSQL', { DATABASE_URL: cluster.url }],
      ['PGlite', {}],
    ] as const) {
      const shop = await openShop({ ...settings, TRUSTED_PROXIES: '1' });
      try {
        const { publishable, secret } = await shop.keys();
        await settle();
        const idleMb = await residentMb(shop.pid());
        const script = join(folder, 'orders.lua');
        const placeOrders = (duration = seconds) =>
          load(
            `${shop.url}/rest/v1/rpc/place_order`,
            {},
            { seconds: duration, connections: clients, script },
          );
        await addProduct(shop.url, secret);
        await writeFile(script, ordersScript(publishable));

        const name = `place_order, ${clients} clients, over TPC-B (${database})`;
        rows.push({ name, ...(await compare(() => placeOrders(), tpcb, rounds)) });
        for (let placed = await countOrders(shop.url, secret); placed < unpaidOrders; ) {
          await placeOrders(10);
          placed = await countOrders(shop.url, secret);
        }
        const many = `the same beside ${unpaidOrders.toLocaleString('en')} unpaid orders or more (${database})`;
        rows.push({ name: many, ...(await compare(() => placeOrders(), tpcb, rounds)) });

        const plain = await serveSameBytes(`${shop.url}/shop?search=mango`);
        const searches = join(folder, 'searches.lua');
        await writeFile(searches, searchesScript());
        const page = await compare(
          () => load(shop.url, {}, { seconds, script: searches }),
          () => load(plain.url, { 'accept-encoding': 'br' }, { seconds }),
          rounds,
        );
        plain.stop();
        rows.push({ name: `/shop with a search, not cached, over a bare node:http (${database})`, ...page });
        await settle();
        memory.push({
          name: `memory of the process (${database})`,
          idleMb,
          afterMb: await residentMb(shop.pid()),
        });
      } finally {
        await shop.close();
      }
    }
  } finally {
    await cluster.stop();
    await rm(folder, { recursive: true, force: true });
  }
  return { rows, memory };
}

/** Each order has a network, a phone and a key of its own, so that no limit of one customer counts. */
function ordersScript(publishable: string): string {
  return `
math.randomseed(os.time() + math.floor(os.clock() * 1000000))
local function digits(count)
  local text = ''
  for _ = 1, count do text = text .. math.random(0, 9) end
  return text
end
request = function()
  local body = '{"idempotency_key":"' .. digits(8) .. '-' .. digits(4) .. '-4' .. digits(3) .. '-8' .. digits(3) .. '-' .. digits(12) ..
    '","product_id":"${productId}","quantity":1,"customer_name":"Amina Kamau","customer_email":"a' .. digits(9) ..
    '@mail.example","customer_phone":"07' .. digits(8) .. '","delivery_location":"Westlands","expected_total":95100}'
  return wrk.format('POST', nil, {
    ['content-type'] = 'application/json', apikey = '${publishable}',
    ['x-forwarded-for'] = math.random(11, 99) .. '.' .. math.random(0, 255) .. '.' .. math.random(0, 255) .. '.' .. math.random(1, 254),
  }, body)
end`;
}

function searchesScript(): string {
  return `
local round = os.time() * 1000
request = function()
  round = round + 1
  return wrk.format('GET', '/shop?search=mango%20' .. round, { ['accept-encoding'] = 'br',
    ['x-forwarded-for'] = math.random(11, 99) .. '.' .. math.random(0, 255) .. '.' .. math.random(0, 255) .. '.7' })
end`;
}

const productId = 'bbbbbbbb-0000-4000-8000-00000000000b';

async function addProduct(url: string, secret: string): Promise<void> {
  const answer = await fetch(`${url}/rest/v1/products`, {
    method: 'POST',
    headers: { apikey: secret, 'content-type': 'application/json' },
    body: JSON.stringify({
      id: productId,
      name: 'Bench',
      slug: 'bench',
      price: 95_000,
      stock_quantity: 1_000_000,
    }),
  });
  if (!answer.ok) throw new Error(`the product was not added: ${await answer.text()}`);
}

async function countOrders(url: string, secret: string): Promise<number> {
  const answer = await fetch(`${url}/rest/v1/orders?select=id`, {
    method: 'HEAD',
    headers: { apikey: secret, prefer: 'count=exact' },
  });
  return Number(answer.headers.get('content-range')?.split('/')[1]);
}

/** PostgreSQL's own benchmark in a database beside the shop's: five statements in a transaction. */
async function prepareTpcB(url: string, seconds: number) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query('create database tpcb');
  await client.end();
  const pgbench = join((await findPostgresql()) ?? '', 'pgbench');
  const { hostname, port, username } = new URL(url);
  const to = ['-h', hostname, '-p', port, '-U', username];
  await run(pgbench, ['-i', '-q', '-s', '10', ...to, 'tpcb']);
  return async () => {
    const { stdout } = await run(pgbench, [
      '-c',
      String(clients),
      '-j',
      '2',
      '-T',
      String(seconds),
      ...to,
      'tpcb',
    ]);
    const perSecond = Number(/tps = ([\d.]+)/.exec(stdout)?.[1]);
    const p50Ms = Number(/latency average = ([\d.]+)/.exec(stdout)?.[1]);
    return { requestsPerSecond: perSecond, p50Ms, p99Ms: Number.NaN };
  };
}

function serveSameBytes(sourceUrl: string) {
  return freePort().then((port) => {
    const child = fork(new URL('yardstick-static.mjs', import.meta.url), {
      execArgv: [],
      env: { ...process.env, NODE_ENV: 'production', PORT: String(port), SOURCE_URL: sourceUrl },
    });
    return new Promise<{ url: string; stop(): void }>((done, fail) => {
      child.once('exit', (code) => fail(new Error(`the yardstick ended with ${code}`)));
      child.once('message', () => done({ url: `http://127.0.0.1:${port}/`, stop: () => void child.kill() }));
    });
  });
}

/** Waits until the work after a load or a start is done: garbage, caches, jobs. */
const settle = () => new Promise((done) => setTimeout(done, 20_000));

async function residentMb(pid: number | undefined): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
}
