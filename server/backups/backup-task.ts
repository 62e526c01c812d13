// Writes a backup from a shop's database and verifies it: it is restored into an embedded database and read again.
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Database, worksWithNewer } from '@jani-juice/backend/database';
import { openPglite } from '@jani-juice/backend/pglite';
import { openPostgresql } from '@jani-juice/backend/postgresql';
import { migrationsOf } from '../start/prepare-database.ts';
import { type Entry, entriesOf, unpackArchive, writeArchive } from './archive.ts';
import { createEmbedded } from './copying/create-database.ts';
import { differenceOf, type Figures, readFigures } from './copying/figures.ts';
import { backupRows, databaseRows, entriesOfRows } from './copying/row-source.ts';
import { ContentMismatch } from './copying/write-rows.ts';
import { type Content, type Manifest, manifestName, readManifest } from './manifest.ts';

/** A backup to make. */
export interface BackupTask {
  /** Path of the archive. */
  archive: string;
  madeAt: string;
  /** An existing folder for temporary files. */
  work: string;
  /** The folder with the migrations: a release, or the project's. */
  root: string;
  dataDir: string;
  includesFiles: boolean;
  /** A copy of an embedded database, and the figures that it had. Null: PostgreSQL. */
  copy: { folder: string; figures: Figures } | null;
  /** The archive exists and is only verified. */
  isCheck?: boolean;
}

/**
 * Makes a backup, or checks one.
 * @throws ContentMismatch when it restores to something else
 */
export async function makeBackup(task: BackupTask, databaseUrl: string): Promise<void> {
  const { copy, archive } = task;
  if (task.isCheck) {
    await verifyBackup(archive, task);
    return;
  }
  // Small buffers: each row is read once.
  const database = copy
    ? await openPglite(copy.folder, { sharedBuffers: '16MB', isDurable: false })
    : openPostgresql(databaseUrl, { poolSize: 1 });
  try {
    if (copy) await compareFigures(database, copy.figures);
    await writeBackup(database, task);
  } finally {
    await database.close();
  }
  if (copy) await rm(copy.folder, { recursive: true });
  await verifyBackup(archive, task);
}

function writeBackup(database: Database, task: BackupTask): Promise<number> {
  const { archive, dataDir, madeAt, includesFiles } = task;
  return database.transaction(
    async (session) => {
      const source = await databaseRows(session);
      async function* entries(): AsyncIterable<Entry> {
        let content: Content | undefined;
        yield* entriesOfRows(source, (read) => {
          content = read;
        });
        // After the database, because every file exists before the row that names it.
        if (includesFiles) yield* entriesOf(join(dataDir, 'storage/files'), 'files');
        yield { name: 'keys.json', file: join(dataDir, 'keys.json') };
        const manifest: Manifest = { format: 2, madeAt, ...(content as Content) };
        yield { name: manifestName, content: Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`) };
      }
      return writeArchive(archive, entries());
    },
    { readOnly: true, isolation: 'repeatable read' },
  );
}

/**
 * Restores a backup into a temporary database.
 * @throws ContentMismatch, BrokenArchive
 */
export async function verifyBackup(
  archive: string,
  { work, root }: Pick<BackupTask, 'work' | 'root'>,
): Promise<void> {
  const unpacked = join(work, 'unpacked');
  await unpackArchive(archive, unpacked);
  const manifest = await readManifest(unpacked);
  if (manifest.format !== 2) throw new Error('only backups of this version are verified');
  const rows = backupRows(unpacked, manifest);
  if (await worksWithNewer(manifest.migrations, migrationsOf(root))) {
    // This version cannot create the tables of a newer one. What it can verify is that the rows are read again.
    for (const { name } of rows.tables) for await (const _ of rows.read(name));
    await rows.finish();
    return;
  }
  await createEmbedded({ folder: join(work, 'check'), isTemporary: true }, rows, root);
}

/** @throws ContentMismatch */
export async function compareFigures(database: Database, figures: Figures): Promise<void> {
  const difference = differenceOf(figures, await database.transaction(readFigures, { readOnly: true }));
  if (difference) throw new ContentMismatch(difference);
}
