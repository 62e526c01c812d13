// A blank embedded database, packed: to begin with a copy costs a quarter of what it costs to make one.
import { access, readdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';

/**
 * Reads the blank database for a folder that has none yet.
 * @param blanks where packed ones are, each named after the version of PGlite that made it
 * @param folder where the database is to be; absent: in memory
 * @returns the archive as PGlite loads it; null when the folder holds anything, or when there is none of this version or
 *   none that can be read: PGlite makes a database by itself then
 */
export async function blankPglite(blanks: string, folder?: string): Promise<Blob | null> {
  if (folder && (await readdir(folder)).length > 0) return null;
  const packed = join(blanks, `${await versionOfPglite()}.tar.gz`);
  if (!(await isThere(packed))) return null;
  return promisify(gunzip)(await readFile(packed)).then(
    (archive) => new Blob([archive as Uint8Array<ArrayBuffer>]),
    () => null,
  );
}

/** The version of PGlite that is installed. */
export async function versionOfPglite(): Promise<string> {
  // Its package does not export its own description: that lies beside what it does.
  const program = createRequire(import.meta.url).resolve('@electric-sql/pglite');
  return JSON.parse(await readFile(join(dirname(program), '../package.json'), 'utf8')).version;
}

const isThere = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  );
