// Uploads in progress: a file of the work folder, measured and hashed while it is written.
import { createHash } from 'node:crypto';
import { mkdir, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { storageErrors } from '../storage-error.ts';

export interface WorkFile {
  path: string;
  size: number;
  /** MD5 in hexadecimal, for the ETag only. */
  md5: string;
}

/** An unused path in the work folder. */
export function newWorkPath(workFolder: string): string {
  return join(workFolder, crypto.randomUUID());
}

/**
 * Writes content to a file of the work folder. When it fails nothing is left there.
 * @param limit most bytes
 * @throws StorageError EntityTooLarge; whatever the source throws
 */
export async function writeWorkFile(
  workFolder: string,
  source: AsyncIterable<Uint8Array>,
  limit: number,
): Promise<WorkFile> {
  await mkdir(workFolder, { recursive: true });
  const path = newWorkPath(workFolder);
  const file = await open(path, 'wx', 0o600);
  const hash = createHash('md5');
  let size = 0;
  try {
    for await (const chunk of source) {
      size += chunk.length;
      if (size > limit) throw storageErrors.tooLarge();
      hash.update(chunk);
      for (let at = 0; at < chunk.length; ) at += (await file.write(chunk, at)).bytesWritten;
    }
    await file.close();
    return { path, size, md5: hash.digest('hex') };
  } catch (error) {
    await file.close().catch(() => {});
    await discard({ path });
    throw error;
  }
}

/** Measures and hashes a file that is already there. */
export async function measureWorkFile(path: string): Promise<WorkFile> {
  const file = await open(path);
  const hash = createHash('md5');
  let size = 0;
  try {
    for await (const chunk of file.createReadStream({ autoClose: false })) {
      size += (chunk as Buffer).length;
      hash.update(chunk as Buffer);
    }
  } finally {
    await file.close();
  }
  return { path, size, md5: hash.digest('hex') };
}

/** Deletes a work file, if it still exists. */
export function discard({ path }: Pick<WorkFile, 'path'>): Promise<void> {
  return rm(path, { force: true });
}
