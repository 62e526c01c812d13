// A process killed between writing a file and its row, or between a row and the removal of the replaced file, leaves no row without
// a file; the sweep removes files without a row.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Claims } from '../database/as-role.ts';
import type { Database } from '../database/database.ts';
import { openPglite } from '../database/pglite/pglite.ts';
import { runProgram } from '../testing/run-program.ts';
import { copyMigratedDatabase, platform } from '../testing/throwaway.ts';
import { createDiskFiles } from './files/disk-files.ts';
import { FileMissing } from './files/file-store.ts';
import { readInstallation, sweepOrphans } from './files/orphans.ts';
import { createStorageService } from './service.ts';

const house: Claims = { role: 'service_role' };

// Uploads one version of an object after another, prints each when it is stored, and is killed in the middle of a chosen step.
const uploader = `
  import { openPglite } from './packages/backend/database/pglite/pglite.ts';
  import { createDiskFiles } from './packages/backend/storage/files/disk-files.ts';
  import { createStorageService } from './packages/backend/storage/service.ts';
  const { FOLDER, DIES } = process.env;
  const [step, count] = DIES.split(' ');
  const disk = createDiskFiles(FOLDER + '/storage');
  let calls = 0;
  const dying = (name) => async (...given) => {
    const dies = name === step && ++calls === Number(count);
    if (dies && name === 'remove') process.kill(process.pid, 'SIGKILL');
    const result = await disk[name](...given);
    if (dies) process.kill(process.pid, 'SIGKILL');
    return result;
  };
  const files = { ...disk, put: dying('put'), remove: dying('remove') };
  const database = await openPglite(FOLDER + '/database', { sharedBuffers: '16MB' });
  const service = await createStorageService({ database, files, signingSecret: 'secret' });
  for (let version = 1; ; version += 1) {
    const response = await service.fetch(
      new Request('http://shop/storage/v1/object/box/a.txt', {
        method: 'POST',
        headers: { 'x-upsert': 'true', 'content-type': 'text/plain' },
        body: 'version ' + version,
      }),
      { claims: { role: 'service_role' }, address: null },
    );
    if (response.status !== 200) throw new Error(await response.text());
    process.stdout.write(version + '\\n');
  }
`;

/** Returns the last version that was acknowledged before the process was killed. */
async function uploadUntilKilled(folder: string, dies: string): Promise<number> {
  const { end, output, errors } = await runProgram(uploader, { FOLDER: folder, DIES: dies }).ended;
  if (end !== 'SIGKILL') throw new Error(`the uploader ended by itself: ${errors}`);
  return Number(output.trim().split('\n').at(-1));
}

const later = () => new Date(Date.now() + 60_000);

async function withDatabase<T>(folder: string, work: (database: Database) => Promise<T>): Promise<T> {
  const database = await openPglite(join(folder, 'database'), { isDurable: false, sharedBuffers: '16MB' });
  try {
    return await work(database);
  } finally {
    await database.close();
  }
}

test('after a kill the object has its last acknowledged content or a later one, and other files are swept', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'jani-storage-kill-'));
  await copyMigratedDatabase(join(folder, 'database'), [platform]);
  await withDatabase(folder, async (database) => {
    await database.query(`insert into storage.buckets (id, name) values ('box', 'box')`);
  });
  for (const dies of ['put 3', 'remove 2']) {
    const acknowledged = await uploadUntilKilled(folder, dies);
    expect(acknowledged).toBeGreaterThan(0);
    await withDatabase(folder, async (database) => {
      const files = createDiskFiles(join(folder, 'storage'));
      const installation = await readInstallation(database);
      const stored = async () => {
        const names: string[] = [];
        for await (const name of files.olderThan(installation, later())) names.push(name);
        return names;
      };
      const service = await createStorageService({ database, files, signingSecret: 'secret' });
      const read = async () => {
        const request = new Request('http://shop/storage/v1/object/authenticated/box/a.txt');
        return (await service.fetch(request, { claims: house, address: null })).text();
      };
      const content = await read();
      expect(Number(content.replace('version ', '')), dies).toBeGreaterThanOrEqual(acknowledged);
      expect(await stored()).toHaveLength(2);

      // Young files may belong to an upload in progress.
      const anHourAgo = new Date(Date.now() - 3_600_000);
      expect(await sweepOrphans(database, files, installation, anHourAgo)).toBe(0);
      // Files of another database in the same folder are not swept.
      expect(await sweepOrphans(database, files, crypto.randomUUID(), later())).toBe(0);
      expect(await sweepOrphans(database, files, installation, later())).toBe(1);
      expect(await stored()).toHaveLength(1);
      expect(await read()).toBe(content);
      await service.close();
    });
  }
  await rm(folder, { recursive: true });
}, 120_000);

test('reports a missing file as FileMissing, and rejects names outside the folder', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'jani-files-'));
  const files = createDiskFiles(folder);
  await expect(files.read(`${crypto.randomUUID()}/${crypto.randomUUID()}`)).rejects.toBeInstanceOf(
    FileMissing,
  );
  for (const name of ['../../etc/passwd', '../work/12345678', 'a/../../../../etc/passwd', '']) {
    await expect(files.read(name), name).rejects.toThrow('names no file');
  }
  await rm(folder, { recursive: true });
});
