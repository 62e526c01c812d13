// Refusals of the commands `npm run backup`, `npm run restore` and `npm run move`.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { openPglite } from '@jani-juice/backend/pglite';
import { sharedBuffers } from '@jani-juice/backend/testing';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { freePort } from '../../scripts/tests/free-port.ts';
import { backUp, move, restore } from './backup-command.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
let dataDir: string;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'jani-command-'));
  vi.stubEnv('DATA_DIR', dataDir);
  vi.stubEnv('DATABASE_URL', '');
});
afterEach(async () => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
  await rm(dataDir, { recursive: true });
});

/** What a command writes to standard error. */
async function errorOf(command: Promise<void>): Promise<string> {
  const write = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  write.mockClear();
  await command;
  process.exitCode = undefined;
  return write.mock.calls.map(([text]) => String(text)).join('');
}

test('names a backup that does not exist', async () => {
  for (const name of ['none.tar.gz', '']) {
    const path = join(dataDir, name);
    expect(await errorOf(restore(root, root, [path, '--replace']))).toBe(
      `Nothing was restored. There is no file ${path}.\n`,
    );
  }
});

test.each([
  'postgress://jani@127.0.0.1/jani',
  'mysql://127.0.0.1/jani',
  'postgres://jani@127.0.0.1:port/jani',
])('moves to no folder with the name of the mistyped URL %s', async (url) => {
  expect(await errorOf(move(root, root, ['--to', url]))).toMatch(/is as it was\. Name the new place:/);
});

test('names the settings that find the running shop', async () => {
  const port = await freePort();
  vi.stubEnv('PORT', String(port));
  const running = await openPglite(join(dataDir, 'database'), { isDurable: false, sharedBuffers });
  await writeFile(join(dataDir, 'keys.json'), JSON.stringify({ secret: 'sb_secret_of_a_test' }));
  expect(await errorOf(backUp(root, root))).toBe(
    `No backup was made. Another process uses ${dataDir}, but no shop answers at http://127.0.0.1:${port}; set PORT and HOST as for the shop.\n`,
  );
  await running.close();
});
