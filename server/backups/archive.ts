// Packs files into one compressed archive (tar, gzip) and unpacks it, as a stream: neither the archive
// nor a file is ever in memory whole.
import { createReadStream, createWriteStream } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { syncFile } from '@jani-juice/backend/files';
import { createTarDecoder, createTarPacker, type TarPackController } from 'modern-tar';

/** An entry of an archive, with a relative name. */
export type Entry =
  | { name: string; folder: true }
  | { name: string; content: Buffer }
  /** A local file. It may change or disappear concurrently: its size is fixed when it is opened. */
  | { name: string; file: string };

const pieceBytes = 256 * 1024;

/**
 * Writes an archive. It gets its name only once it is complete and on the disk.
 * @param path of the archive; readable by its owner alone
 * @returns its size in bytes
 */
export async function writeArchive(path: string, entries: AsyncIterable<Entry>): Promise<number> {
  const draft = `${path}.draft`;
  const { readable, controller } = createTarPacker();
  try {
    await Promise.all([
      pipeline(readable, createGzip({ level: 4 }), createWriteStream(draft, { mode: 0o600, flush: true })),
      packEntries(entries, controller),
    ]);
    await rename(draft, path);
    await syncFile(dirname(path));
    return (await lstat(path)).size;
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

async function packEntries(entries: AsyncIterable<Entry>, archive: TarPackController): Promise<void> {
  const add = async (name: string, size: number, pieces: AsyncIterable<Buffer> | Iterable<Buffer>) => {
    // Earlier versions read no longer names.
    if (Buffer.byteLength(name) > 99) throw new Error(`the name ${name} is too long for an archive`);
    const writer = archive.add({ name, size, mode: 0o600 }).getWriter();
    for await (const piece of pieces) await writer.write(piece);
    await writer.close();
  };
  try {
    for await (const entry of entries) {
      if ('folder' in entry) {
        await archive.add({ name: `${entry.name}/`, size: 0, type: 'directory', mode: 0o700 }).close();
      } else if ('content' in entry) await add(entry.name, entry.content.length, [entry.content]);
      else {
        const file = await open(entry.file).catch((error: NodeJS.ErrnoException) => {
          if (error.code === 'ENOENT') return null;
          throw error;
        });
        if (!file) continue;
        try {
          const { size } = await file.stat();
          await add(entry.name, size, readPieces(file, size));
        } finally {
          await file.close();
        }
      }
    }
    archive.finalize();
  } catch (error) {
    archive.error(error);
    throw error;
  }
}

/** Reads `size` bytes of a file. If it became shorter, it is padded with zeros. */
async function* readPieces(file: FileHandle, size: number): AsyncIterable<Buffer> {
  for (let done = 0; done < size; ) {
    const buffer = Buffer.alloc(Math.min(pieceBytes, size - done));
    const { bytesRead } = await file.read(buffer, 0, buffer.length, done);
    const read = buffer.subarray(0, bytesRead || buffer.length);
    done += read.length;
    yield read;
  }
}

/** Lists the entries below a folder, folders first, without those for which `isLeftOut` is true. */
export async function* entriesOf(
  folder: string,
  under: string,
  isLeftOut: (name: string) => boolean = () => false,
): AsyncIterable<Entry> {
  async function* walk(relative: string): AsyncIterable<Entry> {
    const path = join(folder, relative);
    const found = await readdir(path, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return null;
      throw error;
    });
    if (!found) return;
    yield { name: relative ? `${under}/${relative}` : under, folder: true };
    for (const entry of found) {
      const name = relative ? `${relative}/${entry.name}` : entry.name;
      if (isLeftOut(name)) continue;
      if (entry.isDirectory()) yield* walk(name);
      else if (entry.isFile()) yield { name: `${under}/${name}`, file: join(folder, name) };
    }
  }
  yield* walk('');
}

/** An archive that is truncated, damaged, or not one of ours. */
export class BrokenArchive extends Error {
  override readonly name = 'BrokenArchive';
}

/**
 * Unpacks an archive.
 * @param folder created when missing
 * @param options.isDurable waits until each file is on the disk
 * @returns how many files there were
 * @throws BrokenArchive when it is damaged or not one of ours
 */
export async function unpackArchive(
  path: string,
  folder: string,
  options: { isDurable?: boolean } = {},
): Promise<number> {
  const { readable, writable } = createTarDecoder({ strict: true });
  // Its errors also end `readable`.
  const reading = pipeline(createReadStream(path), createGunzip(), Writable.fromWeb(writable));
  reading.catch(() => undefined);
  let files = 0;
  try {
    for await (const { header, body } of readable) {
      const { name, type = '' } = header;
      if (!['file', 'directory'].includes(type) || name.startsWith('/') || name.split('/').includes('..')) {
        throw new BrokenArchive(`the archive holds "${name}", which no archive of ours does`);
      }
      const target = join(folder, name);
      if (type === 'directory') {
        await mkdir(target, { recursive: true, mode: 0o700 });
        continue;
      }
      await mkdir(dirname(target), { recursive: true, mode: 0o700 });
      const file = createWriteStream(target, {
        flags: 'wx',
        mode: 0o600,
        flush: options.isDurable ?? false,
      });
      await pipeline(body, file);
      files += 1;
    }
    // The end of the archive is where its checksum is.
    await reading;
    return files;
  } catch (error) {
    if (error instanceof BrokenArchive || (error as NodeJS.ErrnoException).syscall) throw error;
    throw new BrokenArchive(`${path} is damaged: ${(error as Error).message}`);
  }
}
