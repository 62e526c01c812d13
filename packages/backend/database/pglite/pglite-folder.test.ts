import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { packTar } from 'modern-tar';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { versionOfPglite } from './blank-pglite.ts';
import { describeOpenFailure, postgresqlMajor, preparePgliteFolder } from './pglite-folder.ts';

let place: string;
let blanks: string;
let folder: string;
beforeAll(async () => {
  place = await mkdtemp(join(tmpdir(), 'jani-pglite-folder-'));
  blanks = join(place, 'blanks');
  await mkdir(blanks);
  const blank = await packTar([
    { header: { name: '/global', type: 'directory', size: 0 } },
    { header: { name: '/global/pg_control', size: 1 }, body: 'x' },
    { header: { name: '/PG_VERSION', size: 3 }, body: `${postgresqlMajor}\n` },
  ]);
  await writeFile(join(blanks, `${await versionOfPglite()}.tar.gz`), gzipSync(blank));
});
afterAll(() => rm(place, { recursive: true }));
beforeEach(async () => {
  folder = join(await mkdtemp(join(place, 'data-')), 'database');
});

const prepare = () => preparePgliteFolder(folder, { blanks, isDurable: true });
const makeFolder = async (files: Record<string, string> = {}) => {
  await mkdir(join(folder, 'global'), { recursive: true });
  const all = { PG_VERSION: `${postgresqlMajor}\n`, 'global/pg_control': 'x', ...files };
  for (const [name, content] of Object.entries(all)) await writeFile(join(folder, name), content);
};

test.each([
  ['empty', ''],
  ['of a killed process', '-42\n/pglite/data\n1795726308\n5432\n\n\n'],
  ['truncated', '-4'],
  ['of another process', '1\n/pglite/data\n'],
  ['of zeros', '\0'.repeat(55)],
  ['of arbitrary bytes', '\x07\xff\xfe\n\n'],
])('removes files of a server, %s', async (_, content) => {
  await makeFolder({
    'postmaster.pid': content,
    'postmaster.opts': content,
    '.s.PGSQL.5432': content,
    '.s.PGSQL.5432.lock': content,
    'postgresql.conf': 'kept',
  });
  await prepare();
  expect((await readdir(folder)).sort()).toEqual(['PG_VERSION', 'global', 'postgresql.conf']);
  expect((await stat(folder)).mode & 0o777).toBe(0o700);
});

test('creates a database in a new or an empty folder', async () => {
  for (const isThere of [false, true]) {
    await rm(folder, { recursive: true, force: true });
    if (isThere) await mkdir(folder);
    await prepare();
    expect((await readdir(folder)).sort()).toEqual(['PG_VERSION', 'global']);
    expect(await readdir(join(folder, '..'))).toEqual(['database']);
    expect((await stat(folder)).mode & 0o777).toBe(0o700);
  }
});

test('begins again after a first start that was interrupted', async () => {
  await mkdir(join(`${folder}.new`, 'base'), { recursive: true });
  await writeFile(join(`${folder}.new`, 'PG_VERSION'), '');
  await prepare();
  expect(await readFile(join(folder, 'PG_VERSION'), 'utf8')).toBe(`${postgresqlMajor}\n`);
  expect(await readdir(join(folder, '..'))).toEqual(['database']);
});

test.each([
  ['PG_VERSION', '', /is damaged \(its file PG_VERSION does not contain a version\)$/],
  ['PG_VERSION', '\0\0\0', /is damaged/],
  ['PG_VERSION', '1e1\n', /is damaged/],
  ['PG_VERSION', null, /is damaged \(its file PG_VERSION is missing\)$/],
  ['global/pg_control', null, /is damaged \(\S+pg_control is missing\)$/],
  ['global', null, /is damaged/],
  ['PG_VERSION', '17\n', /was written by PostgreSQL 17, but this version contains PostgreSQL 18$/],
  ['PG_VERSION', '19\n', /was written by PostgreSQL 19, but/],
  ['PG_VERSION', '19', /is damaged/],
  ['PG_VERSION', '1', /is damaged/],
] as const)('names the cause when %s contains %j', async (name, content, cause) => {
  await makeFolder({ 'base.txt': 'rows' });
  if (content === null) await rm(join(folder, name), { recursive: true });
  else await writeFile(join(folder, name), content);
  await expect(prepare()).rejects.toThrow(cause);
  expect(await readFile(join(folder, 'base.txt'), 'utf8'), 'nothing is overwritten').toBe('rows');
});

test('attributes a failed start to memory only when the error does', async () => {
  for (const [error, code] of [
    [new RangeError('WebAssembly.Memory(): could not allocate memory'), '53200'],
    [new Error('WebAssembly.instantiate(): Out of memory: Cannot allocate Wasm memory'), '53200'],
    [new Error('PGlite failed to initialize properly'), 'XX001'],
  ] as const) {
    expect(await describeOpenFailure(place, error)).toMatchObject({ code, cause: error });
  }
});
