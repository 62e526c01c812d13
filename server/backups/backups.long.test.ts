import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type Database, migrate } from '@jani-juice/backend/database';
import { FolderInUse } from '@jani-juice/backend/files';
import { openPglite } from '@jani-juice/backend/pglite';
import { openPostgresql } from '@jani-juice/backend/postgresql';
import {
  copyMigratedDatabase,
  sharedBuffers,
  testDatabases,
  throwawayDatabase,
} from '@jani-juice/backend/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { allRows } from '../../scripts/databases/all-rows.ts';
import { withEmptyDatabase } from '../../scripts/databases/empty-database.ts';
import { shopMigrations } from '../../scripts/databases/shop-migrations.ts';
import { openLog } from '../monitoring/log.ts';
import { BrokenArchive, type Entry, entriesOf, unpackArchive, writeArchive } from './archive.ts';
import { verifyBackup } from './backup-task.ts';
import { type Backups, createBackups, isDue } from './backups.ts';
import { Refused } from './copying/create-database.ts';
import type { Figures } from './copying/figures.ts';
import { copyOfEmbedded } from './embedded.ts';
import { type FormerManifest, type Manifest, manifestName, readManifest } from './manifest.ts';
import { restoreBackup } from './restore-backup.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

const at = (text: string) => Date.parse(text);

test.each([
  ['never before', '2026-11-21T09:00Z', null, null, true],
  ['made last night', '2026-11-21T09:00Z', '2026-11-21T00:05Z', '2026-11-21T00:05Z', false],
  ['made the day before', '2026-11-21T09:00Z', '2026-11-20T00:05Z', '2026-11-20T00:05Z', true],
  ['at three in the night in Nairobi', '2026-11-21T00:00Z', '2026-11-20T23:00Z', '2026-11-20T23:00Z', true],
  ['failed a moment ago', '2026-11-21T09:00Z', '2026-11-20T00:05Z', '2026-11-21T08:30Z', false],
  ['failed an hour ago', '2026-11-21T09:00Z', '2026-11-20T00:05Z', '2026-11-21T08:00Z', true],
])('whether a backup is due: %s', (_, now, settled, tried, due) => {
  expect(isDue(at(now), settled === null ? null : at(settled), tried === null ? null : at(tried))).toBe(due);
});

let dataDir: string;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'jani-backups-'));
});
afterEach(() => rm(dataDir, { recursive: true, force: true }));

/** A shop's database with some orders, and an uploaded file beside it. */
async function openShopData(kind: Database['kind']): Promise<Database & { url?: string }> {
  if (kind === 'pglite') await copyMigratedDatabase(join(dataDir, 'database'), shopMigrations);
  const database =
    kind === 'pglite'
      ? await openPglite(join(dataDir, 'database'), { isDurable: false, sharedBuffers })
      : await throwawayDatabase(kind, shopMigrations);
  await database.execute(`insert into public.orders
    (tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_fee, total_amount)
    select 'JJ-20261121-' || 1000 + n, 'Amina ' || n, 'a@b.example', '+254712345678', 'Karen', 100, 100 * n
    from generate_series(1, 50) as n`);
  await mkdir(join(dataDir, 'storage/files/installation/ab'), { recursive: true });
  await writeFile(join(dataDir, 'storage/files/installation/ab/abcdefgh'), 'an image');
  await writeFile(join(dataDir, 'keys.json'), '{"secret":"sb_secret_x"}');
  return database;
}

const backupsOf = (database: Database & { url?: string }, log = openLog('silent')): Backups =>
  createBackups({
    database,
    config: { databaseUrl: database.url ?? null, databaseListenUrl: null, dataDir, s3: null },
    log,
    root,
  });

// Each backup is restored whole by a process of its own, which takes long on a busy machine.
describe.each(testDatabases())('on %s', { timeout: 400_000 }, (kind) => {
  let database: Database & { url?: string };
  let isOpen = true;
  const close = async () => {
    if (isOpen) await database.close();
    isOpen = false;
  };
  beforeEach(async () => {
    database = await openShopData(kind);
    isOpen = true;
  });
  afterEach(close);

  test('staff check a backup once more: a whole one, a damaged one and one that is gone', async () => {
    const backups = backupsOf(database);
    const made = await backups.run();
    const file = join(dataDir, 'backups', made && 'fileName' in made ? made.fileName : '');
    const { rows } = await database.query<{ id: number }>(
      'select max(id)::integer as id from public.backups',
    );
    const id = rows[0]?.id ?? 0;
    const problem = async () => {
      await backups.check(id);
      const checked = await database.query<{ problem: string | null }>(
        'select check_problem as problem from public.backups where id = $1 and checked_at is not null',
        [id],
      );
      return checked.rows[0]?.problem;
    };
    expect(await problem()).toBeNull();
    const whole = await readFile(file);
    await writeFile(file, whole.subarray(0, whole.length / 2));
    expect(await problem()).toEqual(expect.any(String));
    await rm(file);
    expect(await problem()).toContain('not on the disk');
    // Nothing is left of the checks.
    expect(await readdir(join(dataDir, 'backups'))).toEqual([]);
  });

  test('a backup of a running shop is restored with the same orders, uploaded files and keys', async () => {
    const backups = backupsOf(database);
    let isBackingUp = true;
    const work = (async () => {
      for (let n = 0; isBackingUp; n += 1) {
        await database.query(
          `insert into public.inquiries (name, email, message) values ('A', 'a@b.example', $1)`,
          [`${'x'.repeat(5000)}${n}`],
        );
        await database.query('update public.orders set delivery_notes = $1', [`noted ${n}`]);
        if (kind === 'pglite') await database.execute('checkpoint');
        // The embedded database works in this process, and would delay the backup.
        await pause(100);
      }
    })();
    await expect
      .poll(async () => (await database.query('select from public.inquiries')).rowCount, { timeout: 30_000 })
      .toBeGreaterThan(0);
    const made = await backups.run();
    isBackingUp = false;
    await work;
    expect(made).toMatchObject({
      outcome: 'verified',
      fileName: expect.stringMatching(/^jani-.*\.tar\.gz$/),
    });
    const { fileName } = made as { fileName: string };
    const archive = join(dataDir, 'backups', fileName);
    expect((await stat(archive)).mode & 0o077, 'readable by its owner only').toBe(0);
    expect(await readdir(join(dataDir, 'backups'))).toEqual([fileName]);
    const { rows } = await database.query('select outcome, file_name, problem from public.backups');
    expect(rows).toEqual([{ outcome: 'verified', file_name: fileName, problem: null }]);

    await unpackArchive(archive, join(dataDir, 'unpacked'));
    const manifest = (await readManifest(join(dataDir, 'unpacked'))) as Manifest;
    const rowsOf = (table: string) => manifest.tables.find(({ name }) => name === table)?.rows;
    expect(rowsOf('public.orders')).toBe(50);
    expect(rowsOf('public.inquiries')).toBeGreaterThan(0);

    // Restored in another folder and in either database, as on a new machine.
    const restoreInto = async (url: string | null, elsewhere: string) => {
      const options = { archive, dataDir: elsewhere, files: null, replaces: false, root };
      expect((await restoreBackup({ ...options, databaseUrl: url })).setAside).toBeNull();
      expect(await readFile(join(elsewhere, 'storage/files/installation/ab/abcdefgh'), 'utf8')).toBe(
        'an image',
      );
      expect(await readFile(join(elsewhere, 'keys.json'), 'utf8')).toContain('sb_secret_x');
      const restored = url
        ? openPostgresql(url)
        : await openPglite(join(elsewhere, 'database'), { sharedBuffers });
      const { rows: notes } = await restored.query('select distinct delivery_notes from public.orders');
      expect(notes, 'every order is of the same moment').toHaveLength(1);
      expect(await migrate(restored, shopMigrations), 'and is up to date').toEqual([]);
      const found = await allRows(restored);
      await restored.close();
      return found;
    };
    const inFolder = await restoreInto(null, join(dataDir, 'elsewhere'));
    expect(inFolder.get('public.orders')).toHaveLength(50);
    if (testDatabases().includes('postgresql')) {
      await withEmptyDatabase(async (url) => {
        expect(await restoreInto(url, join(dataDir, 'on postgresql'))).toEqual(inFolder);
      });
    }
  });

  // The schedule is the same on both databases.
  test.runIf(kind === testDatabases().at(-1))(
    'reports a failure, retries after an hour, makes one a day, keeps seven, and rejects an incomplete one',
    async () => {
      await writeFile(join(dataDir, 'backups'), 'in the way');
      const lines: { level: string; problem: string }[] = [];
      const log = openLog('silent');
      log.error = ((line: { problem: string }) =>
        lines.push({ level: 'error', ...line })) as typeof log.error;
      const backups = backupsOf(database, log);
      await backups.runIfDue();
      expect(lines).toEqual([{ level: 'error', problem: expect.stringMatching(/\S/) }]);
      await rm(join(dataDir, 'backups'));
      await backups.runIfDue();
      const outcomes = async () =>
        (await database.query('select outcome from public.backups order by id')).rows;
      expect(await outcomes(), 'it is not tried again at once').toEqual([{ outcome: 'failed' }]);

      await mkdir(join(dataDir, 'backups'));
      const older = Array.from({ length: 9 }, (_, day) => `jani-2026-01-0${day + 1}T00-00-00Z.tar.gz`);
      for (const name of [...older, 'mine.txt']) await writeFile(join(dataDir, 'backups', name), '');
      await database.query(`update public.backups set finished_at = now() - interval '61 minutes'`);
      await backups.runIfDue();
      await backups.runIfDue();
      expect(await outcomes()).toEqual([{ outcome: 'failed' }, { outcome: 'verified' }]);
      const names = (await readdir(join(dataDir, 'backups'))).sort();
      expect(names).toEqual([...older.slice(-6), expect.stringMatching(/^jani-/), 'mine.txt']);

      // A backup that lacks an order is rejected.
      const archive = join(dataDir, 'backups', names.at(-2) ?? '');
      await alterBackup(archive, (manifest) => {
        for (const table of manifest.tables) if (table.name === 'public.orders') table.rows = 51;
      });
      const work = await mkdtemp(join(dataDir, 'verify-'));
      await expect(verifyBackup(archive, { work, root })).rejects.toThrow(
        'the rows of public.orders in the backup are not those that were backed up',
      );
    },
  );

  test('a former version that works with a newer database goes on making backups', async () => {
    const next =
      "insert into platform.schema_migrations (source, version, hash, earlier_versions_work) values ('shop', '9_next', '', $1)";
    await database.query(next, ['true']);
    expect(await backupsOf(database).run()).toMatchObject({ outcome: 'verified' });
    await database.query(
      'update platform.schema_migrations set earlier_versions_work = false where version = $1',
      ['9_next'],
    );
    expect(await backupsOf(database).run()).toMatchObject({
      problem: expect.stringContaining('newer version'),
    });
  });

  test('a stop aborts a backup without leaving a file, and the next one succeeds', async () => {
    const backups = backupsOf(database);
    const running = backups.run();
    await backups.close();
    expect(await running).toBeNull();
    expect(await readdir(join(dataDir, 'backups')).catch(() => [])).toEqual([]);

    const later = backupsOf(database);
    const verifying = later.run();
    await expect.poll(() => existsSync(join(dataDir, 'backups/work/check')), { timeout: 300_000 }).toBe(true);
    await later.close();
    expect(await verifying).toBeNull();
    expect(await readdir(join(dataDir, 'backups'))).toEqual([]);
    expect(await backupsOf(database).run()).toMatchObject({ outcome: 'verified' });
  });
});

test('the program ends with the process that started it', async () => {
  const silent = createServer().listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const { port } = silent.address() as AddressInfo;
  const program = spawn(
    process.execPath,
    ['--import', 'tsx', 'server/backups/backup-program.ts', '{"copy":null}'],
    {
      env: { ...process.env, BACKUP_DATABASE_URL: `postgres://127.0.0.1:${port}/shop` },
      stdio: ['pipe', 'ignore', 'inherit'],
    },
  );
  await once(silent, 'connection');
  expect(program.exitCode).toBeNull();
  program.stdin.end();
  expect((await once(program, 'exit'))[0]).toBe(1);
  silent.close();
});

describe('the embedded database', { timeout: 400_000 }, () => {
  test('rejects a restore over a running shop, over data without --replace, or from a damaged file; sets former data aside', async () => {
    const database = await openShopData('pglite');
    const { fileName } = (await backupsOf(database).run()) as { fileName: string };
    const archive = join(dataDir, 'backups', fileName);
    const restore = (replaces: boolean) =>
      restoreBackup({ archive, dataDir, databaseUrl: null, files: null, replaces, root });
    await expect(restore(true)).rejects.toThrow(FolderInUse);
    await database.execute('delete from public.orders');
    await database.close();
    await expect(restore(false)).rejects.toThrow(Refused);
    // What a restore that was killed has left.
    await mkdir(join(dataDir, 'restoring-earlier/database'), { recursive: true });
    const bytes = await readFile(archive);
    await writeFile(archive, bytes.subarray(0, bytes.length / 2));
    await expect(restore(true)).rejects.toThrow(BrokenArchive);
    expect((await readdir(dataDir)).sort(), 'unchanged').toEqual([
      'backups',
      'database',
      'keys.json',
      'storage',
    ]);
    await writeFile(archive, bytes);

    const { setAside } = await restore(true);
    expect((await readdir(setAside ?? '')).sort()).toEqual(['database', 'keys.json', 'storage']);
    const restored = await openPglite(join(dataDir, 'database'), { sharedBuffers });
    expect((await restored.query('select from public.orders')).rowCount).toBe(50);
    await restored.close();
    const former = await openPglite(join(setAside ?? '', 'database'), { sharedBuffers });
    expect((await former.query('select from public.orders')).rowCount).toBe(0);
    await former.close();
  });
});

test.runIf(testDatabases().includes('postgresql'))(
  'rejects a restore over a PostgreSQL shop without --replace, and otherwise replaces all of it',
  async () => {
    const database = await openShopData('postgresql');
    const { url = '' } = database;
    const made = await Promise.all([backupsOf(database).run(), backupsOf(database).run()]);
    const [first, ...others] = made.filter((outcome) => outcome !== null);
    expect(others, 'one of two processes makes it').toEqual([]);
    const archive = join(dataDir, 'backups', (first as { fileName: string }).fileName);
    await database.execute(`drop database if exists other_shop with (force)`);
    await database.execute(`create database other_shop template template0`);
    const target = new URL(url);
    target.pathname = '/other_shop';
    const other = openPostgresql(target.href, { poolSize: 1 });
    await migrate(other, shopMigrations);
    // Its schema is newer than the backup's.
    await other.execute(`
      create table public.later (id uuid primary key references public.products (id));
      create function public.of_later() returns trigger language plpgsql as 'begin return new; end';
      create trigger of_later before insert on public.orders for each row execute function public.of_later()`);
    const elsewhere = join(dataDir, 'elsewhere');
    const restore = (replaces: boolean) =>
      restoreBackup({ archive, dataDir: elsewhere, databaseUrl: target.href, files: null, replaces, root });
    await expect(restore(true), 'another process is connected').rejects.toThrow(Refused);
    await other.close();
    await expect.poll(() => restore(false).catch(String)).toMatch('There is a shop in that database');
    await restore(true);
    const restored = openPostgresql(target.href, { poolSize: 1 });
    expect((await restored.query('select from public.orders')).rowCount).toBe(50);
    const { rows: later } = await restored.query(
      `select to_regclass('public.later') as table, to_regproc('public.of_later') as function`,
    );
    expect(later, 'objects of the later version are removed').toEqual([{ table: null, function: null }]);
    expect(await migrate(restored, shopMigrations)).toEqual([]);
    await restored.close();

    await alterBackup(archive, (manifest) => {
      for (const table of manifest.tables) if (table.name === 'public.orders') table.hash = '0'.repeat(32);
    });
    await expect(restore(true)).rejects.toThrow(BrokenArchive);
    const unchanged = openPostgresql(target.href, { poolSize: 1 });
    expect((await unchanged.query('select from public.orders')).rowCount, 'and changes nothing').toBe(50);
    await unchanged.close();
    await database.execute('drop database other_shop with (force)');
    await database.close();
  },
);

/** Changes the manifest of a backup. */
async function alterBackup(archive: string, change: (manifest: Manifest) => void): Promise<void> {
  const folder = await mkdtemp(join(dataDir, 'altered-'));
  await unpackArchive(archive, folder);
  const manifest = (await readManifest(folder)) as Manifest;
  change(manifest);
  await writeFile(join(folder, manifestName), JSON.stringify(manifest));
  await writeArchive(archive, entriesOf(folder, '.'));
}

test('restores a backup of the former kind, the files of an embedded database', async () => {
  const database = await openShopData('pglite');
  let figures: Figures = {};
  const archive = join(dataDir, 'former.tar.gz');
  // A column that those versions did not have.
  await database.execute('alter table platform.schema_migrations drop column earlier_versions_work');
  async function* entries(): AsyncIterable<Entry> {
    yield* copyOfEmbedded(database, join(dataDir, 'database'), join(dataDir, 'wal'), (read) => {
      figures = read;
    });
    const manifest: FormerManifest = {
      format: 1,
      database: 'pglite',
      madeAt: '2026-11-20T00:00:00Z',
      figures,
    };
    yield { name: manifestName, content: Buffer.from(JSON.stringify(manifest)) };
  }
  await writeArchive(archive, entries());
  const before = await allRows(database);
  await database.close();
  const restored = join(dataDir, 'restored');
  await restoreBackup({ archive, dataDir: restored, databaseUrl: null, files: null, replaces: false, root });
  const found = await openPglite(join(restored, 'database'), { sharedBuffers });
  expect(await allRows(found)).toEqual(before);
  await found.close();
});
