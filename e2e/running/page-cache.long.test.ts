// Cached pages while products change, in every process: one second after a change no page shows the old price, no page
// shows two prices, and unaffected pages stay cached. Also counts the database round trips of an uncached page.
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type Cluster,
  findPostgresql,
  startThrowawayPostgresql,
} from '../../scripts/databases/throwaway-postgresql.ts';
import { type OpenShop, openShop, until } from '../../scripts/tests/open-shop.ts';

const hasPostgresql = (await findPostgresql()) !== null;
const shown = ['/', '/shop', '/shop/mango-can', '/shop/mango-bottle', '/shop.data'];
const untouched = ['/shop/tamarind-can', '/contact', '/delivery'];

/** A TCP proxy between a shop and its database that counts round trips: a request after a response starts a new one. */
async function countingLine(database: string) {
  const target = new URL(database);
  let trips = 0;
  const line = createServer((client) => {
    const server = connect(Number(target.port), target.hostname);
    let isAnswered = true;
    client.on('data', (chunk) => {
      if (isAnswered) trips += 1;
      isAnswered = false;
      server.write(chunk);
    });
    server.on('data', (chunk) => {
      isAnswered = true;
      client.write(chunk);
    });
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      one.on('error', () => other.destroy());
      one.on('close', () => other.destroy());
    }
  });
  await new Promise<void>((listening) => line.listen(0, target.hostname, listening));
  const { port } = line.address() as AddressInfo;
  return {
    url: Object.assign(new URL(database), { port: String(port) }).href,
    trips: () => trips,
    close: () => line.close(),
  };
}

describe.skipIf(!hasPostgresql)('pages cached by two processes on one PostgreSQL', () => {
  let cluster: Cluster;
  let dataDir: string;
  let line: Awaited<ReturnType<typeof countingLine>>;
  let shops: OpenShop[];
  let database: pg.Client;

  beforeAll(async () => {
    cluster = await startThrowawayPostgresql({});
    line = await countingLine(cluster.url);
    dataDir = await mkdtemp(join(tmpdir(), 'jani-shops-'));
    const open = (url: string) => openShop({ DATABASE_URL: url }, { dataDir });
    shops = await Promise.all([open(line.url), open(cluster.url)]);
    database = new pg.Client({ connectionString: cluster.url });
    await database.connect();
    await database.query(
      `update products set home_section = 'top_picks', home_position = 0, stock_quantity = 50 where slug = 'mango-can'`,
    );
    await setPrice(0);
  });
  afterAll(async () => {
    await database.end();
    for (const shop of shops) await shop.close();
    await rm(dataDir, { recursive: true });
    line.close();
    await cluster.stop();
  });

  /** Prices that occur nowhere else: slightly above 41,000 shillings. */
  const setPrice = (version: number) =>
    database.query(`update products set price = $1 where slug = 'mango-can'`, [(41_000 + version) * 100]);

  /** Which of those prices a page contains: in its text, structured data or loader data. */
  const versionsOn = (page: string) => [
    ...new Set([...page.matchAll(/41,?0(\d\d)(?:\.00|00\b)/g)].map(([, version]) => Number(version))),
  ];

  const read = async (shop: OpenShop, path: string) => (await fetch(`${shop.url}${path}`)).text();
  /** Whether a page is sent from the cache: reading it renders none. Only while nothing else reads. */
  const isCached = async (shop: OpenShop, path: string) => {
    const before = await countRenders(shop);
    await read(shop, path);
    return (await countRenders(shop)) === before;
  };
  const countRenders = async (shop: OpenShop) => {
    const metrics = await fetch(`${shop.url}/metrics`, {
      headers: { authorization: `Bearer ${(await shop.keys()).secret}` },
    });
    const [, count] = /^page_cache_requests_total\{result="miss"\} (\d+)$/m.exec(await metrics.text()) ?? [];
    return Number(count);
  };
  /** The pages that are not cached, by process. */
  const uncachedOf = (paths: string[]) =>
    Promise.all(
      shops.map(async (shop) => {
        const uncached = [];
        for (const path of paths) if (!(await isCached(shop, path))) uncached.push(path);
        return uncached;
      }),
    );
  const everywhere = <Result>(paths: string[], work: (shop: OpenShop, path: string) => Promise<Result>) =>
    Promise.all(shops.flatMap((shop) => paths.map((path) => work(shop, path))));
  const areCurrent = (version: number) =>
    everywhere(shown, async (shop, path) => versionsOn(await read(shop, path)).includes(version)).then(
      (all) => all.every(Boolean),
    );

  test('readers see one price per page, and never one that changed a second ago', async () => {
    await everywhere([...shown, ...untouched], read);
    expect(await uncachedOf(untouched)).toEqual([[], []]);
    const changes = 12;
    /** The commit time of each price, by version. */
    const committed = [Date.now()];
    let isOver = false;
    const readers = everywhere(shown, async (shop, path) => {
      const seen = new Set<number>();
      while (!isOver) {
        const requestedAt = Date.now();
        const versions = versionsOn(await read(shop, path));
        expect(versions, `the prices of one drink on one reading of ${path}`).toHaveLength(1);
        const [version = -1] = versions;
        const nextAt = committed[version + 1] ?? Number.POSITIVE_INFINITY;
        expect(requestedAt - nextAt, `ms that ${path} was out of date`).toBeLessThan(1000);
        seen.add(version);
      }
      return seen.size;
    });
    for (let version = 1; version <= changes; version += 1) {
      await setPrice(version);
      committed[version] = Date.now();
      // The next change comes after all processes had time to cache this one.
      await until(() => areCurrent(version), `all pages show price ${version}`);
    }
    isOver = true;
    for (const seen of await readers) expect(seen).toBeGreaterThan(1);
    expect(await uncachedOf(untouched)).toEqual([[], []]);
  });

  test('an uncached page needs at most three round trips to the database, the home page two', async () => {
    const [shop] = shops as [OpenShop];
    const ask = async (path: string, body?: unknown) => {
      const answer = await fetch(`${shop.url}/rest/v1/${path}`, {
        method: body ? 'POST' : 'GET',
        headers: { apikey: (await shop.keys()).publishable, 'content-type': 'application/json' },
        ...(body ? { body: JSON.stringify(body) } : {}),
      });
      return answer.json();
    };
    const [drink] = await ask('products?slug=eq.tamarind-can&select=id,price');
    const { tracking_number: number, access_key: key } = await ask('rpc/place_order', {
      idempotency_key: randomUUID(),
      product_id: drink.id,
      quantity: 1,
      customer_name: 'Amina Otieno',
      customer_email: 'amina@example.com',
      customer_phone: '0719005511',
      delivery_location: 'Westlands',
      expected_total: drink.price + 100,
    });
    const order = `/track-order/${number}`;
    const paths = [
      ...shown,
      ...untouched,
      ...['/shop?search=mango', '/shop/no-such-drink', '/track-order', '/newsletter', '/no/such/page'],
      ...[order, `${order}?key=${key}`, `${order}/pay?key=${key}`, `${order}/receipt?key=${key}`],
      ...['/shop/tamarind-can/order?quantity=2', '/delivery.data', '/sitemap.xml', '/manifest.webmanifest'],
    ];
    // Background queries are counted, too: a page passes when one attempt stays within its limit.
    const passed = new Map<string, number>();
    for (let time = 0; time < 10 && passed.size < paths.length; time += 1) {
      // Every page depends on the settings: once one page is removed from the cache, all are.
      const name = `Jani ${time}`;
      const signal = time % 2 === 0 ? '/contact' : '/delivery';
      await database.query('update store_settings set store_name = $1', [name]);
      await everywhere([signal], (each, path) =>
        until(async () => (await read(each, path)).includes(name), 'no outdated page is cached', 2000),
      );
      for (const path of paths.filter((one) => one !== signal && !passed.has(one))) {
        const before = line.trips();
        const page = await (await fetch(`${shop.url}${path}`, { redirect: 'manual' })).text();
        const trips = line.trips() - before;
        // A page of the settings alone asks nothing: the process has read them for the signal's page.
        const isUncached = trips > 0 || page.includes(name);
        if (isUncached && trips <= (path === '/' ? 2 : 3)) passed.set(path, trips);
      }
    }
    expect(paths.filter((path) => !passed.has(path))).toEqual([]);
  });

  test('a sale that changes no page keeps every page cached; selling the last unit does not', async () => {
    await everywhere([...shown, ...untouched], read);
    const all = [...shown, ...untouched];
    expect(await uncachedOf(all)).toEqual([[], []]);
    await database.query(`update products set stock_quantity = stock_quantity - 1 where slug = 'mango-can'`);
    // Notifications arrive in order: once a later change is seen, the sale has arrived too.
    const { rows } = await database.query<{ slug: string }>(
      `update products set tagline = 'Later than the sale' where slug = (
         select slug from products
         where home_section is null and category not in ('Mango', 'Tamarind') order by created_at limit 1)
       returning slug`,
    );
    await everywhere([`/shop/${rows[0]?.slug}`], (shop, path) =>
      until(
        async () => (await read(shop, path)).includes('Later than the sale'),
        'the later change is shown',
      ),
    );
    // The later change touches the list.
    const list = ['/shop', '/shop.data'];
    expect(await uncachedOf(all)).toEqual([list, list]);
    await database.query(`update products set stock_quantity = 0 where slug = 'mango-can'`);
    await everywhere(['/', '/shop', '/shop/mango-can'], (shop, path) =>
      until(async () => (await read(shop, path)).includes('Out of Stock'), `${path} says so`, 1000),
    );
  });

  test('a page that changes by itself is current in every process without another change of the database', async () => {
    const become = (paths: string[], text: string, isShown: boolean, withinMs: number) =>
      everywhere(paths, (shop, path) =>
        until(
          async () => (await read(shop, path)).includes(text) === isShown,
          `${path} ${isShown ? 'shows' : 'no longer shows'} ${text}`,
          withinMs,
        ),
      );
    const product = '/shop/mango-can';
    await database.query(
      `update products set stock_quantity = 50, sold_out_until = now() + interval '3 seconds' where slug = 'mango-can'`,
    );
    await become([product], '/OutOfStock', true, 1000);
    await become([product], '/InStock', true, 8000);
    await database.query(
      `update store_settings set orders_pause_reason = 'heavy rain', orders_paused_until = now() + interval '3 seconds'`,
    );
    const paused = ['/', '/shop', product, `${product}.data`];
    await become(paused, 'heavy rain', true, 1000);
    await become(paused, 'heavy rain', false, 8000);
  });

  test('a process that lost its notifications caches nothing until it receives them again', async () => {
    await everywhere(shown, read);
    await database.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'backend notifications'`,
    );
    await setPrice(50);
    await until(() => areCurrent(50), 'all pages show the price changed without a notification');
  });

  test('a shop without products says so and has a home page', async () => {
    await database.query('update products set is_active = false');
    await everywhere(['/shop'], (shop, path) =>
      until(async () => (await read(shop, path)).includes('Our fridge is being filled'), 'it says so', 1000),
    );
    await everywhere(['/'], async (shop, path) => {
      expect(await read(shop, path)).toContain('Experience Premium Energy');
      expect(await read(shop, path)).not.toContain('Top Picks');
    });
  });
});
