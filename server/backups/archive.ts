// Packs files into one compressed archive (tar, gzip) and unpacks it, as a stream: neither the archive
// nor a file is ever in memory whole.
import { constants, createReadStream, createWriteStream } from 'node:fs';
import { lstat, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { syncFile } from '@jani-juice/backend/files';

/** An entry of an archive, with a relative name. */
export type Entry =
  | { name: string; folder: true }
  | { name: string; content: Buffer }
  /** A local file. It may change or disappear concurrently: its size is fixed when it is opened. */
  | { name: string; file: string };

const block = 512;
const piece = 256 * 1024;

/**
 * Writes an archive. It gets its name only once it is complete and on the disk.
 * @param path of the archive; readable by its owner alone
 * @returns its size in bytes
 */
export async function writeArchive(
  path: string,
  entries: AsyncIterable<Entry>,
  signal?: AbortSignal,
): Promise<number> {
  const draft = `${path}.draft`;
  try {
    await pipeline(
      Readable.from(packed(entries), { objectMode: true, highWaterMark: 1 }),
      createGzip({ level: 4 }),
      createWriteStream(draft, { mode: 0o600, flush: true }),
      signal ? { signal } : {},
    );
    await rename(draft, path);
    await syncFile(dirname(path));
    return (await lstat(path)).size;
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

async function* packed(entries: AsyncIterable<Entry>): AsyncIterable<Buffer> {
  for await (const entry of entries) {
    if ('folder' in entry) yield header(`${entry.name}/`, 0, '5');
    else if ('content' in entry) {
      yield header(entry.name, entry.content.length, '0');
      yield entry.content;
      yield padding(entry.content.length);
    } else yield* packedFile(entry.name, entry.file);
  }
  yield Buffer.alloc(2 * block);
}

async function* packedFile(name: string, path: string): AsyncIterable<Buffer> {
  const file = await open(path, constants.O_RDONLY).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (!file) return;
  try {
    const { size } = await file.stat();
    yield header(name, size, '0');
    for (let done = 0; done < size; ) {
      const buffer = Buffer.allocUnsafe(Math.min(piece, size - done));
      const { bytesRead } = await file.read(buffer, 0, buffer.length, done);
      // A file that became shorter is padded with zeros.
      if (bytesRead === 0) buffer.fill(0);
      const read = bytesRead === 0 ? buffer : buffer.subarray(0, bytesRead);
      done += read.length;
      yield read;
    }
    yield padding(size);
  } finally {
    await file.close();
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
  const source = createReadStream(path);
  const unzipped = createGunzip();
  source.on('error', (error) => unzipped.destroy(error));
  const pieces = new ByteReader(source.pipe(unzipped));
  let files = 0;
  try {
    for (;;) {
      const head = await pieces.take(block);
      if (head.every((byte) => byte === 0)) break;
      const { name, size, type } = readHeader(head);
      const target = join(folder, name);
      if (type === '5') {
        await mkdir(target, { recursive: true, mode: 0o700 });
        continue;
      }
      await mkdir(dirname(target), { recursive: true, mode: 0o700 });
      const file = await open(target, 'wx', 0o600);
      try {
        for (let left = size; left > 0; ) {
          const part = await pieces.takeUpTo(Math.min(left, piece));
          await file.write(part);
          left -= part.length;
        }
        if (options.isDurable) await file.sync();
      } finally {
        await file.close();
      }
      await pieces.take(padding(size).length);
      files += 1;
    }
    // The end of the archive is where its checksum is.
    await pieces.rest();
    return files;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code?.startsWith('Z_')) throw new BrokenArchive(`${path} is damaged: ${message}`);
    throw error;
  } finally {
    source.destroy();
    unzipped.destroy();
  }
}

/** Reads the given number of bytes from a stream. */
class ByteReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #buffered: Buffer = Buffer.alloc(0);

  constructor(stream: AsyncIterable<Buffer>) {
    this.#chunks = stream[Symbol.asyncIterator]();
  }

  async takeUpTo(most: number): Promise<Buffer> {
    while (this.#buffered.length === 0) {
      const { value, done } = await this.#chunks.next();
      if (done) throw new BrokenArchive('the archive ends too early');
      this.#buffered = value;
    }
    const bytes = this.#buffered.subarray(0, most);
    this.#buffered = this.#buffered.subarray(bytes.length);
    return bytes;
  }

  async take(bytes: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    for (let left = bytes; left > 0; ) {
      const part = await this.takeUpTo(left);
      parts.push(part);
      left -= part.length;
    }
    return Buffer.concat(parts);
  }

  async rest(): Promise<void> {
    while (!(await this.#chunks.next()).done);
  }
}

// ustar: https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html#tag_20_94_13_06
function header(name: string, size: number, type: '0' | '5'): Buffer {
  if (Buffer.byteLength(name) > 99) throw new Error(`the name ${name} is too long for an archive`);
  const head = Buffer.alloc(block);
  head.write(name, 0);
  head.write(type === '5' ? '0000700\0' : '0000600\0', 100);
  head.write('0000000\0', 108);
  head.write('0000000\0', 116);
  if (size < 8 ** 11) head.write(`${size.toString(8).padStart(11, '0')}\0`, 124);
  else {
    head[124] = 0x80;
    head.writeBigUInt64BE(BigInt(size), 128);
  }
  head.write(
    `${Math.floor(Date.now() / 1000)
      .toString(8)
      .padStart(11, '0')}\0`,
    136,
  );
  head.write(type, 156);
  head.write('ustar\u000000', 257);
  head.write(`${checksum(head).toString(8).padStart(6, '0')}\0 `, 148);
  return head;
}

function readHeader(head: Buffer): { name: string; size: number; type: string } {
  const text = (from: number, to: number) => head.toString('utf8', from, to).replace(/\0.*$/s, '');
  if (Number.parseInt(text(148, 156), 8) !== checksum(head)) {
    throw new BrokenArchive('this is no archive of ours, or it is damaged');
  }
  const name = text(0, 100).replace(/\/$/, '');
  const type = text(156, 157);
  if (!['0', '5'].includes(type) || name.startsWith('/') || name.split('/').includes('..') || name === '') {
    throw new BrokenArchive(`the archive holds "${name}", which no archive of ours does`);
  }
  const size = head[124] === 0x80 ? Number(head.readBigUInt64BE(128)) : Number.parseInt(text(124, 136), 8);
  return { name, size, type };
}

function checksum(head: Buffer): number {
  let sum = 8 * 32;
  for (const [index, byte] of head.entries()) if (index < 148 || index >= 156) sum += byte;
  return sum;
}

function padding(size: number): Buffer {
  return Buffer.alloc((block - (size % block)) % block);
}
