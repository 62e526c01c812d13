// After a power cut at any moment the embedded database opens with every acknowledged row, or its files are reported as damaged.
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runProgram } from '../../testing/run-program.ts';
import { sharedBuffers } from '../../testing/throwaway.ts';
import { openPglite } from './pglite.ts';

// Opens the folder, writes rows and prints each number once its commit is acknowledged. Closes it in the end.
const writer = `
  import '${new URL('./simulate-power-cut.mjs', import.meta.url)}';
  import { openPglite } from './packages/backend/database/pglite/pglite.ts';
  const database = await openPglite(process.env.POWER_CUT_IN + 'database', { sharedBuffers: '16MB', blanks: 'build/blank-database' });
  process.stdout.write('open\\n');
  await database.execute('create table if not exists public.acknowledged (n integer primary key, padding text)');
  const { rows } = await database.query('select coalesce(max(n), 0) as n from public.acknowledged');
  for (let n = rows[0].n + 1; n <= rows[0].n + 40; n += 1) {
    const sql = 'insert into public.acknowledged values ($1, $2)';
    const values = [n, 'x'.repeat((n * 997) % 5000)];
    if (n % 3 === 0) await database.transaction((session) => session.query(sql, values));
    else await database.write(sql, values, {}, n % 3 === 1 ? null : () => {});
    process.stdout.write(n + '\\n');
    if (n % 15 === 0) await database.execute('checkpoint');
    if (n % 17 === 0) await database.execute('vacuum public.acknowledged');
  }
  await database.close();
`;

interface Run {
  /** The last row that was acknowledged; null when the database was not opened. */
  acknowledged: number | null;
  isCut: boolean;
  output: string;
  operations: number;
}

async function run(place: string, cutAt: number): Promise<Run> {
  const { ended } = runProgram(writer, { POWER_CUT_AT: String(cutAt), POWER_CUT_IN: `${place}/` });
  const { end, output, errors } = await ended;
  const lines = output.split('\n').slice(0, -1);
  return {
    acknowledged: lines.length > 0 ? Math.max(0, ...lines.slice(1).map(Number)) : null,
    isCut: end === 'SIGKILL',
    output: errors,
    operations: Number(/operations (\d+)/.exec(errors)?.[1] ?? 0),
  };
}

let place: string;
beforeAll(async () => {
  place = await mkdtemp(join(tmpdir(), 'jani-power-cut-'));
});
afterAll(() => rm(place, { recursive: true }));

const countRows = async (folder: string) => {
  const database = await openPglite(folder, { sharedBuffers, blanks: 'build/blank-database' });
  try {
    await database.execute(
      'create table if not exists public.acknowledged (n integer primary key, padding text)',
    );
    const { rows } = await database.query<{ count: number; last: number }>(
      'select count(*) as count, coalesce(max(n), 0) as last from public.acknowledged',
    );
    await database.query('insert into public.acknowledged values (-1) on conflict do nothing');
    await database.query('delete from public.acknowledged where n = -1');
    return rows[0] ?? { count: -1, last: -1 };
  } finally {
    await database.close();
  }
};

describe('what was not synced is lost', () => {
  test('a first start can be cut at any operation', async () => {
    const whole = join(place, 'whole');
    await cp(await mkdtemp(join(place, 'empty-')), whole, { recursive: true });
    const { operations } = await run(whole, 0);
    expect(operations).toBeGreaterThan(200);
    expect(await countRows(join(whole, 'database'))).toMatchObject({ count: 40, last: 40 });

    for (let round = 0; round < 16; round += 1) {
      const folder = await mkdtemp(join(place, 'first-'));
      // The beginning, in which files are created, in smaller steps.
      const cutAt = 1 + Math.floor((operations - 2) * (round / 16) ** 1.5);
      const { acknowledged, isCut, output } = await run(folder, cutAt);
      expect(isCut, output).toBe(true);
      const { count, last } = await countRows(join(folder, 'database'));
      expect(last, `cut at ${cutAt} of ${operations}`).toBeGreaterThanOrEqual(acknowledged ?? 0);
      expect(count, 'no row before the last is missing').toBe(last);
      await rm(folder, { recursive: true });
    }
  }, 600_000);

  test('later starts and writes can be cut at any operation', async () => {
    const folder = await mkdtemp(join(place, 'later-'));
    await run(folder, 0);
    await run(folder, 50);
    // A start after a cut syncs every file first.
    const { operations, acknowledged: last } = await run(folder, 0);
    let before = last ?? 0;
    for (const part of [0.01, 0.1, 0.4, 0.8, 0.84, 0.87, 0.9, 0.92, 0.94, 0.96, 0.98, 0.99]) {
      const cutAt = Math.ceil(operations * part);
      const { acknowledged, output } = await run(folder, cutAt);
      // The count before the next run opens it, on a copy: that start is cut, too.
      const copy = await mkdtemp(join(place, 'copy-'));
      await cp(join(folder, 'database'), join(copy, 'database'), { recursive: true });
      const { count, last } = await countRows(join(copy, 'database'));
      await rm(copy, { recursive: true });
      expect(last, `${cutAt}: ${output}`).toBeGreaterThanOrEqual(Math.max(before, acknowledged ?? 0));
      expect(count, 'no row before the last is missing').toBe(last);
      before = last;
    }
    expect(before, 'rows were written between the cuts').toBeGreaterThan(120);
  }, 600_000);
});

describe('damaged files', () => {
  let original: string;
  beforeAll(async () => {
    original = await mkdtemp(join(place, 'original-'));
    await run(original, 0);
    // Killed while it writes, so that files of a running server are there.
    await run(original, 150);
  }, 120_000);

  /** A file, and whether the database opens with all rows without it, when it is empty, or halved. */
  const files: [path: string, missing: boolean, empty: boolean, halved: boolean][] = [
    ['postmaster.pid', true, true, true],
    ['PG_VERSION', false, false, false],
    ['global/pg_control', false, false, true],
    ['global/pg_filenode.map', false, false, false],
    ['global/pg_internal.init', true, true, true],
    ['global/1262', false, false, false],
    ['global/1260', false, false, false],
    ['base/5/pg_internal.init', true, true, true],
    ['base/5/pg_filenode.map', false, false, false],
    ['base/5/PG_VERSION', false, false, false],
    ['base/5/1259', false, false, false],
    ['base/5/2662', false, false, false],
    ['pg_multixact/offsets/0000', false, false, false],
    ['pg_subtrans/0000', true, true, true],
    ['postgresql.auto.conf', true, true, true],
    ['pg_ident.conf', true, true, true],
    ['pg_hba.conf', false, false, false],
    ['TABLE', false, false, false],
    ['INDEX', false, false, false],
  ];
  const forms = ['missing', 'empty', 'halved', 'garbage'] as const;

  test.each(files)(
    '%s is repaired or reported',
    async (name, ...opens) => {
      for (const [index, form] of forms.entries()) {
        const copy = await mkdtemp(join(place, 'damaged-'));
        const folder = join(copy, 'database');
        await cp(join(original, 'database'), folder, { recursive: true });
        const path = join(folder, name === 'TABLE' || name === 'INDEX' ? await fileOf(folder, name) : name);
        if (form === 'missing') await rm(path, { force: true });
        else if (form === 'empty') await writeFile(path, '');
        else if (form === 'halved')
          await writeFile(path, (await contentOf(path)).subarray(0, (await contentOf(path)).length / 2));
        else await writeFile(path, Buffer.alloc((await contentOf(path)).length, 'garbage'));
        const outcome = await countRows(folder).then(
          ({ count, last }) => count === last && last >= 40,
          (error) => [error.name, error.code, /^[^\n]+$/.test(error.message)],
        );
        // Garbage in a data page is found when the page is read; a halved table looks like a shorter one.
        const isUncertain =
          form === 'garbage' || (form === 'halved' && (name === 'TABLE' || name === 'INDEX'));
        const refused = ['DatabaseError', 'XX001', true];
        if (isUncertain)
          expect([true, false, refused], `${name} ${form}`).toContainEqual(
            Array.isArray(outcome) ? refused : outcome,
          );
        else expect(outcome, `${name} ${form}`).toEqual(opens[index] ? true : refused);
        await rm(copy, { recursive: true });
      }
    },
    300_000,
  );

  const contentOf = (path: string) => readFile(path).catch(() => Buffer.alloc(0));
  async function fileOf(folder: string, kind: 'TABLE' | 'INDEX'): Promise<string> {
    const database = await openPglite(folder, { sharedBuffers });
    await database.execute('checkpoint');
    const { rows } = await database.query<{ path: string }>(
      'select pg_relation_filepath($1::regclass) as path',
      [kind === 'TABLE' ? 'public.acknowledged' : 'public.acknowledged_pkey'],
    );
    await database.close();
    return rows[0]?.path ?? '';
  }
});
