// Kept pages under change: nobody reads an old price a second after it changed, nobody ever reads two prices on one page,
// and what does not show the change stays kept; in every process.
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type OpenShop, openShop, until } from '../scripts/open-shop.ts';
import { type Cluster, findPostgresql, startThrowawayPostgresql } from '../scripts/throwaway-postgresql.ts';

const hasPostgresql = (await findPostgresql()) !== null;
const shown = ['/', '/shop', '/shop/mango-can', '/shop/mango-bottle', '/shop.data'];
const untouched = ['/shop/tamarind-can', '/contact', '/delivery'];

describe.skipIf(!hasPostgresql)('pages kept by two processes on one PostgreSQL', () => {
  let cluster: Cluster;
  let shops: OpenShop[];
  let database: pg.Client;

  beforeAll(async () => {
    cluster = await startThrowawayPostgresql({});
    const environment = { DATABASE_URL: cluster.url, LOG_LEVEL: 'debug' };
    shops = await Promise.all([openShop(environment), openShop(environment)]);
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
    await cluster.stop();
  });

  /** Prices that nothing else has: 41,000 shillings and a few. */
  const setPrice = (version: number) =>
    database.query(`update products set price = $1 where slug = 'mango-can'`, [(41_000 + version) * 100]);

  /** Which of those prices a page shows, wherever it does: in words, in structured data, in what scripts get. */
  const versionsOn = (page: string) => [
    ...new Set([...page.matchAll(/41,?0(\d\d)(?:\.00|00\b)/g)].map(([, version]) => Number(version))),
  ];

  const read = async (shop: OpenShop, path: string) => (await fetch(`${shop.url}${path}`)).text();
  /** How often a page was rendered so far. The log may be behind: what it says of a later request is waited for. */
  const renders = async (shop: OpenShop, path: string) => {
    const mark = `/healthz?${randomUUID()}`;
    await fetch(`${shop.url}${mark}`);
    await until(async () => shop.output().includes(mark), 'the log is up to date');
    return shop.output().split(`"page":"${path}",`).length - 1;
  };
  const everywhere = <Result>(paths: string[], work: (shop: OpenShop, path: string) => Promise<Result>) =>
    Promise.all(shops.flatMap((shop) => paths.map((path) => work(shop, path))));
  const areCurrent = (version: number) =>
    everywhere(shown, async (shop, path) => versionsOn(await read(shop, path)).includes(version)).then(
      (all) => all.every(Boolean),
    );

  test('while a price changes again and again, readers see one price, and never one that is a second old', async () => {
    await everywhere([...shown, ...untouched], read);
    const rendersBefore = await everywhere(untouched, renders);
    const changes = 12;
    /** When each price was committed, by its version. */
    const committed = [Date.now()];
    let isOver = false;
    const readers = everywhere(shown, async (shop, path) => {
      const seen = new Set<number>();
      while (!isOver) {
        const asked = Date.now();
        const versions = versionsOn(await read(shop, path));
        expect(versions, `the prices of one drink on one reading of ${path}`).toHaveLength(1);
        const [version = -1] = versions;
        const nextAt = committed[version + 1] ?? Number.POSITIVE_INFINITY;
        expect(asked - nextAt, `ms that ${path} was out of date`).toBeLessThan(1000);
        seen.add(version);
      }
      return seen.size;
    });
    for (let version = 1; version <= changes; version += 1) {
      await setPrice(version);
      committed[version] = Date.now();
      // The next change comes when everybody has had time to keep this one.
      await until(() => areCurrent(version), `all pages show price ${version}`);
    }
    isOver = true;
    for (const seen of await readers) expect(seen).toBeGreaterThan(1);
    expect(await everywhere(untouched, renders)).toEqual(rendersBefore);
  });

  test('a page that is not kept costs the database three questions at most', async () => {
    const paths = [...shown, ...untouched, '/track-order', '/shop?search=mango'];
    await everywhere(paths, read);
    await everywhere(paths, renders);
    const reads = shops.flatMap((shop) =>
      [...shop.output().matchAll(/"page":"([^"]+)","reads":(\d+)/g)].map(([, page, count]) => ({
        page,
        count: Number(count),
      })),
    );
    for (const path of paths) expect(reads.map(({ page }) => page)).toContain(path);
    expect(reads.filter(({ count }) => count > 3)).toEqual([]);
  });

  test('a sale that changes nothing on a page leaves every page kept; the last unit sold does not', async () => {
    await everywhere([...shown, ...untouched], read);
    const all = [...shown, ...untouched];
    const before = await everywhere(all, renders);
    await database.query(`update products set stock_quantity = stock_quantity - 1 where slug = 'mango-can'`);
    // Heard in order: once a later change is seen, the sale was heard too.
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
    const touchedByLater = ['/shop', '/shop.data'];
    const after = await everywhere(all, async (shop, path) => {
      if (!touchedByLater.includes(path)) await read(shop, path);
      return renders(shop, path);
    });
    expect(after).toEqual(before);
    await database.query(`update products set stock_quantity = 0 where slug = 'mango-can'`);
    await everywhere(['/', '/shop', '/shop/mango-can'], (shop, path) =>
      until(async () => (await read(shop, path)).includes('Out of Stock'), `${path} says so`, 1000),
    );
  });

  test('a process that lost its ear for changes keeps nothing until it hears again', async () => {
    await everywhere(shown, read);
    await database.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'backend notifications'`,
    );
    await setPrice(50);
    await until(() => areCurrent(50), 'all pages show the price that nobody was told of', 1000);
  });

  test('a shop that sells nothing yet says so, and has a home all the same', async () => {
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
