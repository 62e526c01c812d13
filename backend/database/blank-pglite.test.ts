import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { blankPglite } from './blank-pglite.ts';

let folder: string;
let packed: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'jani-blank-'));
  const description = new URL('../../node_modules/@electric-sql/pglite/package.json', import.meta.url);
  const { version } = JSON.parse(await readFile(description, 'utf8'));
  await mkdir(join(folder, 'blanks'));
  await mkdir(join(folder, 'new'));
  packed = join(folder, 'blanks', `${version}.tar.gz`);
});
afterAll(() => rm(folder, { recursive: true }));

test('a new database is copied from the blank one of its version', async () => {
  await writeFile(packed, gzipSync('files'));
  const blank = await blankPglite(join(folder, 'blanks'), join(folder, 'new'));
  expect(await blank?.text()).toBe('files');
  expect(await (await blankPglite(join(folder, 'blanks')))?.text()).toBe('files');
});

test('a folder with any content never receives a blank database', async () => {
  await writeFile(packed, gzipSync('files'));
  // The folder of the blank databases is not empty.
  expect(await blankPglite(join(folder, 'blanks'), join(folder, 'blanks'))).toBeNull();
});

test('a database is created when the blank one of its version is missing or damaged', async () => {
  await writeFile(packed, gzipSync('files').subarray(0, 15));
  expect(await blankPglite(join(folder, 'blanks'), join(folder, 'new'))).toBeNull();
  await rm(packed);
  await writeFile(join(folder, 'blanks', '0.0.1.tar.gz'), gzipSync('files'));
  expect(await blankPglite(join(folder, 'blanks'), join(folder, 'new'))).toBeNull();
});
