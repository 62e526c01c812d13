// Moves of a shop with 5,000 orders and 60 images that are killed in the middle and repeated, in both directions.
import { randomBytes, randomUUID } from 'node:crypto';
import { access, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Database } from '@jani-juice/backend/database';
import { openPglite } from '@jani-juice/backend/pglite';
import { openPostgresql } from '@jani-juice/backend/postgresql';
import { copyMigratedDatabase, runProgram, sharedBuffers, testDatabases } from '@jani-juice/backend/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { allRows } from '../../../scripts/databases/all-rows.ts';
import { withEmptyDatabase } from '../../../scripts/databases/empty-database.ts';
import { shopMigrations } from '../../../scripts/databases/shop-migrations.ts';

const orders = 5000;
const images = 60;
const command = fileURLToPath(new URL('../backup-command.ts', import.meta.url));
const root = fileURLToPath(new URL('../../..', import.meta.url));

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'jani-move-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** Fills a shop; returns its files by name. */
async function fillShop(dataDir: string): Promise<Map<string, Buffer>> {
  await copyMigratedDatabase(join(dataDir, 'database'), shopMigrations);
  const database = await openPglite(join(dataDir, 'database'), { isDurable: false, sharedBuffers });
  await database.execute(await readFile(join(root, 'supabase/seed.sql'), 'utf8'));
  await database.execute(`
    insert into public.orders
      (tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_fee, total_amount)
    select 'JJ-20261121-' || 10000 + n, 'Amina ' || n, 'a@b.example', '+254712345678', 'Karen', 100, 95100
    from generate_series(1, ${orders}) as n;
    insert into public.order_items (order_id, product_id, product_name, quantity, unit_price)
    select o.id, p.id, p.name, 1, 95000
    from public.orders as o, (select * from public.products order by name limit 1) as p;
    insert into auth.users (email, encrypted_password) values ('staff@jani.example', '$argon2id$v=19$x')`);
  const { rows } = await database.query<{ id: string }>('select id from storage.installations');
  const files = new Map<string, Buffer>();
  for (let n = 0; n < images; n += 1) {
    const version = randomUUID();
    const content = randomBytes(300_000);
    const path = join('storage/files', rows[0]?.id ?? '', version.slice(0, 2), version);
    await mkdir(join(dataDir, path, '..'), { recursive: true });
    await writeFile(join(dataDir, path), content);
    files.set(path, content);
    await database.query(
      `insert into storage.objects (bucket_id, name, version) values ('product-images', $1, $2)`,
      [`products/${n}.png`, version],
    );
  }
  await database.close();
  await writeFile(join(dataDir, 'keys.json'), '{"secret":"sb_secret_x"}');
  return files;
}

/** Runs `npm run move` without its build. */
function runMove(dataDir: string, databaseUrl: string | null, to: string) {
  const code = `import(${JSON.stringify(command)}).then(({ move }) => move(${JSON.stringify(root)}, ${JSON.stringify(root)}, ['--to', ${JSON.stringify(to)}]))`;
  const { child, ended } = runProgram(code, { DATA_DIR: dataDir, DATABASE_URL: databaseUrl ?? '' });
  return {
    ended: ended.then(({ output, errors }) => output + errors),
    kill: () => child.kill('SIGKILL'),
  };
}

const isThere = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  );

async function rowsAndClose(database: Database) {
  const rows = await allRows(database);
  await database.close();
  return rows;
}

test.runIf(testDatabases().includes('postgresql'))(
  'a move that is killed leaves no half of a shop, and is repeated to its end',
  { timeout: 900_000 },
  async () => {
    const source = join(folder, 'source');
    await mkdir(source);
    const files = await fillShop(source);
    const openSource = () => openPglite(join(source, 'database'), { sharedBuffers });
    const rows = await rowsAndClose(await openSource());
    expect(rows.get('public.orders')).toHaveLength(orders);

    await withEmptyDatabase(async (url) => {
      const watcher = openPostgresql(process.env.TEST_POSTGRESQL_URL ?? '', { poolSize: 1 });
      const database = new URL(url).pathname.slice(1);
      const isWriting = async (table: string) => {
        const { rowCount } = await watcher.query(
          'select from pg_stat_activity where datname = $1 and starts_with(query, $2)',
          [database, `insert into ${table} `],
        );
        return rowCount > 0;
      };
      for (const table of ['public.orders', 'public.order_events']) {
        const move = runMove(source, null, url);
        await expect.poll(() => isWriting(table), { timeout: 120_000, interval: 5 }).toBe(true);
        move.kill();
        expect(await move.ended, 'killed before its end').toBe('');
        const target = openPostgresql(url, { poolSize: 1 });
        const { rows: found } = await target.query(`select to_regclass('public.orders') as orders`);
        await target.close();
        expect(found, 'nothing is there').toEqual([{ orders: null }]);
      }
      expect(await runMove(source, null, url).ended).toContain(`${orders} orders of KES 4,755,000 in all`);
      expect(await rowsAndClose(openPostgresql(url, { poolSize: 1 }))).toEqual(rows);
      expect(await rowsAndClose(await openSource()), 'the source is as it was').toEqual(rows);
      await watcher.close();

      // Back, into a new folder. The files come from that of the shop on PostgreSQL.
      const back = join(folder, 'back');
      for (const draft of ['back.moving/database/PG_VERSION', 'back.moving/storage/files']) {
        const move = runMove(source, url, back);
        await expect.poll(() => isThere(join(folder, draft)), { timeout: 240_000, interval: 5 }).toBe(true);
        move.kill();
        await move.ended;
        expect(await isThere(back), 'it has no name before it is complete').toBe(false);
      }
      expect(await runMove(source, url, back).ended).toContain(`${images} uploaded files`);
      expect((await readdir(folder)).sort()).toEqual(['back', 'source']);
      expect(await rowsAndClose(await openPglite(join(back, 'database'), { sharedBuffers }))).toEqual(rows);
      for (const [path, content] of files) {
        expect((await readFile(join(back, path))).equals(content), path).toBe(true);
      }
      expect(await readFile(join(back, 'keys.json'), 'utf8')).toContain('sb_secret_x');
    });
  },
);
