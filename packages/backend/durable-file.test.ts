import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { writeDurably } from './durable-file.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'jani-durable-'));
});
afterEach(() => rm(folder, { recursive: true }));

test('replaces a file as a whole, readable by its owner only', async () => {
  const path = join(folder, 'keys.json');
  for (const content of ['first', 'second, which is longer']) {
    await writeDurably(path, content);
    expect(await readFile(path, 'utf8')).toBe(content);
  }
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect(await readdir(folder)).toEqual(['keys.json']);
});

test('a new file is created by one of several callers', async () => {
  const path = join(folder, 'keys.json');
  const outcomes = await Promise.allSettled(
    ['a', 'b', 'c'].map((content) => writeDurably(path, content, { isNew: true })),
  );
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  expect(outcomes.flatMap((one) => (one.status === 'rejected' ? [one.reason.code] : []))).toEqual([
    'EEXIST',
    'EEXIST',
  ]);
  expect(await readdir(folder)).toEqual(['keys.json']);
});

test('leaves the former content when the new one cannot be written', async () => {
  const path = join(folder, 'keys.json');
  await writeFile(path, 'former');
  await expect(writeDurably(path, { not: 'bytes' } as never)).rejects.toThrow();
  expect(await readFile(path, 'utf8')).toBe('former');
  expect(await readdir(folder)).toEqual(['keys.json']);
});
