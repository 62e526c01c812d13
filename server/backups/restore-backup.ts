// Replaces a shop's data with a backup. The former data is moved aside, never deleted.
import { mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { lockFolder } from '../../backend/database/folder-lock.ts';
import { openPostgresql } from '../../backend/database/postgresql.ts';
import { syncFile } from '../../backend/durable-file.ts';
import { unpackArchive } from './archive.ts';
import { ContentMismatch, checkEmbedded, compare } from './check-backup.ts';
import { type Manifest, readManifest } from './manifest.ts';
import { findPrograms, runProgram } from './postgresql-programs.ts';

/** A restore that was not started; the message has the reason. */
export class RestoreRefused extends Error {
  override readonly name = 'RestoreRefused';
}

/** The restored database differs from the backup's figures. */
export class RestoredContentMismatch extends Error {
  override readonly name = 'RestoredContentMismatch';
}

export interface RestoreOptions {
  archive: string;
  dataDir: string;
  /** Target of a PostgreSQL backup. */
  databaseUrl: string | null;
  /** Replaces existing data. */
  replaces: boolean;
}

/**
 * Restores a backup. The shop must be stopped.
 * @returns time of the backup, and the folder of the former data, null when there was none
 * @throws RestoreRefused, FolderInUse when the shop runs, BrokenArchive, ContentMismatch, RestoredContentMismatch
 */
export async function restoreBackup(
  options: RestoreOptions,
): Promise<{ madeAt: string; setAside: string | null }> {
  const { archive, dataDir, databaseUrl, replaces } = options;
  await mkdir(dataDir, { recursive: true });
  // A running shop holds this lock, and no shop can start while this process holds it.
  const unlock = await lockFolder(join(dataDir, 'database'));
  const moment = new Date().toISOString().replace(/\.\d+/, '').replaceAll(':', '-');
  const work = join(dataDir, `restoring-${moment}`);
  try {
    await unpackArchive(archive, work, { isDurable: true });
    const manifest = await readManifest(work);
    if ((manifest.database === 'postgresql') !== (databaseUrl !== null)) {
      throw new RestoreRefused(
        databaseUrl
          ? 'This is a backup of the embedded database: start it without DATABASE_URL.'
          : 'This is a backup of PostgreSQL: set DATABASE_URL to the database to restore it to.',
      );
    }
    const present = await listShopData(dataDir);
    const isOccupied = databaseUrl ? await containsShop(databaseUrl) : present.length > 0;
    if (isOccupied && !replaces) {
      throw new RestoreRefused(
        databaseUrl
          ? 'There is a shop in that database. With --replace the backup replaces it, and its data is lost.'
          : `There is a shop's data in ${dataDir}. With --replace it is set aside, and the backup takes its place.`,
      );
    }
    if (databaseUrl) await restoreDump(manifest, join(work, 'database.dump'), databaseUrl, isOccupied);
    else await checkEmbedded(manifest, join(work, 'database'));

    const setAside = present.length > 0 ? join(dataDir, `replaced-${moment}`) : null;
    if (setAside) {
      await mkdir(setAside, { mode: 0o700 });
      for (const name of present) await rename(join(dataDir, name), join(setAside, name));
    }
    const restored = new Set(await readdir(work));
    if (restored.has('files')) {
      await mkdir(join(dataDir, 'storage'), { recursive: true });
      await rename(join(work, 'files'), join(dataDir, 'storage/files'));
    }
    for (const name of ['keys.json', 'database']) {
      if (restored.has(name)) await rename(join(work, name), join(dataDir, name));
    }
    await syncFile(dataDir);
    return { madeAt: manifest.madeAt, setAside };
  } finally {
    await rm(work, { recursive: true, force: true });
    await unlock();
  }
}

/** Files and folders that a backup replaces. Backups, emails and the simulator's ledger are not moved. */
async function listShopData(dataDir: string): Promise<string[]> {
  const found = new Set(await readdir(dataDir));
  return ['database', 'storage', 'keys.json'].filter((name) => found.has(name));
}

/** Maximum time PostgreSQL takes to detect that a shop was stopped. */
const disconnectTimeoutMs = 5000;

async function containsShop(databaseUrl: string): Promise<boolean> {
  const database = openPostgresql(databaseUrl, { poolSize: 1 });
  try {
    const startedAt = performance.now();
    for (;;) {
      const { rows } = await database.query<{ others: number; is_there: boolean }>(
        `select count(*) as others, to_regclass('platform.schema_migrations') is not null as is_there
         from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`,
      );
      if ((rows[0]?.others ?? 0) === 0) return rows[0]?.is_there ?? false;
      if (performance.now() - startedAt > disconnectTimeoutMs) {
        throw new RestoreRefused(
          'Another process is connected to that database: stop every process of the shop first.',
        );
      }
      await new Promise((done) => setTimeout(done, 100));
    }
  } finally {
    await database.close();
  }
}

// The schemas of a shop's database. They are dropped with all their content before an older one is restored: objects that a later
// version has added would depend on the restored tables, and conflict with the next update of the shop.
const dropShopSchemas = `
set client_min_messages = warning;
do $$
declare
  made record;
begin
  for made in
    select t.evtname as name from pg_event_trigger as t join pg_proc as p on p.oid = t.evtfoid
    where p.pronamespace in (select oid from pg_namespace where nspname in ('platform', 'realtime'))
  loop
    execute format('drop event trigger %I', made.name);
  end loop;
  drop publication if exists supabase_realtime;
  for made in
    select nspname as name from pg_namespace
    where nspname in ('private', 'auth', 'storage', 'realtime', 'extensions', 'platform')
  loop
    execute format('drop schema %I cascade', made.name);
  end loop;
  -- The schema public is not created again, and may have another owner: only its objects are dropped.
  for made in
    select c.relname as name, case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence'
      when 'f' then 'foreign table' else 'table' end as kind
    from pg_class as c
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
      and not exists (select from pg_depend as d where d.objid = c.oid and d.deptype in ('e', 'i', 'a'))
    order by c.relkind in ('r', 'p') desc
  loop
    execute format('drop %s if exists public.%I cascade', made.kind, made.name);
  end loop;
  for made in
    select p.oid::regprocedure::text as name from pg_proc as p
    where p.pronamespace = 'public'::regnamespace
      and not exists (select from pg_depend as d where d.objid = p.oid and d.deptype = 'e')
  loop
    execute 'drop routine if exists ' || made.name || ' cascade';
  end loop;
  for made in
    select t.typname as name from pg_type as t
    where t.typnamespace = 'public'::regnamespace and t.typtype in ('c', 'd', 'e', 'r')
      and not exists (select from pg_depend as d where d.objid = t.oid and d.deptype in ('e', 'i', 'a'))
  loop
    execute format('drop type if exists public.%I cascade', made.name);
  end loop;
end
$$;
`;

async function restoreDump(
  manifest: Manifest,
  dump: string,
  databaseUrl: string,
  isTaken: boolean,
): Promise<void> {
  const programs = await findPrograms(['pg_restore', 'psql']);
  if (!programs)
    throw new RestoreRefused(
      'pg_restore and psql are not on this machine: install PostgreSQL’s client programs.',
    );
  const [clear, script] = [`${dump}.clear.sql`, `${dump}.sql`];
  await writeFile(clear, isTaken ? dropShopSchemas : '', { mode: 0o600 });
  await runProgram(join(programs, 'pg_restore'), ['--file', script, dump]);
  // One transaction: a failure leaves the database unchanged.
  const parameters = ['--no-psqlrc', '--quiet', '--single-transaction', '--set', 'ON_ERROR_STOP=1'];
  await runProgram(join(programs, 'psql'), [...parameters, '--file', clear, '--file', script], {
    databaseUrl,
  });
  const database = openPostgresql(databaseUrl, { poolSize: 1 });
  try {
    await compare(manifest, database);
  } catch (error) {
    if (!(error instanceof ContentMismatch)) throw error;
    throw new RestoredContentMismatch(
      `The restored database differs from the one that was backed up: ${error.message} The uploads were not changed.`,
    );
  } finally {
    await database.close();
  }
}
