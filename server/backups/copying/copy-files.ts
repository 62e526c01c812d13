// Copies uploaded files from one store to another.
import { randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { FileStore } from '@jani-juice/backend/storage';

/**
 * Copies the files of an installation that the other store does not have. A file never changes, so a copy that was interrupted
 * continues.
 * @returns how many files the installation has
 */
export async function copyFiles(installation: string, from: FileStore, to: FileStore): Promise<number> {
  const tomorrow = new Date(Date.now() + 24 * 60 * 60 * 1000);
  const present = new Set<string>();
  for await (const name of to.olderThan(installation, tomorrow)) present.add(name);
  await mkdir(to.workFolder, { recursive: true });
  let files = 0;
  for await (const name of from.olderThan(installation, tomorrow)) {
    files += 1;
    if (present.has(name)) continue;
    const path = join(to.workFolder, randomUUID());
    await pipeline(await from.read(name), createWriteStream(path, { mode: 0o600 }));
    await to.put(name, path);
  }
  return files;
}
