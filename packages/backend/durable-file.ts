// Files that survive a power cut whole: written beside their place, synced, then renamed.
import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { link, open, opendir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/**
 * Writes a file. After a power cut, it has its former content or all of the new one.
 * @param options `mode`: default 0o600. `isNew`: fails with EEXIST if the file exists, also when another process creates it concurrently
 */
export async function writeDurably(
  path: string,
  content: string | Uint8Array,
  { mode = 0o600, isNew = false }: { mode?: number; isNew?: boolean } = {},
): Promise<void> {
  const draft = `${path}.${randomBytes(6).toString('hex')}.draft`;
  try {
    const file = await open(draft, 'wx', mode);
    try {
      await file.writeFile(content);
      await file.sync();
    } finally {
      await file.close();
    }
    // A hard link is atomic, and only one process can create it.
    if (isNew) await link(draft, path);
    else await rename(draft, path);
    await syncFile(dirname(path));
  } finally {
    await rm(draft, { force: true });
  }
}

/** Waits until a file or the names in a folder are on the disk. */
export async function syncFile(path: string): Promise<void> {
  const file = await open(path, constants.O_RDONLY);
  try {
    await file.sync();
  } catch (error) {
    // Some systems cannot sync a folder.
    if (!['EINVAL', 'EPERM', 'EISDIR', 'EBADF'].includes((error as NodeJS.ErrnoException).code ?? ''))
      throw error;
  } finally {
    await file.close();
  }
}

/** Waits until a folder and everything in it are on the disk. */
export async function syncTree(folder: string): Promise<void> {
  for await (const entry of await opendir(folder)) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await syncTree(path);
    else await syncFile(path);
  }
  await syncFile(folder);
}
