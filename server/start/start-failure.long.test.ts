import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DatabaseError, OtherVersion } from '@jani-juice/backend/database';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openLog } from '../monitoring/log.ts';
import { startShop } from '../shop.ts';
import { readConfig } from './settings/config.ts';
import { describeStartFailure } from './start-failure.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
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
  expect(failure).toMatch(
    /^The database cannot be used \(.*ECONNREFUSED.*\); check its address \(DATABASE_URL, [^\n]*$/,
  );
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

const restore = 'restore a backup: npm run restore -- --replace FILE';

test.each([
  ['damaged', '18\n', `damaged (\\S+pg_control is missing); ${restore} (the damaged files are moved aside).`],
  [
    'without its version',
    '',
    `damaged (its file PG_VERSION does not contain a version); ${restore} (the damaged files are moved aside).`,
  ],
  [
    'of a newer PostgreSQL',
    '19\n',
    `written by PostgreSQL 19, but this version contains PostgreSQL 18; start the newer version again (npm run update fetches it), or restore a backup of this version, which loses what came after it: npm run restore -- --replace FILE.`,
  ],
  [
    'of an older PostgreSQL',
    '17\n',
    'written by PostgreSQL 17, but this version contains PostgreSQL 18; start the version that wrote it.',
  ],
])('describes an embedded database that is %s, with the next step', async (name, version, sentence) => {
  await mkdir(join(folder, name, 'database'), { recursive: true });
  await writeFile(join(folder, name, 'database/PG_VERSION'), version);
  const failure = (await failureOf({ DATA_DIR: join(folder, name) })).replace(
    /\(\S+pg_control/,
    '(\\S+pg_control',
  );
  expect(failure).toBe(
    `The database in ${join(folder, name)}/database ${sentence.startsWith('damaged') ? 'is' : 'was'} ${sentence}`,
  );
});

test('describes errors of the database by who can end them', () => {
  for (const [error, sentence] of [
    [
      new DatabaseError('could not extend file: No space left on device', { code: '53100' }),
      /; free some space on its disk\.$/,
    ],
    [
      new DatabaseError('could not read blocks 0..0', { code: 'XX001' }),
      /; restore a backup: npm run restore/,
    ],
    [
      new DatabaseError('could not open file "base/5/1"', { code: '58P01' }),
      /; restore a backup: npm run restore/,
    ],
    [
      Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' }),
      /^The disk is full \(ENOSPC: [^)]+\); free some space/,
    ],
    [new DatabaseError('There is not enough memory', { code: '53200' }), /; close other programs/],
    [
      new DatabaseError('permission denied to create role', { code: '42501' }),
      /; create roles and database as docs/,
    ],
    [
      new DatabaseError('extension "pg_trgm" is not available', { code: '0A000' }),
      /; install PostgreSQL's additional modules/,
    ],
    [
      new OtherVersion('The database is of a newer version', true),
      /newer version; start the newer version again \(npm run update fetches it\), or restore a backup/,
    ],
  ] as const) {
    expect(describeStartFailure(error)).toMatch(sentence);
  }
});

test('describes a folder in use, and a changed migration history', async () => {
  await mkdir(join(folder, 'used'), { recursive: true });
  const { lockFolder } = await import('@jani-juice/backend/files');
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
  expect(describeStartFailure(new TypeError('x is not a function'))).toContain('start-failure.long.test.ts');
});
