// Proves that a backup is one: restores it for real, beside the shop, and compares what came out with what went in.
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

/** The backup can be restored, but something else comes out. */
export class NotTheSame extends Error {
  override readonly name = 'NotTheSame';
}

/**
 * Unpacks, restores and compares.
 * @param archive the backup
 * @param work a folder that is made, and gone afterwards
 * @param databaseUrl where a backup made by pg_dump is restored, into a database of its own that is dropped again
 * @returns verified: restored and compared; readable: there was no right to make a database, so it was read to its end
 * @throws NotTheSame, BrokenArchive, or what restoring complained of
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

/** Opens an unpacked embedded database and compares it. It is closed again, and whole: as after a clean stop. */
export async function checkEmbedded(manifest: Manifest, folder: string): Promise<void> {
  // It is read once.
  const database = await openPglite(folder, { sharedBuffers: '16MB' });
  try {
    await compare(manifest, database);
  } finally {
    await database.close();
  }
}

/** @throws NotTheSame */
export async function compare(manifest: Manifest, database: Database): Promise<void> {
  const found = await database.transaction(readFigures, { readOnly: true });
  const difference = differenceOf(manifest.figures, found);
  if (difference) throw new NotTheSame(`the restored backup is not the same (${difference})`);
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
      // One that was killed at this point left its own.
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
