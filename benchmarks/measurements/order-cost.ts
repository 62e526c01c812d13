// What one order costs on PostgreSQL, counted: it depends little on the machine and its load.
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { findPostgresql, startThrowawayPostgresql } from '../../scripts/databases/throwaway-postgresql.ts';
import type { Result } from '../results.ts';
import { type BenchShop, type Build, openBenchShop, processorSecondsOf } from '../shops/bench-shop.ts';
import { placeOrder, totalOf } from './payments.ts';

const run = promisify(execFile);

/** Units of the figures of one order; less is better. */
const units = {
  'round trips': '',
  statements: '',
  'nested statements': '',
  'index entries': '',
  'WAL records': '',
  'WAL without full pages': 'kB',
  'processor time of Node.js': 'ms',
  'processor time of PostgreSQL': 'ms',
} as const;
type Cost = Record<keyof typeof units, number>;

/**
 * Places orders one after the other in a shop of each build.
 * @param other of the commit that the work tree is compared with
 */
export async function measureOrderCost(orders: number, build: Build, other: Build | null): Promise<Result[]> {
  const cost = await costOf(build, orders);
  const costBefore = other ? await costOf(other, orders) : null;
  return Object.entries(units).map(([name, unit]) => {
    const figure = name as keyof Cost;
    return {
      row: `one order: ${name}`,
      database: 'PostgreSQL',
      value: cost[figure],
      unit,
      isCost: true,
      ...(other && costBefore ? { beside: { [other.name]: costBefore[figure] / cost[figure] } } : {}),
    };
  });
}

async function costOf(build: Build, orders: number): Promise<Cost> {
  // The module is part of PostgreSQL's contrib, and used in this cluster alone.
  const cluster = await startThrowawayPostgresql({
    shared_preload_libraries: 'pg_stat_statements',
    'pg_stat_statements.track': 'all',
    autovacuum: 'off',
    checkpoint_timeout: '1h',
  });
  const counter = await countRoundTrips(cluster.url);
  const dataDir = await mkdtemp(join(tmpdir(), 'jani-bench-cost-'));
  let shop: BenchShop | null = null;
  const client = new pg.Client({ connectionString: cluster.url });
  try {
    shop = await openBenchShop(build, dataDir, counter.url);
    const total = await totalOf(shop);
    await client.connect();
    await client.query('create schema counters; create extension pg_stat_statements schema counters');
    const { rows } = await client.query('show data_directory');
    const folder: string = rows[0].data_directory;
    // The first orders fill caches and are compiled.
    for (let placed = 0; placed < orders / 2; placed += 1) await placeOrder(shop, total);

    const started = await positionOf(client);
    const roundTripsBefore = counter.roundTrips();
    const processorBefore = await processorSeconds(shop, client, folder);
    await client.query('select counters.pg_stat_statements_reset()');
    for (let placed = 0; placed < orders; placed += 1) await placeOrder(shop, total);
    const roundTrips = counter.roundTrips() - roundTripsBefore;
    const processor = await processorSeconds(shop, client, folder);
    // Without the statements of jobs, which run between the orders.
    const { rows: statements } = await client.query(
      `select toplevel, sum(calls)::int as calls from counters.pg_stat_statements where calls >= $1 group by toplevel`,
      [orders / 2],
    );
    const callsOf = (isTopLevel: boolean) =>
      statements.find(({ toplevel }) => toplevel === isTopLevel)?.calls ?? Number.NaN;
    const wal = await readWal(folder, started, await positionOf(client));
    const each: Cost = {
      'round trips': roundTrips,
      statements: callsOf(true),
      'nested statements': callsOf(false),
      'index entries': wal.indexEntries,
      'WAL records': wal.records,
      'WAL without full pages': wal.bytes / 1000,
      'processor time of Node.js': (processor.node - processorBefore.node) * 1000,
      'processor time of PostgreSQL': (processor.postgresql - processorBefore.postgresql) * 1000,
    };
    return Object.fromEntries(Object.entries(each).map(([name, sum]) => [name, sum / orders])) as Cost;
  } finally {
    await client.end();
    await shop?.close();
    counter.stop();
    await cluster.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
}

async function positionOf(client: pg.Client): Promise<string> {
  const { rows } = await client.query('select pg_current_wal_flush_lsn() as position');
  return rows[0].position;
}

/** Processor time of the shop's process and of all processes of the cluster that serve it. */
async function processorSeconds(shop: BenchShop, client: pg.Client, dataFolder: string) {
  const { rows } = await client.query<{ pid: number }>(
    'select pid from pg_stat_activity where pid <> pg_backend_pid()',
  );
  const each = await Promise.all(rows.map(({ pid }) => processorSecondsOf(pid)));
  const [postmaster] = (await readFile(join(dataFolder, 'postmaster.pid'), 'utf8')).split('\n');
  // Connections may have been closed since.
  const ended = await processorSecondsOf(Number(postmaster), 'ended children');
  return {
    node: await processorSecondsOf(shop.pid),
    postgresql: each.reduce((sum, seconds) => sum + seconds, ended),
  };
}

/** Counts records between two positions, with PostgreSQL's own program. */
async function readWal(dataFolder: string, from: string, until: string) {
  const program = join((await findPostgresql()) ?? '', 'pg_waldump');
  const { stdout } = await run(program, [
    ...['--stats=record', '--path', join(dataFolder, 'pg_wal'), '--start', from, '--end', until],
  ]);
  // Kind, records with their share, bytes without full pages.
  const kinds = [...stdout.matchAll(/^(\S+)\s+(\d+)\s+(?:\([^)]*\)\s+)?(\d+)/gm)].map(
    ([, kind = '', records, bytes]) => ({
      kind,
      records: Number(records),
      bytes: Number(bytes),
    }),
  );
  const total = kinds.find(({ kind }) => kind === 'Total');
  const insertions = kinds.filter(({ kind }) =>
    /^(?:Btree\/(?:INSERT_LEAF|INSERT_POST|SPLIT_[LR])|Hash\/INSERT|Gin\/(?:INSERT|UPDATE_META_PAGE))$/.test(
      kind,
    ),
  );
  return {
    records: total?.records ?? Number.NaN,
    bytes: total?.bytes ?? Number.NaN,
    indexEntries: insertions.reduce((sum, { records }) => sum + records, 0),
  };
}

/** A proxy before PostgreSQL that counts how often the shop sends something after an answer. */
async function countRoundTrips(databaseUrl: string) {
  const target = new URL(databaseUrl);
  let roundTrips = 0;
  const server = createServer((fromShop) => {
    const database = connect({ port: Number(target.port), host: target.hostname, noDelay: true });
    fromShop.setNoDelay(true);
    let isAnswered = true;
    fromShop.on('data', () => {
      if (isAnswered) roundTrips += 1;
      isAnswered = false;
    });
    database.on('data', () => {
      isAnswered = true;
    });
    fromShop.pipe(database).pipe(fromShop);
    fromShop.on('error', () => database.destroy());
    database.on('error', () => fromShop.destroy());
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const url = new URL(databaseUrl);
  url.port = String(address.port);
  return { url: url.href, roundTrips: () => roundTrips, stop: () => void server.close() };
}
