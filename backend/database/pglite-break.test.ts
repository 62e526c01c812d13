import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { DatabaseError } from './database.ts';
import { openPglite } from './pglite.ts';
import { layDatabase, sharedBuffers } from './throwaway.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'jani-break-'));
});
afterAll(() => rm(folder, { recursive: true }));

async function openThatTells(name: string, onBreak: (error: DatabaseError) => void) {
  await layDatabase(join(folder, name), []);
  return openPglite(join(folder, name), { isDurable: false, sharedBuffers, logCheckIntervalMs: 5, onBreak });
}

// Deeper than the embedded PostgreSQL can read; as part of a statement's text, which comes from no stranger.
const breaking = `select '${'['.repeat(20_000)}' is json`;

test('a database that breaks answers nothing more, and keeps nothing of what it was in', async () => {
  const breaks: DatabaseError[] = [];
  const database = await openThatTells('broken', (error) => breaks.push(error));
  await database.execute(
    'create table public.kept (n integer primary key); insert into public.kept values (1)',
  );
  await expect(database.query('insert into public.kept values (1)')).rejects.toMatchObject({ code: '23505' });
  expect(breaks).toEqual([]);

  let isAnswered = false;
  const broken = { name: 'DatabaseError', code: '08006', message: expect.stringMatching(/broke.*stack/) };
  const work = database.transaction(async (session) => {
    await session.query('insert into public.kept values (2)');
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
});

test('a database that answers nobody any more is told of, one that only has much to do is not', async () => {
  let hear: (error: DatabaseError) => void = () => {};
  let isHeard = false;
  const silence = new Promise<DatabaseError>((done) => {
    hear = (error) => {
      isHeard = true;
      done(error);
    };
  });
  const database = await openThatTells('silent', (error) => hear(error));
  await database.transaction(async (session) => {
    // Each takes longer than it is until the next look.
    for (let turn = 0; turn < 12; turn += 1) {
      await session.query('select pg_sleep(0.006)');
      await new Promise((done) => setImmediate(done));
    }
  });
  expect(isHeard).toBe(false);
  // Work that waits for itself: its transaction never ends.
  void database.transaction(() => database.query('select 1'));
  expect(await silence).toMatchObject({ code: '08006', message: expect.stringMatching(/nobody/) });
});
