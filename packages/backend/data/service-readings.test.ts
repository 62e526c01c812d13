// Edge cases of requests that could be read in several ways, and of response headers.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Database, DatabaseError } from '../database/database.ts';
import { platform, testDatabases, throwawayDatabase } from '../testing/throwaway.ts';
import { createDataService, type DataServiceOptions } from './service.ts';

const schema = `
  create table public.lamps (id int primary key, room text, data jsonb, pair int unique deferrable initially deferred);
  insert into public.lamps values (1, 'hall', '{"a": {"b": 1}}', 10), (2, 'attic', '{}', 11), (3, 'hall', null, 12);
  create table public.bulbs (id int primary key, lamp_id int references public.lamps);
  insert into public.bulbs values (1, 1), (2, 1), (3, 2);
  grant all on public.lamps, public.bulbs to anon;
  create function public.rest() returns void language sql as 'select 1';
  create function public.first_lamp(min int) returns public.lamps language sql stable
  as 'select l from public.lamps l where id >= min order by id limit 1';
  create function public.lamps_from(min int) returns setof public.lamps language sql stable
  as 'select l from public.lamps l where id >= min order by id';
  create function public.doubled() returns int language plpgsql as $$
  begin
    perform set_config('response.headers', '[{"Vary": "a"}, {"X-One": "1"}, {"vary": "b"}]', true);
    return 2;
  end $$;
  create domain public."application/octet-stream" as bytea;
  create function public.mirrored(bytea) returns public."application/octet-stream" language sql immutable as 'select $1';
  create function public.measured(text) returns int language sql immutable as 'select length($1)';
  create function public.teapot() returns void language plpgsql as $$
  begin
    raise sqlstate 'PGRST' using message = '{"code": "T", "message": "short and stout"}',
      detail = '{"status": 418, "status_text": "Teapot of mine", "headers": {}}';
  end $$;
  create function public.unknown_visitor() returns void language plpgsql as $$
  begin
    raise sqlstate 'PT401' using message = 'who are you?';
  end $$;`;

type Service = Awaited<ReturnType<typeof createDataService>>;

describe.each(testDatabases())('edge cases of the table-query service on %s', (kind) => {
  let database: Database;
  let service: Service;
  let undoing: Service;
  beforeAll(async () => {
    database = await throwawayDatabase(kind, [platform]);
    await database.execute(schema);
    service = await createDataService({ database, schemas: ['public'] });
    undoing = await createDataService({ database, schemas: ['public'], allowsRollback: true });
  });
  afterAll(async () => {
    await Promise.all([service.close(), undoing.close()]);
    await database.close();
  });
  const send = (path: string, init: RequestInit = {}, by = service) =>
    by.fetch(new Request(`http://backend/rest/v1${path}`, init), { claims: { role: 'anon' }, address: null });
  const json = async (path: string, init: RequestInit = {}) => (await send(path, init)).json();
  const ids = async (path: string) => (await json(path)).map(({ id }: { id: number }) => id);
  const strict = (preference: string) => ({ headers: { prefer: `handling=strict, ${preference}` } });

  test('uses the first of repeated parameters, but the last limit and offset', async () => {
    expect(await json('/lamps?select=id&select=room&id=eq.1')).toEqual([{ id: 1 }]);
    expect(await ids('/lamps?select=id&order=id.desc&order=id.asc')).toEqual([3, 2, 1]);
    expect(await ids('/lamps?select=id&order=id&limit=1&limit=2')).toEqual([1, 2]);
    expect(await ids('/lamps?select=id&order=id&offset=0&offset=2')).toEqual([3]);
  });

  test('applies a filter to the embed that has its name, before one that is renamed', async () => {
    expect(await json('/lamps?select=id,all:bulbs(id),bulbs(id)&bulbs.id=eq.2&id=eq.1')).toEqual([
      { id: 1, all: [{ id: 1 }, { id: 2 }], bulbs: [{ id: 2 }] },
    ]);
  });

  test('rejects an empty order', async () => {
    const answer = await send('/lamps?order=');
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({
      code: 'PGRST100',
      message: '"failed to parse order ()" (line 1, column 1)',
    });
  });

  test('rejects path segments after a relation or a function', async () => {
    for (const path of ['/lamps/', '/lamps/1', '/rpc/rest/', '/rpc/rest/more', '//']) {
      expect((await json(path)).code, path).toBe('PGRST125');
    }
  });

  test('calls the root function like any other function', async () => {
    const options: DataServiceOptions = { database, schemas: ['public'], rootFunction: 'rest' };
    const called = await createDataService(options);
    const disabled = await createDataService({ ...options, openApiMode: 'disabled' });
    expect((await send('/', { method: 'POST' }, called)).status).toBe(204);
    expect(await (await send('/', { method: 'DELETE' }, called)).json()).toMatchObject({ code: 'PGRST101' });
    for (const method of ['GET', 'POST', 'OPTIONS']) {
      const answer = await send('/', { method }, disabled);
      expect([answer.status, (await answer.json()).code], method).toEqual([404, 'PGRST126']);
    }
    await called.close();
    await disabled.close();
  });

  test('answers OPTIONS for existing functions only', async () => {
    const answer = await send('/rpc/rest', { method: 'OPTIONS' });
    expect(answer.headers.get('allow')).toBe('OPTIONS,POST');
    expect(await json('/rpc/rests', { method: 'OPTIONS' })).toMatchObject({
      code: 'PGRST202',
      hint: 'Perhaps you meant to call the function public.rest',
    });
  });

  test('counts one row for a function that returns no set, even without a value', async () => {
    const rangeOf = async (path: string, init: RequestInit = {}) => {
      const { status, headers } = await send(path, init);
      return [status, headers.get('content-range')];
    };
    expect(await rangeOf('/rpc/rest', { method: 'POST' })).toEqual([204, '0-0/*']);
    expect(await rangeOf('/rpc/first_lamp?min=9')).toEqual([200, '0-0/*']);
    const single = { headers: { accept: 'application/vnd.pgrst.object+json' } };
    expect(await rangeOf('/rpc/first_lamp?min=9', single)).toEqual([200, '0-0/*']);
    expect(await rangeOf('/rpc/lamps_from?min=9')).toEqual([200, '*/*']);
    expect(await rangeOf('/rpc/lamps_from?min=2', { headers: { prefer: 'count=planned' } })).toEqual([
      200,
      '0-1/*',
    ]);
  });

  test('applies max-affected to the rows that a function call returns after its limit', async () => {
    expect((await send('/rpc/lamps_from?min=1&limit=2', strict('max-affected=2'))).status).toBe(200);
    expect(await json('/rpc/lamps_from?min=1', strict('max-affected=2'))).toMatchObject({
      code: 'PGRST124',
      details: 'The query affects 3 rows',
    });
  });

  test('ignores a max-affected that is not a number', async () => {
    const answer = await send('/lamps?id=eq.9', { method: 'DELETE', ...strict('max-affected=many') });
    expect(answer.status).toBe(204);
    expect(answer.headers.get('preference-applied')).toBe('handling=strict');
    expect(await json('/lamps?id=eq.9', { method: 'DELETE', ...strict('max-affected=-1') })).toMatchObject({
      code: 'PGRST124',
      details: 'The query affects 0 rows',
    });
  });

  test('sends both values of a header that a function sets twice', async () => {
    const { headers } = await send('/rpc/doubled', { method: 'POST' });
    expect([headers.get('vary'), headers.get('x-one')]).toEqual(['a, b', '1']);
  });

  test('answers 401 with WWW-Authenticate when a function raises an authorization error', async () => {
    const answer = await send('/rpc/unknown_visitor', { method: 'POST' });
    expect([answer.status, answer.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
  });

  test('checks deferred constraints before a rollback, and reports tx=rollback for reads too', async () => {
    const prefer = 'tx=rollback';
    const read = await send('/lamps?select=id&id=eq.1', { headers: { prefer } }, undoing);
    expect(read.headers.get('preference-applied')).toBe('tx=rollback');
    const body = JSON.stringify({ id: 9, pair: 10 });
    const headers = { prefer, 'content-type': 'application/json' };
    const answer = await send('/lamps', { method: 'POST', body, headers }, undoing);
    expect([answer.status, (await answer.json()).code]).toEqual([409, '23505']);
  });

  test('passes on the database error for a JSON path into text', async () => {
    expect(await json('/lamps?select=data->>a->b')).toMatchObject({
      code: '42883',
      message: 'operator does not exist: text -> unknown',
    });
    expect(await json('/lamps?select=data->a->b&data->a->>b=eq.1')).toEqual([{ b: 1 }]);
  });

  test('estimates the count of rows with embedded rows as the database plans the join', async () => {
    await database.execute('analyze public.lamps; analyze public.bulbs');
    const planned = async (search: string) => {
      const { headers } = await send(`/lamps?select=id,bulbs()&${search}`, {
        headers: { prefer: 'count=planned' },
      });
      return headers.get('content-range')?.split('/')[1];
    };
    const [{ 'QUERY PLAN': plan } = { 'QUERY PLAN': [] }] = (
      await database.query<{ 'QUERY PLAN': Array<{ Plan: { 'Plan Rows': number } }> }>(
        `explain (format json) select 1 from public.lamps t
         where exists (select 1 from public.bulbs b where t.id = b.lamp_id)`,
      )
    ).rows;
    expect(await planned('bulbs=not.is.null')).toBe(String(plan[0]?.Plan['Plan Rows']));
    expect(await ids('/lamps?select=id,bulbs()&bulbs=not.is.null&order=id')).toEqual([1, 2]);
    expect(await ids('/lamps?select=id,bulbs()&bulbs=is.null')).toEqual([3]);
  });

  test('ignores empty lines in CSV', async () => {
    const answer = await send('/lamps', {
      method: 'POST',
      body: 'id,room\n\n7,"cellar"\n\n',
      headers: { 'content-type': 'text/csv', prefer: 'return=representation' },
    });
    expect([answer.status, await answer.json()]).toMatchObject([201, [{ id: 7, room: 'cellar' }]]);
  });

  test('rejects columns of a scalar result', async () => {
    for (const search of ['select=x', 'x=eq.1', 'order=x', 'or=(x.eq.1)']) {
      const answer = await send(`/rpc/doubled?${search}`, { method: 'POST' });
      expect([answer.status, (await answer.json()).message], search).toEqual([
        400,
        'column doubled.x does not exist',
      ]);
    }
    expect(await json('/rpc/doubled?select=lamps(*)', { method: 'POST' })).toMatchObject({
      code: 'PGRST200',
    });
  });

  test('names embeds in errors as PostgREST does, and rejects duplicate names of embeds', async () => {
    expect(await json('/lamps?select=id,bulbs(size)')).toMatchObject({
      code: '42703',
      message: 'column bulbs_1.size does not exist',
    });
    expect(await json('/lamps?select=bulbs(lamps(size))')).toMatchObject({
      message: 'column lamps_2.size does not exist',
    });
    expect(await json('/lamps?select=id,bulbs(id),bulbs(lamp_id)')).toEqual({
      code: '42712',
      message: 'table name "lamps_bulbs_1" specified more than once',
      details: null,
      hint: null,
    });
    expect(await json('/lamps?select=id,bulbs(id),others:bulbs(lamp_id)&id=eq.2')).toEqual([
      { id: 2, bulbs: [{ id: 3 }], others: [{ lamp_id: 2 }] },
    ]);
  });

  test('selects, orders by and filters by a to-one embed', async () => {
    const all = [
      { id: 1, lamps: { room: 'hall' } },
      { id: 2, lamps: { room: 'hall' } },
      { id: 3, lamps: { room: 'attic' } },
    ];
    expect(await json('/bulbs?select=id,lamps(room)&order=id')).toEqual(all);
    expect(await json('/bulbs?select=id,lamps(room)&lamps=not.is.null&order=id')).toEqual(all);
    expect(await json('/bulbs?select=id,lamps(room)&order=lamps(room),id')).toEqual([all[2], all[0], all[1]]);
    expect(await json('/bulbs?select=id,lamps(room)&lamps.room=eq.attic&order=id')).toEqual([
      { id: 1, lamps: null },
      { id: 2, lamps: null },
      all[2],
    ]);
    expect(await json('/bulbs?select=id,lamps!inner(room)&lamps.room=eq.attic')).toEqual([all[2]]);
    expect(
      await json('/bulbs?select=id,lamps(room)&lamps.room=eq.attic&or=(lamps.is.null,id.eq.3)&order=id'),
    ).toEqual([{ id: 1, lamps: null }, { id: 2, lamps: null }, all[2]]);
  });

  test('sends a Content-Location with sorted and encoded parameters', async () => {
    const { headers } = await send('/lamps?select=*,id&room=like.*a+b~*&id=gt.0');
    expect(headers.get('content-location')).toBe('/lamps?id=gt.0&room=like.%2Aa%20b~%2A&select=%2A%2Cid');
  });

  test('finds computed columns and types in the extra search path', async () => {
    await database.execute(`
      create schema aside;
      grant usage on schema aside to anon;
      create function aside.loud(public.lamps) returns text language sql stable as 'select upper($1.room)';
      create function aside.doubled_id(public.lamps) returns int language sql stable as 'select -1';
      create function public.doubled_id(public.lamps) returns int language sql stable as 'select $1.id * 2';
      create type aside.place as enum ('hall', 'attic');`);
    const options: DataServiceOptions = { database, schemas: ['public'], extraSearchPath: ['aside'] };
    const searching = await createDataService(options);
    const answer = await send(
      '/lamps?select=loud,doubled_id,room::place&loud=eq.HALL&order=loud,id',
      {},
      searching,
    );
    expect(await answer.json()).toEqual([
      { loud: 'HALL', doubled_id: 2, room: 'hall' },
      { loud: 'HALL', doubled_id: 6, room: 'hall' },
    ]);
    expect((await send('/rpc/loud', { method: 'POST' }, searching)).status).toBe(404);
    await searching.close();
    expect((await json('/lamps?select=loud')).code).toBe('42703');
    await database.execute('drop schema aside cascade');
  });

  test('passes bytes through unchanged, and accepts an empty text', async () => {
    const bytes = new Uint8Array([0, 255, 92, 120, 10, 0]);
    const mirrored = async (body: Uint8Array<ArrayBuffer>) => {
      const headers = { 'content-type': 'application/octet-stream', accept: 'application/octet-stream' };
      const answer = await send('/rpc/mirrored', { method: 'POST', body, headers });
      return new Uint8Array(await answer.arrayBuffer());
    };
    expect(await mirrored(bytes)).toEqual(bytes);
    expect(await mirrored(new Uint8Array())).toEqual(new Uint8Array());
    const headers = { 'content-type': 'text/plain' };
    expect(await json('/rpc/measured', { method: 'POST', body: '', headers })).toBe(0);
  });

  test.each(['unknown/type', 'constructor'])(
    'finds no function for an empty body of type %s',
    async (type) => {
      const headers = { 'content-type': type };
      expect(await json('/rpc/measured', { method: 'POST', headers })).toMatchObject({ code: 'PGRST202' });
    },
  );

  test('sends the status text that a function raises', async () => {
    const { status, statusText } = await send('/rpc/teapot', { method: 'POST' });
    expect([status, statusText]).toEqual([418, 'Teapot of mine']);
    expect((await send('/rpc/unknown_visitor', { method: 'POST' })).statusText).toBe('who are you?');
  });

  test('answers 504 when no database connection becomes free', async () => {
    const busy = new DatabaseError('timeout exceeded when trying to connect', { code: '08006' });
    const waiting = await createDataService({
      schemas: ['public'],
      database: {
        ...database,
        transaction: (work, options) =>
          options?.settings?.role ? Promise.reject(busy) : database.transaction(work, options),
        read: () => Promise.reject(busy),
      },
    });
    const answer = await send('/lamps', {}, waiting);
    await waiting.close();
    expect([answer.status, await answer.json()]).toEqual([
      504,
      {
        code: 'PGRST003',
        message: 'Timed out acquiring connection from connection pool.',
        details: null,
        hint: null,
      },
    ]);
  });
});
