import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { FolderInUse, lockAddress, lockFolder } from './folder-lock.ts';

let place: string;
beforeAll(async () => {
  place = await mkdtemp(join(tmpdir(), 'jani-folder-lock-'));
  await mkdir(join(place, 'data'));
  await symlink(join(place, 'data'), join(place, 'link'));
});
afterAll(() => rm(place, { recursive: true }));

test('a folder is locked once and can be locked again after release', async () => {
  const unlock = await lockFolder(join(place, 'data/database'));
  await expect(lockFolder(join(place, 'data/database'))).rejects.toThrow(FolderInUse);
  await unlock();
  await (await lockFolder(join(place, 'data/database')))();
});

test('a folder behind a symbolic link shares its lock, whether it exists or not', async () => {
  for (const isMade of [false, true]) {
    if (isMade) await mkdir(join(place, 'data/database'));
    const unlock = await lockFolder(join(place, 'data/database'));
    await expect(lockFolder(join(place, 'link/database'))).rejects.toThrow(FolderInUse);
    await unlock();
  }
});

test('anything that a power cut left in place of the socket is no lock', async () => {
  const folder = join(place, 'data/database');
  const address = lockAddress(join(await realpath(place), 'data/database'));
  for (const leave of [
    () => writeFile(address, ''),
    () => writeFile(address, '4711'),
    () => mkdir(address),
  ]) {
    await leave();
    const unlock = await lockFolder(folder);
    await expect(lockFolder(folder)).rejects.toThrow(FolderInUse);
    await unlock();
  }
});

test('names the setting when there is no temporary folder', async () => {
  const { TMPDIR } = process.env;
  process.env.TMPDIR = join(place, 'missing');
  await expect(lockFolder(join(place, 'data/database'))).rejects.toThrow(/set TMPDIR to one in which/);
  if (TMPDIR === undefined) delete process.env.TMPDIR;
  else process.env.TMPDIR = TMPDIR;
});
