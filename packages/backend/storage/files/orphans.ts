// Deletes orphans: files without a row, and work files of killed processes.
import { join } from 'node:path';
import type { Database } from '../../database/database.ts';
import { removeOlderThan } from './disk-files.ts';
import type { FileStore } from './file-store.ts';

const batch = 500;

/**
 * Sweeps once.
 * @param before only files written before this moment: a younger one may belong to an upload that is about to be done
 * @returns how many files without a row were removed
 */
export async function sweepOrphans(
  database: Database,
  files: FileStore,
  installation: string,
  before: Date,
): Promise<number> {
  let removed = 0;
  let names: string[] = [];
  const sweep = async () => {
    const versions = names.map((name) => name.slice(name.indexOf('/') + 1));
    const { rows } = await database.query<{ version: string }>(
      `select version from storage.objects
      where version in (select jsonb_array_elements_text($1::jsonb))`,
      [JSON.stringify(versions)],
    );
    const storedVersions = new Set(rows.map(({ version }) => version));
    const orphans = names.filter((_, at) => !storedVersions.has(versions[at] ?? ''));
    await files.remove(orphans);
    removed += orphans.length;
    names = [];
  };
  for await (const name of files.olderThan(installation, before)) {
    names.push(name);
    if (names.length === batch) await sweep();
  }
  if (names.length > 0) await sweep();
  await removeOlderThan(files.workFolder, before);
  return removed;
}

/** The folder of a resumable upload's parts, within the work folder. */
export const resumableFolder = (files: FileStore): string => join(files.workFolder, 'resumable');

/** The folder of rendered images, within the work folder. */
export const renderedFolder = (files: FileStore): string => join(files.workFolder, 'rendered');

/**
 * Reads which folder of the file store belongs to a database.
 * @throws Error when the storage schema is not there
 */
export async function readInstallation(database: Database): Promise<string> {
  const { rows } = await database.query<{ id: string }>('select id from storage.installations');
  if (!rows[0]) throw new Error('storage.installations has no row');
  return rows[0].id;
}
