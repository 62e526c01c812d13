// A process killed at any moment loses no acknowledged write.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runProgram } from '../../testing/run-program.ts';
import { copyMigratedDatabase, sharedBuffers } from '../../testing/throwaway.ts';
import { openPglite } from './pglite.ts';

// Writes rows one by one and prints each number once its commit is acknowledged.
const writer = `
  import { openPglite } from './packages/backend/database/pglite/pglite.ts';
  const database = await openPglite(process.env.FOLDER, { sharedBuffers: '16MB' });
  await database.execute('create table if not exists public.acknowledged (n integer primary key, padding text)');
  const { rows } = await database.query('select coalesce(max(n), 0) as n from public.acknowledged');
  for (let n = rows[0].n + 1; ; n += 1) {
    await database.transaction((session) =>
      session.query('insert into public.acknowledged values ($1, $2)', [n, 'x'.repeat(n % 5000)]));
    process.stdout.write(n + '\\n');
  }
`;

/** Runs the writer and kills it after it has acknowledged some rows. Returns the last number it printed. */
async function writeUntilKilled(folder: string, rows: number): Promise<number> {
  const { child, ended } = runProgram(writer, { FOLDER: folder });
  let lines = 0;
  child.stdout.on('data', (chunk) => {
    lines += String(chunk).split('\n').length - 1;
    // The writer is in the middle of a later row by then, because the pipe lags behind it.
    if (lines >= rows) child.kill('SIGKILL');
  });
  const { end, output, errors } = await ended;
  if (end !== 'SIGKILL') throw new Error(`the writer ended by itself: ${errors}`);
  return Number(output.split('\n').at(-2));
}

test('retains every row acknowledged before a kill, and the next process can write', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'jani-kill-'));
  let before = 0;
  for (const rows of [1, 7, 40, 150, 23]) {
    const acknowledged = await writeUntilKilled(join(folder, 'database'), rows);
    expect(acknowledged).toBeGreaterThan(before);
    const database = await openPglite(join(folder, 'database'), { sharedBuffers });
    const { rows: retained } = await database.query(
      'select count(*) as count, max(n) as last from public.acknowledged',
    );
    await database.close();
    const { count, last } = retained[0] as { count: number; last: number };
    expect(last).toBeGreaterThanOrEqual(acknowledged);
    expect(count, 'no row before the last is missing').toBe(last);
    before = last;
  }
  await rm(folder, { recursive: true });
}, 400_000);

test('opens a folder in one process at a time, and again after a kill', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'jani-lock-'));
  await copyMigratedDatabase(join(folder, 'database'), []);
  const first = await openPglite(join(folder, 'database'), { sharedBuffers });
  await expect(openPglite(join(folder, 'database'))).rejects.toThrow('is in use by another running process');
  await first.close();
  await writeUntilKilled(join(folder, 'database'), 1);
  const second = await openPglite(join(folder, 'database'), { sharedBuffers });
  await second.close();
  await rm(folder, { recursive: true });
});
