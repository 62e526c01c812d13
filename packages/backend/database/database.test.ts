// Common behaviour of both drivers.
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { platform, testDatabases, throwawayDatabase } from '../testing/throwaway.ts';
import { asRole, type Claims, readAsRole } from './as-role.ts';
import { type Database, DatabaseError, type Session } from './database.ts';
import { openPostgresql } from './postgresql/postgresql.ts';

describe.each(testDatabases())('the %s driver', (kind) => {
  let database: Database;
  beforeAll(async () => {
    database = await throwawayDatabase(kind, [platform]);
    await database.execute(`
      create table public.notes (id int primary key, author uuid, text text);
      alter table public.notes enable row level security;
      create policy "authors read their notes" on public.notes for select using (author = (select auth.uid()));
      insert into public.notes values (1, '00000000-0000-4000-8000-000000000001', 'mine'), (2, null, 'unowned');
    `);
  });
  afterAll(() => database.close());

  test('infers parameter types from the statement and returns the same values', async () => {
    const { rows } = await database.query(
      `select $1::int + 1 as i, $2::bool as b, $3::jsonb as j, $4::timestamptz at time zone 'UTC' as t, $5::bigint as big,
              $6::numeric as n, $7::text as nothing, $8::text[] as list, encode($9::bytea, 'hex') as bytes`,
      ['41', true, { a: [1] }, '2026-01-02T03:04:05Z', '9007199254740991', '1.50', null, '{a,b}', '\\x00ff'],
    );
    expect(rows).toEqual([
      {
        i: 42,
        b: true,
        j: { a: [1] },
        t: '2026-01-02 03:04:05',
        big: 9007199254740991,
        n: '1.50',
        nothing: null,
        list: ['a', 'b'],
        bytes: '00ff',
      },
    ]);
  });

  test('reports an error with the SQLSTATE of PostgreSQL', async () => {
    const failing = database.query('insert into public.notes (id) values (1)');
    await expect(failing).rejects.toBeInstanceOf(DatabaseError);
    await expect(failing).rejects.toMatchObject({ code: '23505', constraint: 'notes_pkey' });
  });

  test.each([new Error('rolled back'), Object.assign(new Error('refused'), { code: 'user_banned' })])(
    'rolls back a transaction whose work fails and rethrows its error: %o',
    async (failure) => {
      const failing = database.transaction(async (session) => {
        await session.query(`insert into public.notes (id, text) values (3, 'gone')`);
        throw failure;
      });
      await expect(failing).rejects.toBe(failure);
      expect((await database.query('select from public.notes where id = 3')).rowCount).toBe(0);
    },
  );

  test('counts the rows a statement affected', async () => {
    const inserted = await database.query(`insert into public.notes (id) values (7), (8)`);
    const removed = await database.query('delete from public.notes where id in (7, 8)');
    expect([inserted.rowCount, removed.rowCount]).toEqual([2, 2]);
  });

  test('rejects writes in a read-only transaction, also as a role', async () => {
    const remove = (session: Session) => session.query('delete from public.notes');
    const readOnly = { readOnly: true };
    const owner = { role: 'service_role' };
    await expect(database.transaction(remove, readOnly)).rejects.toMatchObject({ code: '25006' });
    await expect(
      asRole(database, owner, (session) => session.query('create temporary table t ()'), readOnly),
    ).rejects.toMatchObject({ code: '25006' });
  });

  test('works as the role and user of the claims, and without an identity afterwards', async () => {
    const claims = { role: 'authenticated', sub: '00000000-0000-4000-8000-000000000001' };
    const mine = await asRole(database, claims, (session) => session.query('select text from public.notes'));
    expect(mine.rows).toEqual([{ text: 'mine' }]);
    const after = await database.query(
      `select current_user = session_user as is_self, current_setting('request.jwt.claims', true) as claims`,
    );
    expect(after.rows[0]?.is_self).toBe(true);
    expect(after.rows[0]?.claims || null).toBeNull();
  });

  test('hides rows without a policy from an anonymous visitor', async () => {
    const none = await asRole(database, { role: 'anon' }, (session) =>
      session.query('select * from public.notes'),
    );
    expect(none.rows).toEqual([]);
  });

  test('reads one statement as the role and user of the claims, and without an identity afterwards', async () => {
    const read = (sql: string, claims: Claims) => readAsRole(database, claims, { sql, parameters: [] });
    const author = { role: 'authenticated', sub: '00000000-0000-4000-8000-000000000001' };
    // Several times, because a repeated statement is prepared by name.
    for (let turn = 0; turn < 6; turn += 1) {
      const mine = await read(`select text, current_user::text as name from public.notes`, author);
      expect(mine.rows).toEqual([{ text: 'mine', name: 'authenticated' }]);
      const none = await read('select text, current_user::text as name from public.notes', { role: 'anon' });
      expect(none).toEqual({ rows: [], rowCount: 0 });
    }
    const after = await database.query(
      `select current_user = session_user as is_self, current_setting('request.jwt.claims', true) as claims,
              current_setting('transaction_read_only') as read_only`,
    );
    expect(after.rows[0]).toMatchObject({ is_self: true, read_only: 'off' });
    expect(after.rows[0]?.claims || null).toBeNull();
  });

  test('isolates concurrent reads and transactions', async () => {
    const roles = ['anon', 'authenticated', 'service_role'];
    const answers = await Promise.all(
      Array.from({ length: 60 }, async (_, turn) => {
        const role = roles[turn % 3] ?? 'anon';
        const statement = { sql: 'select current_user::text as name, $1::int as turn', parameters: [turn] };
        if (turn % 5 === 0) {
          return asRole(database, { role }, (session) => session.query(statement.sql, statement.parameters));
        }
        return readAsRole(database, { role }, statement);
      }),
    );
    expect(answers.map(({ rows }) => rows[0])).toEqual(
      answers.map((_, turn) => ({ name: roles[turn % 3], turn })),
    );
  });

  test('rejects writes in a single read', async () => {
    const writing = readAsRole(
      database,
      { role: 'service_role' },
      { sql: 'create temporary table scratch (id int)', parameters: [] },
    );
    await expect(writing).rejects.toBeInstanceOf(DatabaseError);
    const deleting = database.read('delete from public.notes', [], {});
    await expect(deleting).rejects.toMatchObject({ code: '25006' });
  });

  test('reports errors of a read, its settings or its values, and continues', async () => {
    const statement = { sql: 'select $1::int as n', parameters: ['one'] };
    const failing = () => readAsRole(database, { role: 'anon' }, statement);
    for (let turn = 0; turn < 5; turn += 1) await expect(failing()).rejects.toMatchObject({ code: '22P02' });
    const unknown = readAsRole(database, { role: 'unknown' }, statement, { allowsAnyRole: true });
    await expect(unknown).rejects.toMatchObject({
      code: '22023',
      message: 'role "unknown" does not exist',
    });
    const wrong = readAsRole(database, { role: 'anon' }, { sql: 'select from nowhere', parameters: [] });
    await expect(wrong).rejects.toMatchObject({ code: '42P01' });
    const right = readAsRole(database, { role: 'anon' }, { sql: 'select 1 as one', parameters: [] });
    expect((await right).rows).toEqual([{ one: 1 }]);
  });

  test('a change of one statement is committed when its result is accepted, and undone when it is refused', async () => {
    await database.execute('create table public.changed (n int)');
    const sql = 'with added as (insert into public.changed values ($1::int) returning n) select n from added';
    // Several times, because a repeated statement is prepared by name.
    for (let n = 0; n < 8; n += 1) {
      const seen: unknown[] = [];
      const writing = database.write(sql, [n], { 'request.method': 'POST' }, ({ rows }) => {
        seen.push(...rows);
        if (n % 2) throw new Error(`refused ${n}`);
      });
      if (n % 2) await expect(writing).rejects.toThrow(`refused ${n}`);
      else expect(await writing).toEqual({ rows: [{ n }], rowCount: 1 });
      expect(seen).toEqual([{ n }]);
    }
    const kept = await database.query(
      `select array_to_json(array_agg(n order by n)) as all, current_setting('request.method', true) as method from public.changed`,
    );
    expect(kept.rows[0]).toMatchObject({ all: [0, 2, 4, 6] });
    expect(kept.rows[0]?.method || null).toBeNull();
  });

  test('a change without a check is committed by its message, and an error of its commit is reported', async () => {
    await database.execute('create table public.at_once (n int unique deferrable initially deferred)');
    const sql = 'with added as (insert into public.at_once values ($1::int) returning n) select n from added';
    for (let n = 0; n < 5; n += 1) {
      expect(await database.write(sql, [n], {}, null)).toEqual({ rows: [{ n }], rowCount: 1 });
      await expect(database.write(sql, [n], {}, null)).rejects.toMatchObject({ code: '23505' });
    }
    const { rows } = await database.query('select count(*)::int as n from public.at_once');
    expect(rows).toEqual([{ n: 5 }]);
  });

  test('reports errors of a change and of its commit, and continues', async () => {
    await database.execute(`
      create table public.checked_late (n int unique deferrable initially deferred);
      insert into public.checked_late values (1);`);
    const sql =
      'with added as (insert into public.checked_late values ($1::int) returning n) select n from added';
    let accepted = 0;
    const add = (value: unknown) =>
      database.write(sql, [value], {}, () => {
        accepted += 1;
      });
    for (let turn = 0; turn < 5; turn += 1) {
      await expect(add('one')).rejects.toMatchObject({ code: '22P02' });
      await expect(add(1)).rejects.toMatchObject({ code: '23505' });
    }
    expect(accepted).toBe(5);
    expect(await add(2)).toEqual({ rows: [{ n: 2 }], rowCount: 1 });
    const unknown = database.write(sql, [3], { role: 'unknown' }, () => {});
    await expect(unknown).rejects.toMatchObject({ code: '22023' });
    const { rows } = await database.query('select n from public.checked_late order by n');
    expect(rows).toEqual([{ n: 1 }, { n: 2 }]);
  });

  test('isolates concurrent changes of one statement', async () => {
    await database.execute('create table public.counted (n int); insert into public.counted values (0)');
    await Promise.all(
      Array.from({ length: 40 }, (_, turn) =>
        turn % 2
          ? database.write('update public.counted set n = n + 1', [], {}, () => {})
          : database.transaction((session) => session.query('update public.counted set n = n + 1')),
      ),
    );
    expect((await database.query('select n from public.counted')).rows).toEqual([{ n: 40 }]);
  });

  test('reads with values of every type, repeatedly and between transactions', async () => {
    const sql = `select $1::int as n, $2::text as nothing, $3::jsonb as document, $4::boolean as is_so,
                        length($5::text) as length, $6::numeric as exact, count(*) as many from generate_series(1, 2)`;
    const document = { text: 'é "\\ \n', list: [1, null] };
    const parameters = [-7, null, document, true, 'ü€'.repeat(60_000), '1.50'];
    const row = {
      n: -7,
      nothing: null,
      document,
      is_so: true,
      length: 120_000,
      exact: '1.50',
      many: 2,
    };
    for (let turn = 0; turn < 6; turn += 1) {
      const answers = await Promise.all([
        database.read(sql, parameters, {}),
        database.transaction((session) => session.query(sql, parameters)),
      ]);
      for (const { rows } of answers) expect(rows).toEqual([row]);
    }
    const circle: Record<string, unknown> = {};
    circle.self = circle;
    await expect(database.read('select $1::jsonb', [circle], {})).rejects.toThrow();
    expect(await database.read('select n from generate_series(1, 3) as n where n > $1', [1], {})).toEqual({
      rows: [{ n: 2 }, { n: 3 }],
      rowCount: 2,
    });
  });

  test.runIf(kind === 'postgresql')('ends a read that takes longer than its setting allows', async () => {
    const slow = readAsRole(
      database,
      { role: 'anon' },
      { sql: 'select pg_sleep(10)', parameters: [] },
      { request: { statementTimeout: 50 } },
    );
    await expect(slow).rejects.toMatchObject({ code: '57014' });
  });

  test('rejects a role that is not for requests before any SQL runs', () => {
    expect(() => asRole(database, { role: 'postgres' }, async () => 1)).toThrow('not a request role');
    expect(() => readAsRole(database, { role: 'postgres' }, { sql: 'select 1', parameters: [] })).toThrow(
      'not a request role',
    );
  });

  test('receives notifications from any session until it stops listening', async () => {
    const received: string[] = [];
    let wake = () => {};
    const stop = await database.listen('A channel', (payload) => {
      received.push(payload);
      wake();
    });
    const first = new Promise<void>((done) => {
      wake = done;
    });
    await database.transaction((session) => session.query(`select pg_notify('A channel', 'one')`));
    await first;
    await stop();
    await database.query(`select pg_notify('A channel', 'two')`);
    await database.query('select 1');
    expect(received).toEqual(['one']);
  });

  test.runIf(kind === 'postgresql')(
    'reports when notifications are lost and when it has reconnected',
    async () => {
      const events: string[] = [];
      let wake = () => {};
      const reconnected = new Promise<void>((done) => {
        wake = done;
      });
      const stop = await database.listen(
        'lost and found',
        () => {},
        () => {
          events.push('reconnected');
          wake();
        },
        () => events.push('lost'),
      );
      await database.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and application_name = 'backend notifications'`,
      );
      await reconnected;
      expect(events).toEqual(['lost', 'reconnected']);
      await stop();
    },
  );

  test.runIf(kind === 'postgresql')('detects a silently lost notification connection', async () => {
    const url = new URL(process.env.TEST_POSTGRESQL_URL ?? '');
    const server = { host: url.hostname, port: Number(url.port) };
    const connections: { near: Socket; far: Socket }[] = [];
    const network = createServer((near) => {
      const far = connect(server);
      connections.push({ near, far });
      near.on('error', () => {}).on('data', (bytes) => far.write(bytes));
      far.on('error', () => {}).on('data', (bytes) => near.write(bytes));
    });
    await new Promise<void>((done) => network.listen(0, '127.0.0.1', done));
    url.port = String((network.address() as AddressInfo).port);
    // Not shorter: a busy machine would lose the next connection, too, before it is ready.
    const distant = openPostgresql(url.href, { notificationCheck: 500 });
    const events: string[] = [];
    const reconnected = new Promise<void>((done) => {
      const onReconnected = () => {
        events.push('reconnected');
        done();
      };
      void distant.listen(
        'far away',
        () => {},
        onReconnected,
        () => events.push('lost'),
      );
    });
    await distant.listen('far away', () => {});
    // From here on data is dropped silently.
    for (const { near, far } of connections) {
      near.removeAllListeners('data').resume();
      far.removeAllListeners('data').resume();
    }
    await reconnected;
    expect(events).toEqual(['lost', 'reconnected']);
    await distant.close();
    for (const { near, far } of connections) {
      near.destroy();
      far.destroy();
    }
    await new Promise((done) => network.close(done));
  });

  test.runIf(kind === 'postgresql')('survives broken connections in use and opens new ones', async () => {
    const killer = openPostgresql(process.env.TEST_POSTGRESQL_URL ?? '', { poolSize: 2 });
    const broken = Array.from({ length: 10 }, () =>
      database.transaction(async (session) => {
        const { rows } = await session.query<{ pid: number }>('select pg_backend_pid() as pid');
        // No query runs when it breaks.
        await new Promise((done) => setImmediate(done));
        await killer.query('select pg_terminate_backend($1)', [rows[0]?.pid]);
        await killer.query('select pg_sleep(0.05)');
        await session.query('select 1');
      }),
    );
    for (const { status } of await Promise.allSettled(broken)) expect(status).toBe('rejected');
    const cutOff = database.read('select pg_terminate_backend(pg_backend_pid())', [], {});
    await expect(cutOff).rejects.toBeInstanceOf(DatabaseError);
    await killer.close();
    expect((await database.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  });

  test('isolates concurrent transactions', async () => {
    await database.execute('create table public.counters (n int); insert into public.counters values (0)');
    await Promise.all(
      Array.from({ length: 20 }, () =>
        database.transaction((session) => session.query('update public.counters set n = n + 1')),
      ),
    );
    expect((await database.query('select n from public.counters')).rows).toEqual([{ n: 20 }]);
  });
});
