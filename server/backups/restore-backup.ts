// Replaces a shop's data with a backup. The former data is moved aside, never deleted.
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { lockFolder, syncFile } from '@jani-juice/backend/files';
import { openPglite } from '@jani-juice/backend/pglite';
import { createDiskFiles, type FileStore } from '@jani-juice/backend/storage';
import { unpackArchive } from './archive.ts';
import { compareFigures } from './backup-task.ts';
import { copyFiles } from './copying/copy-files.ts';
import { createEmbedded, createInPostgresql, findOccupant, Refused } from './copying/create-database.ts';
import { backupRows, databaseRows, type RowSource } from './copying/row-source.ts';
import { type FormerManifest, type Manifest, readManifest } from './manifest.ts';

export interface RestoreOptions {
  archive: string;
  dataDir: string;
  /** The PostgreSQL database to restore to. Null: the embedded database in `dataDir`. */
  databaseUrl: string | null;
  /** A store elsewhere for uploaded files. Null: they are in `dataDir`. */
  files: FileStore | null;
  /** Replaces existing data. */
  replaces: boolean;
  /** The project's folder. */
  root: string;
}

/**
 * Restores a backup of either database into either database. The shop must be stopped.
 * @returns time of the backup, and the folder of the former data, null when there was none
 * @throws Refused, FolderInUse when the shop runs, BrokenArchive, ContentMismatch. The former data is in its place then
 */
export async function restoreBackup(
  options: RestoreOptions,
): Promise<{ madeAt: string; setAside: string | null }> {
  const { archive, dataDir, databaseUrl, files, replaces, root } = options;
  await mkdir(dataDir, { recursive: true });
  // A running shop holds this lock, and no shop can start while this process holds it.
  const unlock = await lockFolder(join(dataDir, 'database'));
  const moment = new Date().toISOString().replace(/\.\d+/, '').replaceAll(':', '-');
  const work = join(dataDir, `restoring-${moment}`);
  try {
    // What a restore that was killed has left.
    for (const name of await readdir(dataDir)) {
      if (name.startsWith('restoring-')) await rm(join(dataDir, name), { recursive: true });
    }
    await unpackArchive(archive, work, { isDurable: true });
    const manifest = await readManifest(work);
    const present = await listShopData(dataDir, databaseUrl !== null);
    const occupant = databaseUrl ? await findOccupant(databaseUrl) : null;
    if (occupant === 'a Supabase project') {
      throw new Refused(
        'DATABASE_URL is the database of a Supabase project: use npm run move to move a shop there.',
      );
    }
    const isOccupied = databaseUrl ? occupant === 'a shop' : present.length > 0;
    if (isOccupied && !replaces) {
      throw new Refused(
        databaseUrl
          ? 'There is a shop in that database. With --replace the backup replaces it, and its data is lost.'
          : `There is a shop's data in ${dataDir}. With --replace it is set aside, and the backup takes its place.`,
      );
    }
    // Before anything is replaced: files never change, and those without rows do no harm.
    const hasFiles = (await readdir(work)).includes('files');
    if (files && hasFiles) await storeFiles(work, files);
    const created = join(work, 'created');
    await withRows(manifest, work, (source) =>
      databaseUrl
        ? createInPostgresql(databaseUrl, source, root, isOccupied)
        : createEmbedded({ folder: created, isTemporary: false }, source, root),
    );

    const setAside = present.length > 0 ? join(dataDir, `replaced-${moment}`) : null;
    if (setAside) {
      await mkdir(setAside, { mode: 0o700 });
      for (const name of present) await rename(join(dataDir, name), join(setAside, name));
    }
    if (!files && hasFiles) {
      await mkdir(join(dataDir, 'storage'), { recursive: true });
      await rename(join(work, 'files'), join(dataDir, 'storage/files'));
    }
    if ((await readdir(work)).includes('keys.json'))
      await rename(join(work, 'keys.json'), join(dataDir, 'keys.json'));
    if (!databaseUrl) await rename(created, join(dataDir, 'database'));
    await syncFile(dataDir);
    return { madeAt: manifest.madeAt, setAside };
  } finally {
    await rm(work, { recursive: true, force: true });
    await unlock();
  }
}

/** Files and folders that a backup replaces. Backups, emails and the simulator's ledger are not moved. */
async function listShopData(dataDir: string, isPostgresql: boolean): Promise<string[]> {
  const found = new Set(await readdir(dataDir));
  const names = isPostgresql ? ['storage', 'keys.json'] : ['database', 'storage', 'keys.json'];
  return names.filter((name) => found.has(name));
}

async function storeFiles(work: string, files: FileStore): Promise<void> {
  for (const installation of await readdir(join(work, 'files'))) {
    await copyFiles(installation, createDiskFiles(work), files);
  }
}

/** Opens the rows of an unpacked backup. */
async function withRows<Result>(
  manifest: Manifest | FormerManifest,
  folder: string,
  work: (source: RowSource) => Promise<Result>,
): Promise<Result> {
  if (manifest.format === 2) return work(backupRows(folder, manifest));
  if (manifest.database === 'postgresql') {
    throw new Refused(
      'This backup was made by pg_dump, until November 2026. The section Backups of docs/operating.md has the steps that restore it.',
    );
  }
  const database = await openPglite(join(folder, 'database'), { sharedBuffers: '16MB' });
  try {
    await compareFigures(database, manifest.figures);
    return await database.transaction(async (session) => work(await databaseRows(session)));
  } finally {
    await database.close();
  }
}
