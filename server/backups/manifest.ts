// The manifest of a backup, its last file: a backup without one is incomplete.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { BrokenArchive } from './archive.ts';
import type { Figures } from './figures.ts';

export interface Manifest {
  format: 1;
  /** pglite: the folder `database/`; postgresql: the file `database.dump`, made by pg_dump. */
  database: 'pglite' | 'postgresql';
  madeAt: string;
  figures: Figures;
}

export const manifestName = 'backup.json';

/** Reads the manifest of an unpacked backup. */
export async function readManifest(folder: string): Promise<Manifest> {
  const text = await readFile(join(folder, manifestName), 'utf8').catch(() => null);
  const manifest = text === null ? null : (JSON.parse(text) as Manifest);
  if (manifest?.format !== 1) throw new BrokenArchive('this is no backup of a shop');
  return manifest;
}
