// The manifest of a backup, its last file: a backup without one is incomplete.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { AppliedMigration } from '@jani-juice/backend/database';
import { BrokenArchive } from './archive.ts';
import type { Figures } from './copying/figures.ts';
import type { Digest } from './copying/table-rows.ts';

/** What a shop's database contains besides the rows themselves. */
export interface Content {
  migrations: AppliedMigration[];
  /** In the order in which they are inserted. */
  tables: ({ name: string; columns: string[] } & Digest)[];
  /** The last value of each sequence that was used. */
  sequences: Record<string, string>;
  sums: Figures;
}

/** Rows of every table as text, below `rows/`. They restore into the embedded database and into any PostgreSQL. */
export interface Manifest extends Content {
  format: 2;
  madeAt: string;
}

/** Until 27 November 2026. pglite: the files of an embedded database, in `database/`; postgresql: `database.dump`, of pg_dump. */
export interface FormerManifest {
  format: 1;
  database: 'pglite' | 'postgresql';
  madeAt: string;
  figures: Figures;
}

export const manifestName = 'backup.json';

/** Reads the manifest of an unpacked backup. */
export async function readManifest(folder: string): Promise<Manifest | FormerManifest> {
  const text = await readFile(join(folder, manifestName), 'utf8').catch(() => null);
  const manifest = text === null ? null : (JSON.parse(text) as { format?: number });
  if (manifest?.format === 1 || manifest?.format === 2) return manifest as Manifest | FormerManifest;
  if ((manifest?.format ?? 0) > 2)
    throw new BrokenArchive('this backup was made by a newer version of the shop');
  throw new BrokenArchive('this is no backup of a shop');
}
