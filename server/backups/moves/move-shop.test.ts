import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Database } from '@jani-juice/backend/database';
import { FolderInUse } from '@jani-juice/backend/files';
import { openPglite } from '@jani-juice/backend/pglite';
import { openPostgresql } from '@jani-juice/backend/postgresql';
import { createDiskFiles } from '@jani-juice/backend/storage';
import { copyMigratedDatabase, sharedBuffers, testDatabases } from '@jani-juice/backend/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { allRows } from '../../../scripts/databases/all-rows.ts';
import { withEmptyDatabase } from '../../../scripts/databases/empty-database.ts';
import { shopMigrations } from '../../../scripts/databases/shop-migrations.ts';
import { moveShop, type ShopPlace } from './move-shop.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
let dataDir: string;
let from: ShopPlace;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'jani-move-'));
  from = { databaseUrl: null, dataDir, files: createDiskFiles(join(dataDir, 'storage')) };
});
afterEach(() => rm(dataDir, { recursive: true }));

test.runIf(testDatabases().includes('postgresql'))(
  'moves every row to PostgreSQL and to another PostgreSQL, once, and refuses one with another shop',
  async () => {
    await copyMigratedDatabase(join(dataDir, 'database'), shopMigrations);
    const source = await openPglite(join(dataDir, 'database'), { isDurable: false, sharedBuffers });
    await source.execute(`
      insert into public.orders
        (tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_fee, total_amount)
      select 'JJ-20261121-' || 1000 + n, 'Amina ' || n, 'a@b.example', '+254712345678', 'Karen', 100, 100 * n
      from generate_series(1, 600) as n;
      insert into auth.users (email, encrypted_password) values ('staff@jani.example', '$argon2id$v=19$x');
      insert into platform.schema_migrations (source, version, hash) values ('seed', 'demo', '')`);
    const rows = await allRows(source);
    const { rows: installations } = await source.query<{ id: string }>(
      'select id from storage.installations',
    );
    const file = join('files', installations[0]?.id ?? '', 'ab', 'abcdefgh');
    await mkdir(join(dataDir, 'storage', file, '..'), { recursive: true });
    await writeFile(join(dataDir, 'storage', file), 'an image');
    // Stands for an S3 store, whose settings were added before the move.
    const configured = {
      ...from,
      files: createDiskFiles(join(dataDir, 'elsewhere')),
      formerFiles: from.files,
    };
    await withEmptyDatabase(async (first) => {
      const toFirst = () => moveShop(configured, { kind: 'postgresql', url: first }, root);
      await expect(toFirst(), 'a running shop').rejects.toThrow(FolderInUse);
      await source.close();
      const { content, files } = await toFirst();
      expect(files).toBe(1);
      expect(await readFile(join(dataDir, 'elsewhere', file), 'utf8')).toBe('an image');
      expect(content.sums).toMatchObject({ 'total of all orders': 18_030_000 });

      await withEmptyDatabase(async (second) => {
        const toSecond = () =>
          moveShop({ ...from, databaseUrl: first }, { kind: 'postgresql', url: second }, root);
        await toSecond();
        await toSecond();
        const moved = openPostgresql(second, { poolSize: 1 });
        expect(await allRows(moved), 'also after a repeated move').toEqual(rows);
        const { rows: off } = await moved.query(
          `select tgname from pg_trigger where not tgisinternal and tgenabled <> 'O'`,
        );
        expect(off, 'every trigger is on again').toEqual([]);
        await moved.execute(
          `update public.orders set delivery_notes = 'its own' where tracking_number = 'JJ-20261121-1001'`,
        );
        await expectAnother(moved, toSecond);
        const newer = openPostgresql(second, { poolSize: 1 });
        await newer.execute('alter table public.orders add column later text');
        await expectAnother(newer, toSecond);
      });
    });
  },
);

async function expectAnother(target: Database, move: () => Promise<unknown>): Promise<void> {
  await target.close();
  await expect(move()).rejects.toThrow('There is another shop in that database');
}

test('refuses a source without a shop, and a folder that is not empty, without changing them', async () => {
  const to = { kind: 'embedded', dataDir: join(dataDir, 'new') } as const;
  await expect(moveShop(from, to, root)).rejects.toThrow('There is no embedded database');
  expect(await readdir(dataDir)).toEqual([]);
  await copyMigratedDatabase(join(dataDir, 'database'), shopMigrations);
  await writeFile(join(dataDir, 'note.txt'), '');
  await expect(
    moveShop(from, { kind: 'embedded', dataDir: join(dataDir, 'database') }, root),
  ).rejects.toThrow('is not empty');
  await expect(moveShop(from, { kind: 'embedded', dataDir }, root)).rejects.toThrow('is not empty');
  expect((await readdir(dataDir)).sort()).toEqual(['database', 'note.txt']);
});
