// One file with the browser files of a build: a line of JSON with their places, then their contents, brotli-compressed where the build
// compressed them. Its name is the hash of its content.
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

export interface BuildFile {
  body: Buffer;
  isBrotli: boolean;
}

export interface BuildArchive {
  id: string;
  content: Buffer;
}

/** Folders whose files have the hash of their content, or a version, in their name. */
export const archivedFolders = ['assets', 'fonts'] as const;

type Places = Record<string, [start: number, end: number, isBrotli: 0 | 1]>;

const idOf = (content: Buffer) => createHash('sha256').update(content).digest('hex');

/**
 * Packs the files of a build.
 * @param folder output of the build
 */
export async function packBuild(folder: string): Promise<BuildArchive> {
  const places: Places = {};
  const bodies: Buffer[] = [];
  let end = 0;
  for (const name of archivedFolders) {
    const files = new Set(await readdir(join(folder, name)).catch(() => []));
    for (const file of [...files].sort()) {
      if (/\.(?:br|gz)$/.test(file)) continue;
      const isBrotli = files.has(`${file}.br`);
      const body = await readFile(join(folder, name, isBrotli ? `${file}.br` : file));
      places[`/${name}/${file}`] = [end, end + body.length, isBrotli ? 1 : 0];
      end += body.length;
      bodies.push(body);
    }
  }
  const content = Buffer.concat([Buffer.from(`${JSON.stringify(places)}\n`), ...bodies]);
  return { id: idOf(content), content };
}

/**
 * Reads the files of a build.
 * @returns files by their path in a URL
 * @throws when the content is not that of the archive with this id
 */
export function unpackBuild({ id, content }: BuildArchive): Map<string, BuildFile> {
  if (idOf(content) !== id) throw new Error(`the files of the build ${id} are damaged`);
  const start = content.indexOf('\n') + 1;
  const places = JSON.parse(content.subarray(0, start).toString()) as Places;
  return new Map(
    Object.entries(places).map(([path, [from, to, isBrotli]]) => [
      path,
      { body: content.subarray(start + from, start + to), isBrotli: isBrotli === 1 },
    ]),
  );
}
