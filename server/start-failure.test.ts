import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readConfig } from './config.ts';
import { openLog } from './log.ts';
import { startShop } from './shop.ts';
import { describeStartFailure } from './start-failure.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'jani-start-'));
});
afterAll(() => rm(folder, { recursive: true }));

const failureOf = async (environment: Record<string, string>): Promise<string> => {
  const start = async () => {
    const log = openLog(environment.LOG_LEVEL ?? 'silent');
    const config = readConfig(
      { PORT: '0', SEED: 'none', DATA_DIR: join(folder, 'data'), ...environment },
      root,
    );
    const shop = await startShop({
      config,
      root,
      log,
      build: () => Promise.reject(new Error('no page is requested')),
      mode: 'development',
      assets: (_request, _response, next) => next(),
    });
    await shop.close();
  };
  return start().then(() => 'it started', describeStartFailure);
};

test('describes a file in place of the data folder', async () => {
  await writeFile(join(folder, 'file'), '');
  expect(await failureOf({ DATA_DIR: join(folder, 'file') })).toMatch(
    /^\S+file cannot be used .*check DATA_DIR[^\n]*$/,
  );
});

test('describes an unreachable database without its password', async () => {
  const failure = await failureOf({ DATABASE_URL: 'postgres://shop:hush@127.0.0.1:1/shop' });
  expect(failure).toMatch(/^The database cannot be used \(.*ECONNREFUSED.*\); check DATABASE_URL[^\n]*$/);
  expect(failure).not.toContain('hush');
});

test('describes a port in use', async () => {
  const other = createServer();
  await new Promise<void>((done) => other.listen(0, '127.0.0.1', () => done()));
  const { port } = other.address() as { port: number };
  expect(await failureOf({ PORT: String(port), SIMULATOR_PORT: '0' })).toBe(
    `Port ${port} is taken; set PORT to a free one.`,
  );
  other.close();
});

test('describes an unknown log level', async () => {
  expect(await failureOf({ LOG_LEVEL: 'loud' })).toMatch(
    /^LOG_LEVEL is "loud", but it takes trace or debug[^\n]*$/,
  );
});

test('describes an embedded database with unusable files', async () => {
  await mkdir(join(folder, 'halved/database'), { recursive: true });
  await writeFile(join(folder, 'halved/database/PG_VERSION'), '18\n');
  expect(await failureOf({ DATA_DIR: join(folder, 'halved') })).toMatch(
    /^The embedded database in \S+halved\/database could not be opened \(.*room on its disk[^\n]*npm run restore\.$/,
  );
});

test('describes a folder in use, and a changed migration history', async () => {
  await mkdir(join(folder, 'used'), { recursive: true });
  const { lockFolder } = await import('../backend/database/folder-lock.ts');
  const unlock = await lockFolder(join(folder, 'used/database'));
  expect(await failureOf({ DATA_DIR: join(folder, 'used') })).toMatch(
    /is in use by another running process[^\n]*$/,
  );
  await unlock();
});

test('describes a broken keys file', async () => {
  await mkdir(join(folder, 'keyless'), { recursive: true });
  await writeFile(join(folder, 'keyless/keys.json'), '{"secret":"sb_secret_hush"');
  const failure = await failureOf({ DATA_DIR: join(folder, 'keyless') });
  expect(failure).toMatch(/^\S+keys\.json does not hold API keys and signing keys; [^\n]*$/);
  expect(failure).not.toContain('hush');
});

test('includes the stack of an internal error', () => {
  expect(describeStartFailure(new TypeError('x is not a function'))).toContain('start-failure.test.ts');
});
