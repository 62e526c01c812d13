import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { emptyOutboxFolder, writeToOutboxFolder } from './outbox-folder.ts';

let parent: string;
let folder: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'jani-outbox-folder-'));
  folder = join(parent, 'outbox');
});
afterEach(() => rm(parent, { recursive: true }));

const day = 24 * 60 * 60 * 1000;
const later = (days: number) => new Date(Date.now() + days * day);

test('a file is readable by its owner only', async () => {
  const file = await writeToOutboxFolder(folder, 'eml', 'To: amina@jani.example');
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect((await stat(folder)).mode & 0o777).toBe(0o700);
});

test('deletes its files after the configured days, and no other files', async () => {
  const file = await writeToOutboxFolder(folder, 'json', '{}');
  await writeFile(join(folder, 'notes.txt'), 'mine');
  const limits = { days: 30, maxFiles: 100 };
  expect(await emptyOutboxFolder(folder, { ...limits, now: later(29) })).toBe(0);
  expect((await readdir(folder)).sort()).toEqual([basename(file), 'notes.txt']);
  expect(await emptyOutboxFolder(folder, { ...limits, now: later(31) })).toBe(1);
  expect(await readdir(folder)).toEqual(['notes.txt']);
});

test('retains the newest files up to the maximum', async () => {
  const files: string[] = [];
  for (let count = 0; count < 5; count += 1) {
    files.push(basename(await writeToOutboxFolder(folder, 'eml', String(count))));
    // File names contain milliseconds.
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  expect(await emptyOutboxFolder(folder, { days: 30, maxFiles: 2 })).toBe(3);
  expect((await readdir(folder)).sort()).toEqual(files.slice(3));
});

test('treats a missing folder as empty', async () => {
  expect(await emptyOutboxFolder(folder, { days: 30, maxFiles: 2 })).toBe(0);
});
