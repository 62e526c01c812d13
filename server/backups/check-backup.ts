// Verifies a backup: restores it beside the shop and compares the content.
import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Database } from '../../backend/database/database.ts';
import { openPglite } from '../../backend/database/pglite.ts';
import { openPostgresql } from '../../backend/database/postgresql.ts';
import { unpackArchive } from './archive.ts';
import { differenceOf, readFigures } from './figures.ts';
import { type Manifest, readManifest } from './manifest.ts';
import { findPrograms, runProgram } from './postgresql-programs.ts';

/** The backup can be restored, but has other content than the shop. */
export class ContentMismatch extends Error {
  override readonly name = 'ContentMismatch';
}

/**
 * Unpacks, restores and compares.
 * @param archive the backup
 * @param work a folder that is created, and deleted afterwards
 * @param databaseUrl server on which a backup made by pg_dump is restored, into a temporary database
 * @returns verified: restored and compared; readable: read to its end, without the right to create a database
 * @throws ContentMismatch, BrokenArchive, or an error of restoring
 */
export async function checkBackup(
  archive: string,
  work: string,
  databaseUrl: string | null,
): Promise<'verified' | 'readable'> {
  try {
    await unpackArchive(archive, work);
    const manifest = await readManifest(work);
    if (manifest.database === 'postgresql') return await checkDump(manifest, work, databaseUrl);
    await checkEmbedded(manifest, join(work, 'database'));
    return 'verified';
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Opens an unpacked embedded database, compares it, and closes it as a clean stop does. */
export async function checkEmbedded(manifest: Manifest, folder: string): Promise<void> {
  // Small buffers: each row is read once.
  const database = await openPglite(folder, { sharedBuffers: '16MB' });
  try {
    await compare(manifest, database);
  } finally {
    await database.close();
  }
}

/** @throws ContentMismatch */
export async function compare(manifest: Manifest, database: Database): Promise<void> {
  const found = await database.transaction(readFigures, { readOnly: true });
  const difference = differenceOf(manifest.figures, found);
  if (difference) throw new ContentMismatch(`the restored backup is not the same (${difference})`);
}

async function checkDump(
  manifest: Manifest,
  work: string,
  databaseUrl: string | null,
): Promise<'verified' | 'readable'> {
  const programs = await findPrograms();
  if (!programs) throw new Error('pg_restore is not on this machine');
  const pgRestore = join(programs, 'pg_restore');
  const dump = join(work, 'database.dump');
  const server = databaseUrl ? openPostgresql(databaseUrl, { poolSize: 1 }) : null;
  try {
    const name = `backup_check_${fingerprintOf(databaseUrl ?? '')}`;
    const isMade = await server
      // A process that was killed at this point left its temporary database.
      ?.execute(`drop database if exists ${name} with (force)`)
      .then(() => server.execute(`create database ${name} template template0`))
      .then(
        () => true,
        () => false,
      );
    if (!server || !databaseUrl || !isMade) {
      await runProgram(pgRestore, ['--file', '/dev/null', dump]);
      return 'readable';
    }
    const url = new URL(databaseUrl);
    url.pathname = `/${name}`;
    try {
      await runProgram(pgRestore, ['--exit-on-error', dump], { databaseUrl: url.href });
      const restored = openPostgresql(url.href, { poolSize: 1 });
      await compare(manifest, restored).finally(() => restored.close());
    } finally {
      await server.execute(`drop database ${name} with (force)`);
    }
    return 'verified';
  } finally {
    await server?.close();
  }
}

function fingerprintOf(databaseUrl: string): string {
  return createHash('sha256').update(databaseUrl).digest('hex').slice(0, 12);
}
