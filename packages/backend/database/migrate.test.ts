// Migrations: in order, once, never changed, and safe when two processes start concurrently.
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { platform, testDatabases, throwawayDatabase } from '../testing/throwaway.ts';
import type { Database } from './database.ts';
import { type AppliedMigration, migrate, migrateLike, readMigrations } from './migrate.ts';
import { openPostgresql } from './postgresql/postgresql.ts';

test.runIf(testDatabases().includes('postgresql'))(
  'an owner without superuser rights, as in docs/operating.md, can create the platform',
  async () => {
    const cluster = new URL(process.env.TEST_POSTGRESQL_URL ?? '');
    const superuser = openPostgresql(cluster.href, { poolSize: 1 });
    const manual = await readFile(new URL('../../../docs/operating.md', import.meta.url), 'utf8');
    const recipe = /```sql\n([\s\S]*?)```/.exec(manual)?.[1] ?? '';
    for (const statement of recipe.trim().split('\n')) {
      await superuser.execute(statement).catch((error) => {
        // Roles belong to the whole cluster, so other tests have created them.
        if (error.code !== '42710') throw error;
      });
    }
    const own = new URL(cluster);
    Object.assign(own, { username: 'jani', password: 'choose-one', pathname: '/jani' });
    const database = openPostgresql(own.href, { poolSize: 1 });
    const applied = await migrate(database, [platform]);
    expect(applied).toContain('platform/05_schema_reload');
    const { rows } = await database.transaction((session) => session.query('select current_user as role'), {
      settings: { role: 'anon' },
    });
    expect(rows).toEqual([{ role: 'anon' }]);
    await database.close();
    await superuser.execute('drop database jani with (force)');
    await superuser.close();
  },
);

test.runIf(testDatabases().includes('postgresql'))(
  'migrates while another database of the cluster grants the same roles',
  async () => {
    const [first, second] = [
      await throwawayDatabase('postgresql', []),
      await throwawayDatabase('postgresql', []),
    ];
    const folder = await mkdtemp(join(tmpdir(), 'jani-migrations-'));
    const [group, member] = ['group', 'member'].map((name) => `${name}_${randomBytes(6).toString('hex')}`);
    const grant = `grant ${group} to ${member}`;
    await writeFile(join(folder, '1_roles.sql'), grant);
    await first.execute(`create role ${group}; create role ${member}`);
    let migrating: Promise<string[]> | undefined;
    await first.transaction(async (session) => {
      await session.execute(grant);
      migrating = migrate(second, [{ name: 'shop', folder }]);
      migrating.catch(() => {});
      await expect
        .poll(
          async () => {
            // The poll is one transaction, which otherwise sees the first snapshot of the activity again and again.
            const { rowCount } = await session.query(
              `select from pg_stat_clear_snapshot() as cleared, pg_stat_activity
               where wait_event_type = 'Lock' and query = $1`,
              [grant],
            );
            return rowCount;
          },
          { timeout: 20_000 },
        )
        .toBe(1);
    });
    expect(await migrating).toEqual(['shop/1_roles']);
    await first.execute(`drop role ${group}; drop role ${member}`);
    await Promise.all([first.close(), second.close(), rm(folder, { recursive: true })]);
  },
);

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

  test('applies files once, in the order of their names', async () => {
    expect(await migrate(database, source())).toEqual(['shop/1_first', 'shop/2_second']);
    expect(await migrate(database, source())).toEqual([]);
    expect(await steps()).toEqual(['first', 'second']);
  });

  test('names a failing file and rolls everything back, including the files before it', async () => {
    await write('3_broken.sql', 'create table public.half (id int); select nonsense();');
    await expect(migrate(database, source())).rejects.toThrow(
      'migration shop/3_broken: function nonsense() does not exist',
    );
    expect((await database.query(`select to_regclass('public.steps') as steps`)).rows).toEqual([
      { steps: null },
    ]);
  });

  test('rejects a file that was changed after it had been applied', async () => {
    await migrate(database, source());
    await write('1_first.sql', 'create table public.steps (name text, more text);');
    await expect(migrate(database, source())).rejects.toThrow('shop/1_first was changed');
  });

  test('rejects a history whose file is missing', async () => {
    await migrate(database, source());
    await rm(join(folder, '1_first.sql'));
    await expect(migrate(database, source())).rejects.toThrow(
      'shop/1_first was applied to this database but its file is missing',
    );
  });

  describe('a database of a newer version', () => {
    const earlier = async (...later: string[]) => {
      await migrate(database, source());
      for (const name of later) await rm(join(folder, name));
      return migrate(database, source());
    };
    const isNamed =
      /^The database is of a newer version: its last migration is shop\/\S+, which this version does not have$/;

    test('is named as newer', async () => {
      await expect(earlier('2_second.sql')).rejects.toThrow(isNamed);
    });

    test('is named as newer where its baseline replaced the migrations of this version', async () => {
      await migrate(database, source());
      await write('3_baseline.sql', '-- Replaces: 2_second\nselect 1;');
      const files = ['1_first.sql', '2_second.sql'] as const;
      const texts = await Promise.all(files.map((name) => readFile(join(folder, name), 'utf8')));
      for (const name of files) await rm(join(folder, name));
      await migrate(database, source());
      await rm(join(folder, '3_baseline.sql'));
      for (const [index, name] of files.entries()) await write(name, texts[index] ?? '');
      await expect(migrate(database, source())).rejects.toThrow(isNamed);
      expect(await steps()).toEqual(['first', 'second']);
    });

    test('is accepted where every further migration says that earlier versions work with it', async () => {
      await write(
        '3_more.sql',
        '-- Earlier versions keep working: a new table.\ncreate table public.more ();',
      );
      await write('4_even_more.sql', '-- Earlier versions keep working.\ncreate table public.even_more ();');
      expect(await earlier('3_more.sql', '4_even_more.sql')).toEqual([]);
      await write(
        '3_more.sql',
        '-- Earlier versions keep working: a new table.\ncreate table public.more ();',
      );
      await write('4_even_more.sql', '-- Earlier versions keep working.\ncreate table public.even_more ();');
      await write('5_less.sql', 'drop table public.more;');
      await expect(earlier('4_even_more.sql', '5_less.sql')).rejects.toThrow(isNamed);
    });
  });

  describe('a baseline of two files', () => {
    const begin = async () => {
      await rm(join(folder, '1_first.sql'));
      await rm(join(folder, '2_second.sql'));
      await write(
        '3_baseline.sql',
        `-- Replaces: 2_second\ncreate table public.steps (name text); insert into public.steps values ('first');`,
      );
      await write('4_baseline.sql', `-- Replaces: 2_second\ninsert into public.steps values ('second');`);
    };
    const versions = async () =>
      (
        await database.query<{ version: string }>('select version from platform.schema_migrations order by 1')
      ).rows.map((row) => row.version);

    test('creates a new database', async () => {
      await begin();
      expect(await migrate(database, source())).toEqual(['shop/3_baseline', 'shop/4_baseline']);
      expect(await migrate(database, source())).toEqual([]);
      expect(await steps()).toEqual(['first', 'second']);
    });

    test('accepts a database with all migrations that it replaces, as is', async () => {
      await migrate(database, source());
      await database.execute(`insert into public.steps values ('of the owner')`);
      await begin();
      await write('5_next.sql', `insert into public.steps values ('next');`);
      expect(await migrate(database, source())).toEqual(['shop/5_next']);
      expect(await versions()).toEqual(['3_baseline', '4_baseline', '5_next']);
      expect(await steps()).toEqual(['first', 'second', 'of the owner', 'next']);
    });

    test('rejects an older database in one sentence, and changes nothing', async () => {
      const second = await readFile(join(folder, '2_second.sql'), 'utf8');
      await rm(join(folder, '2_second.sql'));
      await migrate(database, source());
      await write('2_second.sql', second);
      await begin();
      await expect(migrate(database, source())).rejects.toThrow(
        /^This database was made by an earlier version: [^\n.]* migration is 2_second once [^\n.]*$/,
      );
      expect(await versions()).toEqual(['1_first']);
      expect(await steps()).toEqual(['first']);
    });
  });

  describe('a database for the rows of another one', () => {
    const history = async () => {
      const other = await throwawayDatabase(kind, []);
      await migrate(other, source());
      const read = await other.transaction(readMigrations);
      await other.close();
      return read;
    };
    const added = { hash: '', earlier_versions_work: false };
    const create = (like: readonly AppliedMigration[]) =>
      database.transaction((session) => migrateLike(session, source(), like));

    test('gets the migrations of that one, and later ones from a start', async () => {
      const like = [...(await history()), { ...added, source: 'seed', version: 'demo' }];
      await write('3_next.sql', `insert into public.steps values ('next');`);
      await create(like);
      expect(await steps()).toEqual(['first', 'second']);
      expect(await database.transaction(readMigrations)).toEqual(
        like.toSorted((a, b) => (a.source < b.source ? -1 : 1)),
      );
      expect(await migrate(database, source())).toEqual(['shop/3_next']);
    });

    test('gets the baseline in place of what it replaces', async () => {
      const like = await history();
      await rm(join(folder, '1_first.sql'));
      await rm(join(folder, '2_second.sql'));
      await write('3_baseline.sql', `-- Replaces: 2_second\ncreate table public.steps (name text);`);
      await expect(create(like.slice(0, 1))).rejects.toThrow('made by an earlier version');
      await create(like);
      expect(await migrate(database, source())).toEqual([]);
    });

    test('is refused where that one is newer or has another history', async () => {
      const like = await history();
      await expect(create([...like, { ...added, source: 'shop', version: '3_next' }])).rejects.toThrow(
        'of a newer version: its last migration is shop/3_next, which this version does not have',
      );
      await expect(create([...like, { ...added, source: 'shop', version: '0_none' }])).rejects.toThrow(
        'shop/0_none was applied to this database but its file is missing',
      );
      await expect(create(like.map((row) => ({ ...row, hash: 'other' })))).rejects.toThrow('was changed');
    });
  });

  test.skipIf(kind === 'pglite')('applies each file once when two processes start concurrently', async () => {
    const other = openPostgresql(database.url ?? '');
    const applied = await Promise.all([migrate(database, source()), migrate(other, source())]);
    await other.close();
    expect(applied.flat().sort()).toEqual(['shop/1_first', 'shop/2_second']);
    expect(await steps()).toEqual(['first', 'second']);
  });
});
