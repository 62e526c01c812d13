// What settings change of the service, and shapes of databases that only some applications have.
import { PostgrestClient } from '@supabase/postgrest-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Database } from '../database/database.ts';
import { testDatabases, throwawayDatabase } from '../database/throwaway.ts';
import { createDataService } from './service.ts';

const sources = [
  { name: 'platform', folder: 'backend/platform' },
  { name: 'library', folder: 'backend/data/fixture' },
];

const additions = `
  create schema rules;
  create function rules.check_request() returns void language plpgsql as $$
  begin
    if current_setting('request.path') = '/tags' and current_setting('app.settings.stage', true) = 'closed' then
      raise sqlstate 'PT423' using message = 'closed for now';
    end if;
  end $$;
  create schema stock;
  create table stock.shelves (_id int primary key, x int, r text, _row text);
  insert into stock.shelves values (1, 7, 'one', 'a'), (2, 8, 'two', 'b');
  create role stockist;
  grant stockist to current_user;
  grant usage on schema stock, rules to stockist, anon, authenticated;
  grant select on stock.shelves to stockist;
  create recursive view stock.steps (n) as values (1) union all select n + 1 from steps where n < 3;
  grant select on stock.steps to stockist;
  create function stock.loose() returns record language sql as $$ select 1 as id, 'one' as label $$;
  create function stock.loose_rows() returns setof record language sql as $$ values (1, 'one'), (2, 'two') $$;
  create function stock.words(variadic words text[]) returns text[] language sql immutable return words;
  create domain stock."text/html" as text;
  create domain stock."application/octet-stream" as bytea;
  create function stock.page() returns stock."text/html" language sql as $$ select '<p>hi</p>'::stock."text/html" $$;
  create function stock.bytes() returns stock."application/octet-stream" language sql
  as $$ select '\\x00ff10'::bytea::stock."application/octet-stream" $$;
  create domain stock.short as tsvector;
  create domain stock.shorter as stock.short;
  create table stock.notes (_id int primary key, text stock.shorter, kind int default null);
  insert into stock.notes values (1, 'apple pear');
  grant select on stock.notes to stockist;`;

describe.each(testDatabases())('the table-query service with settings of its own on %s', (kind) => {
  let database: Database;
  let service: Awaited<ReturnType<typeof createDataService>>;
  let stock: Awaited<ReturnType<typeof createDataService>>;
  beforeAll(async () => {
    database = await throwawayDatabase(kind, sources);
    await database.execute(additions);
    const common = { database, preRequest: { schema: 'rules', name: 'check_request' } };
    service = await createDataService({
      ...common,
      schemas: ['public'],
      allowsAggregates: true,
      rollsBack: true,
      allowsRollback: true,
      appSettings: { 'app.settings.stage': 'closed' },
    });
    stock = await createDataService({
      ...common,
      schemas: ['stock'],
      anonymousRole: 'stockist',
      allowsAnyRole: true,
      extraSearchPath: ['public'],
      maxRows: Number.POSITIVE_INFINITY,
    });
  });
  afterAll(async () => {
    await service.close();
    await stock.close();
    // Roles belong to the whole cluster.
    await database.execute('drop owned by stockist; drop role stockist');
    await database.close();
  });

  const send = (path: string, init: RequestInit = {}, of = service, role = 'anon') =>
    of.fetch(new Request(`http://backend/rest/v1${path}`, init), { claims: { role }, address: null });
  const get = async (path: string) => (await send(path)).json();
  const getStock = async (path: string, init: RequestInit = {}) =>
    (await send(path, init, stock, 'stockist')).json();
  const client = () =>
    // biome-ignore lint/suspicious/noExplicitAny: the client is driven without generated types
    new PostgrestClient<any, { PostgrestVersion: '14' }, any>('http://backend/rest/v1', {
      fetch: (input, init) =>
        service.fetch(new Request(input, init), { claims: { role: 'anon' }, address: null }),
    });

  test('aggregates are grouped by everything else that is selected', async () => {
    const { data, error } = await client()
      .from('books')
      .select('author_id, amount:count(), dearest:price.max(), price.sum()::text')
      .order('author_id');
    expect(error).toBeNull();
    expect(data).toEqual([
      { author_id: 1, amount: 2, dearest: 20, sum: '32.25' },
      { author_id: 2, amount: 1, dearest: 5, sum: '5.00' },
      { author_id: null, amount: 1, dearest: 7, sum: '7.00' },
    ]);
  });

  test('aggregates work inside embeds, spreads and beside embedded objects', async () => {
    expect(await get('/authors?select=name,books!author_id(price.sum())&order=id&limit=1')).toEqual([
      { name: 'Ada', books: [{ sum: 32.25 }] },
    ]);
    expect(
      await get('/books?select=total:price.sum(),...authors!author_id(name)&order=authors(name)'),
    ).toEqual([
      { total: 32.25, name: 'Ada' },
      { total: 5, name: 'Bo' },
      { total: 7, name: null },
    ]);
    expect(
      await get('/books?select=price.avg()::int4,author:authors!author_id(name)&author_id=eq.1'),
    ).toEqual([{ avg: 16, author: { name: 'Ada' } }]);
    const refused = await send('/authors?select=name,...books!author_id(price.sum())');
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({ code: 'PGRST127' });
  });

  test('a function called before every request may refuse it, and reads the settings of the application', async () => {
    const refused = await send('/tags');
    expect(refused.status).toBe(423);
    expect(await refused.json()).toMatchObject({ message: 'closed for now' });
    expect((await send('/authors')).status).toBe(200);
  });

  test('changes are undone unless the client asks to keep them', async () => {
    const post = (prefer: string) =>
      send(
        '/books?select=title',
        {
          method: 'POST',
          body: JSON.stringify({ title: 'Passing' }),
          headers: { 'content-type': 'application/json', prefer: `return=representation${prefer}` },
        },
        service,
        'authenticated',
      );
    const titles = () => get('/books?title=eq.Passing&select=title');
    expect(await (await post('')).json()).toEqual([{ title: 'Passing' }]);
    expect(await titles()).toEqual([]);
    expect((await post(',tx=commit')).headers.get('preference-applied')).toContain('tx=commit');
    expect(await titles()).toEqual([{ title: 'Passing' }]);
    await database.execute(`delete from public.books where title = 'Passing'`);
  });

  test('any role of the database is taken where that is allowed', async () => {
    expect(await getStock('/shelves?select=_id&order=_id')).toEqual([{ _id: 1 }, { _id: 2 }]);
    const refused = await send('/shelves', {}, stock, 'anon');
    expect(refused.status).toBe(403);
    expect((await send('/books', {}, service, 'stockist')).status).toBe(401);
  });

  test('columns named like anything in the statement stay columns', async () => {
    expect(await getStock('/shelves?select=x,r,_row&_id=eq.1')).toEqual([{ x: 7, r: 'one', _row: 'a' }]);
    expect(await getStock('/shelves?select=x&_id=eq.1')).toEqual([{ x: 7 }]);
    expect(await getStock('/shelves?select=r&_id=eq.1')).toEqual([{ r: 'one' }]);
  });

  test('a recursive view is read like any other', async () => {
    expect(await getStock('/steps?n=gt.1')).toEqual([{ n: 2 }, { n: 3 }]);
  });

  test('rows nobody declared the columns of are given as they come', async () => {
    expect(await getStock('/rpc/loose', { method: 'POST' })).toEqual({ id: 1, label: 'one' });
    expect(await getStock('/rpc/loose_rows', { method: 'POST' })).toEqual([
      { column1: 1, column2: 'one' },
      { column1: 2, column2: 'two' },
    ]);
  });

  test('a form repeats the name of a variadic argument', async () => {
    const words = (body: string) =>
      getStock('/rpc/words', {
        method: 'POST',
        body,
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
      });
    expect(await words('words=hi')).toEqual(['hi']);
    expect(await words('words=hi&words=there')).toEqual(['hi', 'there']);
  });

  test('a function whose result is of a media type answers in that type', async () => {
    const ask = (path: string, accept: string) => send(path, { headers: { accept } }, stock, 'stockist');
    const page = await ask('/rpc/page', 'text/html');
    expect([page.headers.get('content-type'), await page.text()]).toEqual(['text/html', '<p>hi</p>']);
    const bytes = await ask('/rpc/bytes', '*/*');
    expect(bytes.headers.get('content-type')).toBe('application/octet-stream');
    expect([...new Uint8Array(await bytes.arrayBuffer())]).toEqual([0, 255, 16]);
    expect(await (await ask('/rpc/page', 'application/json')).json()).toBe('<p>hi</p>');
    expect((await ask('/rpc/page', 'image/png')).status).toBe(406);
  });

  test('a search knows a tsvector below domains of domains', async () => {
    expect(await getStock('/notes?select=_id&text=fts(simple).pear')).toEqual([{ _id: 1 }]);
  });

  test('an embed with an alias answers to both of its names, and shows nothing when it is empty all the way down', async () => {
    const path = '/authors?select=id,works:books!author_id(title)&books.order=title.desc&id=eq.1';
    expect(await get(path)).toEqual([{ id: 1, works: [{ title: 'Looms' }, { title: 'Engines' }] }]);
    expect(await get('/authors?select=id,books!author_id(book_tags())&id=eq.1')).toEqual([{ id: 1 }]);
  });

  test('what has no columns to take is refused before anything is changed', async () => {
    const answer = await send(
      '/books?columns=',
      { method: 'POST', body: '[{"title":"None"}]', headers: { 'content-type': 'application/json' } },
      service,
      'authenticated',
    );
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({
      code: 'PGRST100',
      message: '"failed to parse columns parameter ()" (line 1, column 1)',
    });
  });
});
