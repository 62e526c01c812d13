// Finds PostgreSQL's programs on this machine.
import { access, constants, readdir } from 'node:fs/promises';
import { delimiter, join } from 'node:path';

/**
 * Finds the newest version of the programs on this machine.
 * @param names of the required programs
 * @returns the folder that contains all of them, or null
 */
export async function findPrograms(
  names: readonly string[],
  path = process.env.PATH ?? '',
): Promise<string | null> {
  const installed = '/usr/lib/postgresql';
  const versions = (await readdir(installed).catch(() => [])).sort((a, b) => Number(b) - Number(a));
  const folders = [
    ...versions.map((version) => join(installed, version, 'bin')),
    ...path.split(delimiter).filter(Boolean),
  ];
  for (const folder of folders) {
    const found = await Promise.all(names.map((name) => access(join(folder, name), constants.X_OK))).catch(
      () => null,
    );
    if (found) return folder;
  }
  return null;
}
