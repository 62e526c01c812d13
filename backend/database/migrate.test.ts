// Migrations: in order, once, never changed, and safe when two processes start at once.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Database } from './database.ts';
import { migrate } from './migrate.ts';
import { openPostgresql } from './postgresql.ts';
import { testDatabases, throwawayDatabase } from './throwaway.ts';

describe.each(testDatabases())('migrating on %s', (kind) => {
  let database: Database & { url?: string };
  let folder: string;
  const write = (name: string, sql: string) => writeFile(join(folder, name), sql);
  const source = () => [{ name: 'shop', folder }];

  beforeEach(async () => {
    database = await throwawayDatabase(kind, []);
    folder = await mkdtemp(join(tmpdir(), 'jani-migrations-'));
    await write('2_second.sql', `insert into public.steps values ('second');`);
    await write(
      '1_first.sql',
      `create table public.steps (name text); insert into public.steps values ('first');`,
    );
  });
  afterEach(async () => {
    await database.close();
    await rm(folder, { recursive: true });
  });

  const steps = async () =>
    (await database.query<{ name: string }>('select name from public.steps')).rows.map((row) => row.name);

  test('files are applied in the order of their names, each once', async () => {
    expect(await migrate(database, source())).toEqual(['shop/1_first', 'shop/2_second']);
    expect(await migrate(database, source())).toEqual([]);
    expect(await steps()).toEqual(['first', 'second']);
  });

  test('a failing file is named and leaves nothing behind, not even of the files before it', async () => {
    await write('3_broken.sql', 'create table public.half (id int); select nonsense();');
    await expect(migrate(database, source())).rejects.toThrow(
      'migration shop/3_broken: function nonsense() does not exist',
    );
    expect((await database.query(`select to_regclass('public.steps') as steps`)).rows).toEqual([
      { steps: null },
    ]);
  });

  test('a file that was changed after it had been applied stops the start', async () => {
    await migrate(database, source());
    await write('1_first.sql', 'create table public.steps (name text, more text);');
    await expect(migrate(database, source())).rejects.toThrow('shop/1_first was changed');
  });

  test('a file that is gone stops the start', async () => {
    await migrate(database, source());
    await rm(join(folder, '2_second.sql'));
    await expect(migrate(database, source())).rejects.toThrow(
      'shop/2_second was applied to this database but its file is gone',
    );
  });

  test.skipIf(kind === 'pglite')(
    'two processes that start at once apply each file once between them',
    async () => {
      const other = openPostgresql(database.url ?? '');
      const applied = await Promise.all([migrate(database, source()), migrate(other, source())]);
      await other.close();
      expect(applied.flat().sort()).toEqual(['shop/1_first', 'shop/2_second']);
      expect(await steps()).toEqual(['first', 'second']);
    },
  );
});
