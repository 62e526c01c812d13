// Every service while PostgreSQL starts, stops or cannot be reached: clients learn that they may try again.

import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SignJWT } from 'jose';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Backend, createBackend } from './backend.ts';
import { asDatabaseError, type Database } from './database/database.ts';
import { createDiskFiles } from './storage/files/disk-files.ts';
import { platform, throwawayDatabase } from './testing/throwaway.ts';

const publicUrl = 'https://services.example.com';
const sharedSecret = '37c304f8-51aa-419a-a1af-06154e63707a';
const folder = join(tmpdir(), `jani-unavailable-${crypto.randomUUID()}`);

let database: Database;
let backend: Backend;
/** What the driver throws; null while the database is available. */
let failure: unknown = null;

beforeAll(async () => {
  database = await throwawayDatabase('pglite', [platform]);
  await database.execute(
    'create table public.notes (id int primary key); grant select on public.notes to anon',
  );
  const orFail = async <Result>(work: () => Promise<Result>) => {
    if (failure) throw asDatabaseError(failure);
    return work();
  };
  backend = await createBackend({
    database: {
      ...database,
      query: (...call) => orFail(() => database.query(...call)) as never,
      read: (...call) => orFail(() => database.read(...call)) as never,
      write: (...call) => orFail(() => database.write(...call)) as never,
      transaction: (...call) => orFail(() => database.transaction(...call)),
    },
    keys: { publishable: 'sb_publishable_test', secret: 'sb_secret_test', signingKeys: [], sharedSecret },
    functions: {},
    files: createDiskFiles(folder),
    publicUrl,
    auth: { settings: { shortestAnswer: 0 } },
  });
});
afterAll(async () => {
  failure = null;
  await backend.close();
  await database.close();
  await rm(folder, { recursive: true, force: true });
});

const fatal = (code: string, message: string) =>
  Object.assign(new Error(message), { code, severity: 'FATAL' });

test.each([
  fatal('57P03', 'the database system is starting up'),
  fatal('57P01', 'terminating connection due to administrator command'),
  fatal('57P02', 'terminating connection because of crash of another server process'),
  fatal('53300', 'sorry, too many clients already'),
  fatal('08P01', 'server login has been failing, try again later (server_login_retry)'),
  fatal('XX000', 'Max client connections reached'),
  Object.assign(new Error('write EPIPE'), { code: 'EPIPE', syscall: 'write' }),
  new Error('timeout exceeded when trying to connect'),
])('%s is answered with 503 by each service', async (thrown) => {
  const token = await new SignJWT({ sub: crypto.randomUUID(), role: 'authenticated' })
    .setProtectedHeader({ alg: 'HS256' })
    .sign(new TextEncoder().encode(sharedSecret));
  failure = thrown;
  const answers: [string, number, boolean, string][] = [];
  for (const [path, init] of [
    ['/rest/v1/notes', {}],
    ['/auth/v1/user', {}],
    [
      '/auth/v1/token?grant_type=password',
      { method: 'POST', body: '{"email":"a@b.example","password":"guess"}' },
    ],
    ['/storage/v1/bucket', {}],
    ['/storage/v1/object/public/any/file.txt', {}],
    [
      '/realtime/v1/api/broadcast/room/events/any?private=true',
      { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } },
    ],
  ] as [string, RequestInit][]) {
    const headers = { apikey: 'sb_publishable_test', authorization: `Bearer ${token}`, ...init.headers };
    const answer = await backend.fetch(
      new Request(`${publicUrl}${path}`, {
        ...init,
        headers: { 'content-type': 'application/json', ...headers },
      }),
    );
    answers.push([path, answer.status, answer.headers.has('retry-after'), await answer.text()]);
  }
  failure = null;
  // A full pool is PostgREST's own case.
  const isPoolFull = thrown.message.startsWith('timeout exceeded');
  for (const [path, status, isToRetry, text] of answers) {
    const isData = path.startsWith('/rest/v1');
    expect([path, status, isToRetry]).toEqual([
      path,
      isData && isPoolFull ? 504 : 503,
      !(isData && isPoolFull),
    ]);
    expect(() => JSON.parse(text), path).not.toThrow();
    if (!thrown.message.startsWith('the database') && !thrown.message.startsWith('terminating'))
      expect(text, path).not.toContain(thrown.message);
  }
});
