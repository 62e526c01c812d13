// Puts a backup in the place of a shop's data. What was there before is set aside, never deleted.
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { lockFolder } from '../../backend/database/folder-lock.ts';
import { openPostgresql } from '../../backend/database/postgresql.ts';
import { syncFolder, unpackArchive } from './archive.ts';
import { checkEmbedded, compare } from './check-backup.ts';
import { type Manifest, readManifest } from './manifest.ts';
import { findPrograms, runProgram } from './postgresql-programs.ts';

/** A restore that was not begun, for a reason that its message tells. */
export class RestoreRefused extends Error {
  override readonly name = 'RestoreRefused';
}

export interface RestoreOptions {
  archive: string;
  dataDir: string;
  /** Where a backup of a PostgreSQL is restored to. */
  databaseUrl: string | null;
  /** Takes the place of data that is there. */
  replaces: boolean;
}

/**
 * Restores a backup into a shop that does not run.
 * @returns when the backup was made, and where the former data was put, null when there was none
 * @throws RestoreRefused, FolderInUse when the shop runs, BrokenArchive, NotTheSame
 */
export async function restoreBackup(
  options: RestoreOptions,
): Promise<{ madeAt: string; setAside: string | null }> {
  const { archive, dataDir, databaseUrl, replaces } = options;
  await mkdir(dataDir, { recursive: true });
  // A shop that runs holds this lock, and none can start as long as we do.
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
          : 'This is a backup of a PostgreSQL: set DATABASE_URL to the database it shall be restored to.',
      );
    }
    const present = await dataIn(dataDir);
    const isTaken = databaseUrl ? await holdsShop(databaseUrl) : present.length > 0;
    if (isTaken && !replaces) {
      throw new RestoreRefused(
        databaseUrl
          ? 'There is a shop in that database. With --replace the backup takes its place, and the shop there is gone.'
          : `There is a shop's data in ${dataDir}. With --replace it is set aside, and the backup takes its place.`,
      );
    }
    if (databaseUrl) await restoreDump(manifest, join(work, 'database.dump'), databaseUrl);
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
    await syncFolder(dataDir);
    return { madeAt: manifest.madeAt, setAside };
  } finally {
    await rm(work, { recursive: true, force: true });
    await unlock();
  }
}

/** What of a shop is in a folder. Backups, mails and the simulator's ledger stay where they are. */
async function dataIn(dataDir: string): Promise<string[]> {
  const found = new Set(await readdir(dataDir));
  return ['database', 'storage', 'keys.json'].filter((name) => found.has(name));
}

async function holdsShop(databaseUrl: string): Promise<boolean> {
  const database = openPostgresql(databaseUrl, { poolSize: 1 });
  try {
    const { rows } = await database.query<{ others: number; is_there: boolean }>(
      `select count(*) as others, to_regclass('platform.schema_migrations') is not null as is_there
       from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`,
    );
    if ((rows[0]?.others ?? 0) > 0) {
      throw new RestoreRefused(
        'Somebody is connected to that database: stop every process of the shop first.',
      );
    }
    return rows[0]?.is_there ?? false;
  } finally {
    await database.close();
  }
}

async function restoreDump(manifest: Manifest, dump: string, databaseUrl: string): Promise<void> {
  const programs = await findPrograms();
  if (!programs)
    throw new RestoreRefused('pg_restore is not on this machine: install PostgreSQL’s client programs.');
  // All or nothing: a failure leaves the database as it was.
  const parameters = ['--clean', '--if-exists', '--single-transaction', '--exit-on-error', dump];
  await runProgram(join(programs, 'pg_restore'), parameters, { databaseUrl });
  const database = openPostgresql(databaseUrl, { poolSize: 1 });
  await compare(manifest, database).finally(() => database.close());
}
