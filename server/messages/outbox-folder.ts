// The folder for emails and texts without a mail server or gateway. Files contain personal data and codes, so they are deleted soon.
import { randomBytes } from 'node:crypto';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { writeDurably } from '@jani-juice/backend/files';

/** Times in file names sort chronologically. */
const stampOf = (moment: Date): string => moment.toISOString().replaceAll(':', '-');
const outboxFileName = /^\d{4}-\d\d-\d\dT[\d.-]+Z-[0-9a-f]{6}\.(?:eml|json)(?:\.[0-9a-f]{12}\.draft)?$/;

/**
 * Writes a file that only its owner may read: its codes and links open accounts.
 * @returns path of the file
 * @throws when the folder cannot be written
 */
export async function writeToOutboxFolder(
  folder: string,
  extension: 'eml' | 'json',
  content: string | Buffer,
): Promise<string> {
  const file = join(folder, `${stampOf(new Date())}-${randomBytes(3).toString('hex')}.${extension}`);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await writeDurably(file, content, { isNew: true });
  return file;
}

/**
 * Deletes files older than `days`, and the oldest files beyond `maxFiles`. Files of other programs are not deleted.
 * @returns number of files deleted
 * @throws when the folder cannot be read
 */
export async function emptyOutboxFolder(
  folder: string,
  { days, maxFiles, now = new Date() }: { days: number; maxFiles: number; now?: Date },
): Promise<number> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  const files = names.filter((name) => outboxFileName.test(name)).sort();
  const oldest = stampOf(new Date(now.getTime() - days * 24 * 60 * 60 * 1000));
  const due = files.filter((name, index) => name < oldest || index < files.length - maxFiles);
  // Another process of this shop may delete the same file.
  for (const name of due) await rm(join(folder, name), { force: true });
  return due.length;
}
