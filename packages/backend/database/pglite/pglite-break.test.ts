import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { copyMigratedDatabase, sharedBuffers } from '../../testing/throwaway.ts';
import type { DatabaseError } from '../database.ts';
import { openPglite } from './pglite.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'jani-break-'));
});
afterAll(() => rm(folder, { recursive: true }));

async function openWithBreakListener(name: string, onBreak: (error: DatabaseError) => void) {
  await copyMigratedDatabase(join(folder, name), []);
  return openPglite(join(folder, name), { isDurable: false, sharedBuffers, logCheckIntervalMs: 5, onBreak });
}

// Deeper than the embedded PostgreSQL can parse. Part of the statement's text, because parameters are checked for nesting.
const breaking = `select '${'['.repeat(20_000)}' is json`;

test('a broken database rejects every call and rolls back its open transaction', async () => {
  const breaks: DatabaseError[] = [];
  const database = await openWithBreakListener('broken', (error) => breaks.push(error));
  await database.execute(
    'create table public.retained (n integer primary key); insert into public.retained values (1)',
  );
  await expect(database.query('insert into public.retained values (1)')).rejects.toMatchObject({
    code: '23505',
  });
  expect(breaks).toEqual([]);

  let isAnswered = false;
  const broken = { name: 'DatabaseError', code: '08006', message: expect.stringMatching(/broke.*stack/) };
  const work = database.transaction(async (session) => {
    await session.query('insert into public.retained values (2)');
    await session.query(breaking);
    isAnswered = true;
  });
  await expect(work).rejects.toMatchObject(broken);
  expect(isAnswered).toBe(false);
  await expect(database.query('select 1')).rejects.toMatchObject(broken);
  await expect(database.read('select 1', [], {})).rejects.toMatchObject(broken);
  await expect(database.execute('select 1')).rejects.toMatchObject(broken);
  await expect(database.transaction((session) => session.query('select 1'))).rejects.toMatchObject(broken);
  expect(breaks).toEqual([expect.objectContaining(broken)]);

  // A command that opened it ends, and another one opens the files.
  await database.close();
  const reopened = await openPglite(join(folder, 'broken'), { isDurable: false, sharedBuffers });
  expect((await reopened.query('select n from public.retained')).rows).toEqual([{ n: 1 }]);
  await reopened.close();
});

test('reports a database that no longer answers, but not a busy one', async () => {
  let onBreak: (error: DatabaseError) => void = () => {};
  let isReported = false;
  const silence = new Promise<DatabaseError>((done) => {
    onBreak = (error) => {
      isReported = true;
      done(error);
    };
  });
  const database = await openWithBreakListener('silent', (error) => onBreak(error));
  await database.transaction(async (session) => {
    // Each takes longer than the interval of the checks.
    for (let turn = 0; turn < 12; turn += 1) {
      await session.query('select pg_sleep(0.006)');
      await new Promise((done) => setImmediate(done));
    }
  });
  expect(isReported).toBe(false);
  // A transaction that waits for itself and never ends.
  void database.transaction(() => database.query('select 1'));
  expect(await silence).toMatchObject({ code: '08006', message: expect.stringMatching(/no longer answers/) });
});
