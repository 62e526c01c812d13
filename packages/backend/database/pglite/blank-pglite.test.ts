import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { packTar } from 'modern-tar';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readBlankPglite, versionOfPglite } from './blank-pglite.ts';

let folder: string;
let packed: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'jani-blank-'));
  packed = join(folder, `${await versionOfPglite()}.tar.gz`);
});
afterAll(() => rm(folder, { recursive: true }));

const file = (name: string, body: string) => ({ header: { name, size: body.length }, body });
const archive = await packTar([
  { header: { name: '/base', type: 'directory', size: 0 } },
  file('/base/1', 'x'.repeat(700)),
  file('/PG_VERSION', '18\n'),
]);
const other = await packTar([file('/other', 'x')]);

test('reads the files and folders of the blank database of its version', async () => {
  await writeFile(packed, gzipSync(archive));
  const files = await readBlankPglite(folder);
  expect(files?.map(({ header, data }) => [header.name, data ? Buffer.from(data).toString() : null])).toEqual(
    [
      ['/base', null],
      ['/base/1', 'x'.repeat(700)],
      ['/PG_VERSION', '18\n'],
    ],
  );
});

test.each([
  ['is truncated', () => gzipSync(archive).subarray(0, 60)],
  ['ends within a file', () => gzipSync(archive.subarray(0, 1536))],
  ['contains no database', () => gzipSync(other)],
  ['is no archive', () => gzipSync('files')],
  ['is empty', () => Buffer.alloc(0)],
])('is not used when it %s', async (_, content) => {
  await writeFile(packed, content());
  expect(await readBlankPglite(folder)).toBeNull();
});

test('is not used when it is of another version', async () => {
  await rm(packed, { force: true });
  await writeFile(join(folder, '0.0.1.tar.gz'), gzipSync(archive));
  expect(await readBlankPglite(folder)).toBeNull();
});
