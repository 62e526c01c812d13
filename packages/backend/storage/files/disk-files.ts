// Files on a local disk. Names never come from a request: they are an installation and a random version.
import { constants } from 'node:fs';
import { copyFile, link, mkdir, open, opendir, rename, rm, stat, unlink } from 'node:fs/promises';
import { dirname, join, resolve, sep } from 'node:path';
import { syncFile } from '../../durable-file.ts';
import { type ByteRange, FileMissing, type FileStore } from './file-store.ts';

/**
 * Stores files in a folder.
 * @param folder created when missing; contains `files/` and `work/`, on the same disk so that files can be renamed
 */
export function createDiskFiles(folder: string): FileStore {
  const root = resolve(folder, 'files');
  const pathOf = (name: string): string => {
    const [installation = '', version = ''] = name.split('/');
    // Spread over folders: some file systems are slow with very many files in one.
    const path = resolve(root, installation, version.slice(0, 2), version);
    if (!path.startsWith(root + sep) || version.length < 8) throw new Error(`"${name}" names no file`);
    return path;
  };
  return {
    workFolder: resolve(folder, 'work'),

    async put(name, workFile) {
      const path = pathOf(name);
      await syncFile(workFile);
      await makeFolder(dirname(path));
      await rename(workFile, path);
      await syncFile(dirname(path));
    },

    async copy(from, to) {
      const path = pathOf(to);
      await makeFolder(dirname(path));
      try {
        // Content never changes, so two names may share it.
        await link(pathOf(from), path);
      } catch (error) {
        if (isMissing(error)) throw new FileMissing(from);
        await copyFile(pathOf(from), path, constants.COPYFILE_EXCL);
        await syncFile(path);
      }
      await syncFile(dirname(path));
    },

    async read(name, range?: ByteRange) {
      const file = await open(pathOf(name)).catch((error) => {
        throw isMissing(error) ? new FileMissing(name) : error;
      });
      return file.createReadStream(range ? { start: range.first, end: range.last } : {});
    },

    async remove(names) {
      for (const name of names) {
        await unlink(pathOf(name)).catch((error) => {
          if (!isMissing(error)) throw error;
        });
      }
    },

    async *olderThan(installation, moment) {
      for await (const part of entries(join(root, installation))) {
        for await (const version of entries(join(root, installation, part))) {
          const found = await stat(join(root, installation, part, version)).catch(() => null);
          // ctime: a hard link made by a copy is newer than its content.
          if (found?.isFile() && found.ctime < moment) yield `${installation}/${version}`;
        }
      }
    },
  };
}

/** Deletes files that killed processes left before a moment. */
export async function removeOlderThan(folder: string, moment: Date): Promise<void> {
  for await (const name of entries(folder)) {
    const path = join(folder, name);
    const found = await stat(path).catch(() => null);
    if (found?.isFile() && found.mtime < moment) await rm(path, { force: true });
  }
}

async function* entries(folder: string): AsyncIterable<string> {
  try {
    for await (const entry of await opendir(folder)) yield entry.name;
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}

async function makeFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true });
  // A new folder is durable once its parent is synced.
  if (first) for (let at = folder; at.length >= first.length; at = dirname(at)) await syncFile(dirname(at));
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException)?.code === 'ENOENT';
}
