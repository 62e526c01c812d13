// The shop's product list compared with the same list behind @supabase/lite, on PGlite and on PostgreSQL. Lite is downloaded for
// the run: it is no dependency of the shop.
import { execFile, spawn } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { freePort } from '../scripts/free-port.ts';
import { openShop, until } from '../scripts/open-shop.ts';
import { startThrowawayPostgresql } from '../scripts/throwaway-postgresql.ts';
import { compare, load, type Row } from './load.ts';

const run = promisify(execFile);
const version = '0.10.0';
const list = '/rest/v1/products?select=*&is_active=eq.true&order=created_at.desc';
// Without telemetry.
const quietly = { ...process.env, LITE_TELEMETRY: '0', DO_NOT_TRACK: '1', NODE_ENV: 'production' };

/**
 * Measures both alternately on each of the two databases.
 * @returns no rows, with a message on the console, when Lite cannot be downloaded
 */
export async function benchLite(): Promise<Row[]> {
  const folder = await mkdtemp(join(tmpdir(), 'jani-lite-'));
  const cluster = await startThrowawayPostgresql({});
  try {
    await writeFile(join(folder, 'package.json'), '{"private":true}');
    const packages = [`@supabase/lite@${version}`, 'postgres'];
    try {
      await run('npm', ['install', '--no-audit', '--no-fund', ...packages], { cwd: folder });
    } catch (error) {
      console.log(`@supabase/lite could not be downloaded: ${(error as Error).message.split('\n', 1)[0]}`);
      return [];
    }
    const definition = await definitionOf(cluster.url);
    const client = new pg.Client({ connectionString: cluster.url });
    await client.connect();
    await client.query('create database lite');
    await client.end();
    const besideIt = new URL(cluster.url);
    besideIt.pathname = '/lite';
    const rows: Row[] = [];
    for (const [name, settings, database] of [
      ['PostgreSQL', { DATABASE_URL: cluster.url }, { driver: 'postgres', url: besideIt.href }],
      ['PGlite', {}, { driver: 'pglite', url: 'supabase/.temp/data' }],
    ] as const) {
      const shop = await openShop(settings);
      const lite = await openLite(join(folder, name), definition, database);
      try {
        const { publishable } = await shop.keys();
        await checkSame(`${shop.url}${list}`, publishable, `${lite.url}${list}`, lite.key);
        const compared = await compare(
          () => load(`${shop.url}${list}`, { apikey: publishable }),
          () => load(`${lite.url}${list}`, { apikey: lite.key }),
        );
        rows.push({ name: `products list: /rest/v1 over @supabase/lite ${version} (${name})`, ...compared });
      } finally {
        await shop.close();
        await lite.stop();
      }
    }
    return rows;
  } finally {
    await cluster.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

/** SQL that creates the shop's products table, without references to it, in a separate database. */
async function definitionOf(databaseUrl: string): Promise<string> {
  const shop = await openShop({ DATABASE_URL: databaseUrl });
  await shop.close();
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  const { rows } = await client.query<{ columns: string; products: string }>(`
    select (
      select string_agg(format('%I %s%s', attname, format_type(atttypid, atttypmod),
        case when attnotnull then ' not null' else '' end), ', ' order by attnum)
      from pg_attribute where attrelid = 'public.products'::regclass and attnum > 0 and not attisdropped
    ) as columns, (select json_agg(p)::text from public.products p) as products`);
  await client.end();
  const [{ columns, products } = { columns: '', products: '[]' }] = rows;
  return `create table public.products (${columns}, primary key (id));
alter table public.products enable row level security;
create policy visible on public.products for select to anon using (is_active = true);
grant select on public.products to anon;
insert into public.products select * from json_populate_recordset(null::public.products, $json$${products}$json$);`;
}

async function openLite(folder: string, definition: string, database: { driver: string; url: string }) {
  const port = await freePort();
  await mkdir(folder);
  const lite = (...words: string[]) => ['exec', '--no', '--', 'lite', ...words];
  await run('npm', lite('init', '--pglite'), { cwd: folder, env: quietly });
  const settings = join(folder, 'supabase/config.toml');
  const given = await readFile(settings, 'utf8');
  await writeFile(
    settings,
    given
      .replace(/^port = .*$/m, `port = ${port}`)
      .replace(/^driver = .*$/m, `driver = "${database.driver}"`)
      .replace(/^url = .*$/m, `url = "${database.url}"`),
  );
  await mkdir(join(folder, 'supabase/migrations'));
  await writeFile(join(folder, 'supabase/migrations/20260101000000_products.sql'), definition);
  await run('npm', lite('migration', 'up'), { cwd: folder, env: quietly });
  const keys = await readFile(join(folder, '.env'), 'utf8');
  const key = /^SUPABASE_PUBLISHABLE_KEY="?([^"\n]+)/m.exec(keys)?.[1] ?? '';
  // Not through npm, so that the server itself is the child process and can be killed.
  const program = join(folder, '../node_modules/.bin/lite');
  const server = spawn(program, ['start'], { cwd: folder, env: quietly, stdio: 'ignore' });
  const exited = new Promise((done) => server.once('exit', done));
  const url = `http://127.0.0.1:${port}`;
  await until(async () => (await fetch(`${url}${list}`, { headers: { apikey: key } })).ok, 'Lite answers');
  return {
    url,
    key,
    async stop() {
      server.kill();
      await exited;
    },
  };
}

/** Throws when the two answers differ. */
async function checkSame(one: string, oneKey: string, other: string, otherKey: string): Promise<void> {
  const idsAt = async (url: string, apikey: string) => {
    const rows: Array<{ id: string }> = await (await fetch(url, { headers: { apikey } })).json();
    return rows.map(({ id }) => id).sort();
  };
  const [ours, theirs] = [await idsAt(one, oneKey), await idsAt(other, otherKey)];
  if (ours.length === 0 || ours.join() !== theirs.join()) {
    throw new Error(`Lite lists ${theirs.length} products, the shop ${ours.length}`);
  }
}
