import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  appendFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { BrokenArchive, type Entry, entriesOf, unpackArchive, writeArchive } from './archive.ts';

let folder: string;
let archive: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'jani-archive-'));
  archive = join(folder, 'all.tar.gz');
});
afterEach(() => rm(folder, { recursive: true }));

async function* of(...entries: Entry[]): AsyncIterable<Entry> {
  yield* entries;
}

test('unpacks a packed archive, with files of every size and empty folders', async () => {
  const sizes = [0, 1, 511, 512, 513, 300_000];
  await mkdir(join(folder, 'in/deep/empty'), { recursive: true });
  for (const size of sizes) await writeFile(join(folder, `in/deep/${size}`), Buffer.alloc(size, size % 251));
  const size = await writeArchive(archive, entriesOf(join(folder, 'in'), 'out'));
  expect((await stat(archive)).size).toBe(size);
  expect((await stat(archive)).mode & 0o777).toBe(0o600);
  expect(await unpackArchive(archive, join(folder, 'back'))).toBe(sizes.length);
  for (const size of sizes) {
    const content = await readFile(join(folder, `back/out/deep/${size}`));
    expect(content.equals(Buffer.alloc(size, size % 251)), `${size} bytes`).toBe(true);
  }
  expect(await readdir(join(folder, 'back/out/deep/empty'))).toEqual([]);
});

test('can be read by the system’s tar', async () => {
  await writeArchive(archive, of({ name: 'a/b', content: Buffer.from('hello') }));
  const { stdout } = await promisify(execFile)('tar', ['-xzOf', archive, 'a/b']);
  expect(stdout).toBe('hello');
});

test('omits a deleted file, and keeps other files intact when one grows or shrinks', async () => {
  const [growing, shrinking] = [join(folder, 'growing'), join(folder, 'shrinking')];
  await writeFile(growing, Buffer.alloc(900_000, 1));
  await writeFile(shrinking, Buffer.alloc(900_000, 2));
  async function* changing(): AsyncIterable<Entry> {
    yield { name: 'gone', file: join(folder, 'gone') };
    const changes = Promise.all([appendFile(growing, Buffer.alloc(70_000, 3)), truncate(shrinking, 10)]);
    yield { name: 'growing', file: growing };
    yield { name: 'shrinking', file: shrinking };
    await changes;
    yield { name: 'last', content: Buffer.from('whole') };
  }
  await writeArchive(archive, changing());
  expect(await unpackArchive(archive, join(folder, 'back'))).toBe(3);
  expect(await readFile(join(folder, 'back/last'), 'utf8')).toBe('whole');
});

test.each([
  ['truncated', (bytes: Buffer) => bytes.subarray(0, bytes.length - 200)],
  [
    'with a byte changed',
    (bytes: Buffer) => Buffer.from(bytes.map((byte, at) => (at === 5000 ? byte ^ 1 : byte))),
  ],
  ['in another format', () => Buffer.from('no archive at all')],
  ['empty', () => Buffer.alloc(0)],
])('rejects an archive %s', async (_, spoil) => {
  const noise = randomBytes(20_000);
  await writeArchive(archive, of({ name: 'noise', content: noise }));
  await writeFile(archive, spoil(await readFile(archive)));
  await expect(unpackArchive(archive, join(folder, 'back'))).rejects.toThrow(BrokenArchive);
});

test.each(['../outside', 'a/../../outside', '/outside'])('unpacks no file to %s', async (name) => {
  await writeArchive(archive, of({ name, content: Buffer.from('x') }));
  await expect(unpackArchive(archive, join(folder, 'back'))).rejects.toThrow(BrokenArchive);
  expect((await readdir(folder)).sort()).not.toContain('outside');
});

test('leaves no file after a failure', async () => {
  async function* failing(): AsyncIterable<Entry> {
    yield { name: 'a', content: Buffer.alloc(100_000) };
    throw new Error('disk failure');
  }
  await expect(writeArchive(archive, failing())).rejects.toThrow('disk failure');
  expect(await readdir(folder)).toEqual([]);
});
