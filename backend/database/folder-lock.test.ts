import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { FolderInUse, lockFolder } from './folder-lock.ts';

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
