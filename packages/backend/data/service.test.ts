// The service with the official client and with raw requests, on both databases.
import { PostgrestClient } from '@supabase/postgrest-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Claims } from '../database/as-role.ts';
import { type Database, DatabaseError } from '../database/database.ts';
import { platform, testDatabases, throwawayDatabase } from '../testing/throwaway.ts';
import { createDataService } from './service.ts';

const sources = [platform, { name: 'library', folder: 'packages/backend/data/fixture' }];
const anon: Claims = { role: 'anon' };
const member: Claims = { role: 'authenticated', sub: '00000000-0000-4000-8000-000000000001' };

describe.each(testDatabases())('the table-query service on %s', (kind) => {
  let database: Database;
  let service: Awaited<ReturnType<typeof createDataService>>;
  const errors: unknown[] = [];
  beforeAll(async () => {
    database = await throwawayDatabase(kind, sources);
    service = await createDataService({
      database,
      schemas: ['public'],
      limits: { maxBodyBytes: 100_000, maxRows: 50 },
      maxEmbedDepth: 4,
      statementTimeout: 5000,
      openApiMode: 'disabled',
      allowsRollback: true,
      onError: (error) => errors.push(error),
    });
  });
  afterAll(async () => {
    await service.close();
    await database.close();
  });

  const clientOf = (claims: Claims) =>
    // biome-ignore lint/suspicious/noExplicitAny: the client is driven without generated types
    new PostgrestClient<any, { PostgrestVersion: '14' }, any>('http://backend/rest/v1', {
      fetch: (input, init) => service.fetch(new Request(input, init), { claims, address: null }),
    });
  const asAnon = clientOf(anon);
  const asMember = clientOf(member);
  const raw = (path: string, init: RequestInit = {}, claims = anon) =>
    service.fetch(new Request(`http://backend/rest/v1${path}`, init), { claims, address: null });
  const get = async (path: string, claims = anon) => (await raw(path, {}, claims)).json();
  const send = (method: string, path: string, body: unknown, prefer = '', claims = member) =>
    raw(
      path,
      {
        method,
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
        headers: { 'content-type': 'application/json', ...(prefer && { prefer }) },
      },
      claims,
    );
  const ids = (list: Array<{ id: number }> | null) => list?.map(({ id }) => id);

  describe('reading', () => {
    test('selects columns, casts, aliases, JSON paths and computed columns', async () => {
      const { data, error } = await asAnon
        .from('authors')
        .select('id::text, who:name, details->>city, year:details->awards->0->year, aliases->0, initials')
        .eq('id', 1);
      expect(error).toBeNull();
      expect(data).toEqual([
        { id: '1', who: 'Ada', city: 'London', year: 1843, aliases: 'Countess', initials: 'A' },
      ]);
    });

    test('selects every column for a star and for an empty selection', async () => {
      expect(await get('/tags?select=*&id=eq.1')).toEqual([{ id: 1, label: 'maths' }]);
      expect(await get('/tags?select=&id=eq.1')).toEqual([{ id: 1, label: 'maths' }]);
    });

    test.each([
      ['id=eq.2', [2]],
      ['id=neq.2', [1, 3, 4]],
      ['id=gt.2', [3, 4]],
      ['id=gte.2', [2, 3, 4]],
      ['price=lt.7.00', [3]],
      ['price=lte.7', [3, 4]],
      ['title=like.*s', [1, 2, 3]],
      ['title=ilike.k%25', [3]],
      ['title=match.^[EK]', [1, 3]],
      ['title=imatch.^[ek]', [1, 3]],
      ['title=like(any).{E*,K*}', [1, 3]],
      ['title=like(all).{*n*,*s}', [1]],
      ['id=eq(any).{1,4}', [1, 4]],
      ['id=in.(1,3)', [1, 3]],
      ['id=in.()', []],
      ['id=not.in.(1,3)', [2, 4]],
      ['title=in.("Anon, \\"quoted\\"",Kites)', [3, 4]],
      ['mood=in.(calm)', [1, 4]],
      ['mood=eq.wild', [2]],
      ['mood=is.null', [3]],
      ['mood=not.is.null', [1, 2, 4]],
      ['mood=is.not_null', [1, 2, 4]],
      ['is_lent=is.true', [1]],
      ['is_lent=is.unknown', [3]],
      ['mood=isdistinct.calm', [2, 3]],
      ['pages=cs.[20,60)', [1]],
      ['pages=ov.[60,70)', [1]],
      ['pages=cd.[0,60)', [2]],
      ['search=fts.engine', [1]],
      ['search=plfts(english).the looms', [2]],
      ['title=wfts(english).kites or engines', [1, 3]],
      ['or=(id.eq.1,title.like.K*)', [1, 3]],
      ['or=(id.eq.1,and(id.gt.2,not.or(mood.is.null,id.gt.9)))', [1, 4]],
      ['and=(id.gt.1,id.lt.4)&id=neq.2', [3]],
      ['not.or=(id.eq.1,id.eq.2)', [3, 4]],
      ['or=(title.eq."Anon, \\"quoted\\"",id.in.(2,3))', [2, 3, 4]],
      ['author_id=eq.1&order=id.desc', [2, 1]],
      ['order=mood.desc.nullslast,id.desc', [2, 4, 1, 3]],
      ['order=mood.asc.nullsfirst,id', [3, 1, 4, 2]],
      ['limit=2&offset=1', [2, 3]],
      ['limit=0', []],
    ])('filters, orders and limits by %s', async (query, expected) => {
      const order = query.includes('order=') ? '' : '&order=id';
      expect(ids(await get(`/books?select=id&${query}${order}`))).toEqual(expected);
    });

    test('filters by arrays and JSON', async () => {
      const find = (query: string) => get(`/authors?select=id&${query}&order=id`, member);
      expect(ids(await find('aliases=cs.{"Two, words"}'))).toEqual([3]);
      expect(ids(await find('aliases=ov.{Countess,Hidden}'))).toEqual([1, 3]);
      expect(ids(await find('details=cs.{"city":"London"}'))).toEqual([1]);
      expect(ids(await find('details->>city=eq.London'))).toEqual([1]);
      expect(ids(await find('details->awards->0->>year=eq.1843'))).toEqual([1]);
      expect(ids(await find('details->awards->-1->year=eq.1843'))).toEqual([1]);
    });

    test('counts exactly, by plan and by estimate, and returns the range of a page', async () => {
      const exact = await asAnon.from('books').select('id', { count: 'exact' }).order('id').range(1, 2);
      expect([exact.count, exact.status, ids(exact.data)]).toEqual([4, 206, [2, 3]]);
      const head = await asAnon.from('books').select('*', { count: 'exact', head: true }).lt('id', 3);
      expect([head.count, head.data, head.status]).toEqual([2, null, 200]);
      const estimated = await asAnon.from('books').select('id', { count: 'estimated' });
      expect(estimated.count).toBe(4);
      const planned = await asAnon.from('books').select('id', { count: 'planned' });
      expect(planned.count).toBeGreaterThan(0);
      const ranged = await raw('/books?select=id', { headers: { range: '0-1', prefer: 'count=exact' } });
      expect([ranged.status, ranged.headers.get('content-range')]).toEqual([206, '0-1/4']);
      expect(ranged.headers.get('preference-applied')).toBe('count=exact');
      const last = await raw('/books?select=id', { headers: { range: '2-9', prefer: 'count=exact' } });
      expect([last.status, last.headers.get('content-range')]).toEqual([206, '2-3/4']);
      expect((await raw('/books?select=id&id=gt.99')).headers.get('content-range')).toBe('*/*');
    });

    test('rejects a page that begins beyond the end', async () => {
      const beyond = await raw('/books?offset=5', { headers: { prefer: 'count=exact' } });
      expect(beyond.status).toBe(416);
      expect(await beyond.json()).toEqual({
        code: 'PGRST103',
        message: 'Requested range not satisfiable',
        details: 'An offset of 5 was requested, but there are only 4 rows.',
        hint: null,
      });
      const atEnd = await raw('/books?offset=4', { headers: { prefer: 'count=exact' } });
      expect([atEnd.status, await atEnd.json()]).toEqual([206, []]);
      expect((await raw('/books?limit=-1')).status).toBe(416);
      expect((await raw('/books', { headers: { range: '3-1' } })).status).toBe(416);
    });

    test('returns a single object for exactly one row', async () => {
      const one = await asAnon.from('tags').select().eq('id', 1).single();
      expect(one.data).toEqual({ id: 1, label: 'maths' });
      const many = await asAnon.from('tags').select().single();
      expect([many.status, many.error?.code, many.error?.details]).toEqual([
        406,
        'PGRST116',
        'The result contains 3 rows',
      ]);
      const maybe = await asAnon.from('tags').select().eq('id', 99).maybeSingle();
      expect([maybe.data, maybe.error]).toEqual([null, null]);
    });

    test('writes CSV and strips nulls on request', async () => {
      const { data } = await asAnon.from('books').select('id,title').gte('id', 3).order('id').csv();
      expect(data).toBe('id,title\n3,Kites\n4,"Anon, ""quoted"""');
      const stripped = await raw('/books?select=id,mood&id=eq.3', {
        headers: { accept: 'application/vnd.pgrst.array+json;nulls=stripped' },
      });
      expect(await stripped.json()).toEqual([{ id: 3 }]);
      const none = await raw('/books', { headers: { accept: 'image/png' } });
      expect([none.status, (await none.json()).code]).toEqual([406, 'PGRST107']);
    });

    test('never returns more rows than the service allows', async () => {
      const { data } = await asAnon.rpc('many_numbers').select();
      expect(data).toHaveLength(50);
    });

    test('passes text through as PostgreSQL wrote it', async () => {
      const text = await (await raw('/books?select=price&id=eq.2')).text();
      expect(text).toBe('[{"price":12.25}]');
      const response = await raw('/books?limit=1&select=id');
      expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8');
      expect(response.headers.get('content-location')).toBe('/books?limit=1&select=id');
    });
  });

  describe('embedding', () => {
    test('follows foreign keys to one, to many, and through junctions', async () => {
      const { data, error } = await asAnon
        .from('books')
        .select('title, author:author_id(name), tags(label), editor:authors!editor_id(name)')
        .order('id')
        .limit(1);
      expect(error).toBeNull();
      expect(data).toEqual([
        { title: 'Engines', author: { name: 'Ada' }, tags: [{ label: 'maths' }], editor: { name: 'Bo' } },
      ]);
      expect(
        await get('/authors?select=name,books!books_author_id_fkey(id),portraits(painter)&id=eq.2'),
      ).toEqual([{ name: 'Bo', books: [{ id: 3 }], portraits: null }]);
    });

    test('follows a foreign key from a table to itself in both directions', async () => {
      expect(await get('/authors?select=name,mentor_id(name),pupils:authors(name)&order=id')).toEqual([
        { name: 'Ada', mentor_id: null, pupils: [{ name: 'Bo' }] },
        { name: 'Bo', mentor_id: { name: 'Ada' }, pupils: [] },
      ]);
    });

    test('follows foreign keys through views of views, and computed relationships', async () => {
      const path = '/recent_books?select=id,authors(name,initials,cheapest_book(title))&id=eq.2';
      expect(await get(path)).toEqual([
        { id: 2, authors: { name: 'Ada', initials: 'A', cheapest_book: { title: 'Looms' } } },
      ]);
    });

    test('filters, orders and limits what is embedded without dropping parents', async () => {
      const { data } = await asAnon
        .from('tags')
        .select('id, books(id)')
        .order('id')
        .gt('books.id', 1)
        .order('id', { referencedTable: 'books', ascending: false })
        .limit(1, { referencedTable: 'books' });
      expect(data).toEqual([
        { id: 1, books: [{ id: 3 }] },
        { id: 2, books: [{ id: 3 }] },
        { id: 3, books: [] },
      ]);
      expect(
        await get('/tags?select=id,books(id)&id=eq.1&books.or=(id.eq.1,title.eq.Looms)&books.order=id'),
      ).toEqual([{ id: 1, books: [{ id: 1 }, { id: 2 }] }]);
    });

    test('drops parents for inner embeds and for null filters, also in counts', async () => {
      const read = async (path: string) => {
        const response = await raw(path, { headers: { prefer: 'count=exact' } });
        return [ids(await response.json()), response.headers.get('content-range')?.split('/')[1]];
      };
      expect(await read('/tags?select=id,books!inner(id)&books.id=eq.3&order=id')).toEqual([[1, 2], '2']);
      expect(
        await read('/tags?select=id,books!inner(authors!author_id!inner(id))&books.authors.name=eq.Ada'),
      ).toEqual([[1], '1']);
      expect(await read('/tags?select=id,books()&books=is.null')).toEqual([[3], '1']);
      expect(await read('/tags?select=id,books()&books=not.is.null&order=id')).toEqual([[1, 2], '2']);
      expect(await read('/tags?select=id,books()&or=(books.is.null,id.eq.1)&order=id')).toEqual([
        [1, 3],
        '2',
      ]);
      expect(
        await read('/books?select=id,authors!author_id!inner(name)&order=authors(name).desc,id'),
      ).toEqual([[3, 1, 2], '3']);
    });

    test('orders by a field of a to-one embed only', async () => {
      const path = '/books?select=id,authors!author_id(name)&order=authors(name).desc.nullslast,id';
      expect(ids(await get(path))).toEqual([3, 1, 2, 4]);
      expect(await get('/tags?select=id,books(id)&order=books(id)')).toMatchObject({ code: 'PGRST118' });
      expect(await get('/tags?select=id&order=books(id)')).toMatchObject({ code: 'PGRST108' });
    });

    test('spreads embeds into their parent', async () => {
      expect(await get('/books?select=id,...authors!author_id(author:name,born)&id=eq.1')).toEqual([
        { id: 1, author: 'Ada', born: '1815-12-10' },
      ]);
      expect(await get('/tags?select=id,...books(title,price)&books.order=id&order=id.desc&limit=2')).toEqual(
        [
          { id: 3, title: [], price: [] },
          { id: 2, title: ['Kites'], price: [5] },
        ],
      );
      expect(await get('/portraits?select=painter,...authors(*)')).toMatchObject([
        { painter: 'Margaret', id: 1 },
      ]);
    });

    test('counts embedded rows', async () => {
      const { data } = await asAnon.from('tags').select('id, books(count)').order('id');
      expect(data?.map(({ books }) => books[0]?.count)).toEqual([3, 1, 0]);
      expect(await get('/books?select=count')).toEqual([{ count: 4 }]);
    });

    test('asks for a hint when several relationships are possible', async () => {
      const response = await raw('/books?select=id,authors(name)');
      expect(response.status).toBe(300);
      expect(await response.json()).toEqual({
        code: 'PGRST201',
        message: "Could not embed because more than one relationship was found for 'books' and 'authors'",
        details: [
          {
            cardinality: 'many-to-one',
            embedding: 'books with authors',
            relationship: 'books_author_id_fkey using books(author_id) and authors(id)',
          },
          {
            cardinality: 'many-to-one',
            embedding: 'books with authors',
            relationship: 'books_editor_id_fkey using books(editor_id) and authors(id)',
          },
        ],
        hint: "Try changing 'authors' to one of the following: 'authors!books_author_id_fkey', 'authors!books_editor_id_fkey'. Find the desired relationship in the 'details' key.",
      });
    });

    test('embeds many rows in rows of the same relation only where that is allowed', async () => {
      const guarded = await createDataService({ database, schemas: ['public'], allowsCircles: false });
      const ask = async (path: string) => {
        const request = new Request(`http://backend/rest/v1${path}`);
        return (await guarded.fetch(request, { claims: anon, address: null })).json();
      };
      expect(await get('/tags?select=books(tags(id))')).toBeInstanceOf(Array);
      for (const circle of ['/tags?select=books(tags(id))', '/books?select=book_tags(tags(books(id)))']) {
        expect(await ask(circle)).toMatchObject({
          code: 'PGRST100',
          message: 'The embedded resources lead back to where they come from',
        });
      }
      // A single row in each does not multiply rows.
      expect(await ask('/books?select=id,book_tags(books(id),tags(id))')).toBeInstanceOf(Array);
      expect(await ask('/authors?select=id,mentor_id(name)')).toBeInstanceOf(Array);
      await guarded.close();
    });

    test('rejects unknown relationships, filters on unselected embeds and too deep nesting', async () => {
      expect(await get('/books?select=id,tagz(id)')).toMatchObject({
        code: 'PGRST200',
        message: "Could not find a relationship between 'books' and 'tagz' in the schema cache",
        details:
          "Searched for a foreign key relationship between 'books' and 'tagz' in the schema 'public', but no matches were found.",
      });
      expect(await get('/books?tags.id=eq.1')).toMatchObject({ code: 'PGRST108' });
      expect(await get('/tags?select=id,books()&books=eq.1')).toMatchObject({ code: 'PGRST120' });
      const deep = '/tags?select=books(tags(books(tags(books(id)))))';
      expect(await get(deep)).toMatchObject({ code: 'PGRST100' });
    });
  });

  describe('changing', () => {
    test('inserts one row and many, with and without returning them', async () => {
      const silent = await send('POST', '/tags', { id: 10, label: 'ten' });
      expect([silent.status, await silent.text(), silent.headers.get('content-type')]).toEqual([
        201,
        '',
        null,
      ]);
      const { data, status } = await asMember
        .from('tags')
        .insert([
          { id: 11, label: 'eleven' },
          { id: 12, label: 'twelve' },
        ])
        .select('label');
      expect([status, data]).toEqual([201, [{ label: 'eleven' }, { label: 'twelve' }]]);
      const one = await asMember.from('tags').insert({ id: 13, label: 'thirteen' }).select().single();
      expect(one.data).toEqual({ id: 13, label: 'thirteen' });
      const counted = await send('POST', '/tags', [{ id: 14, label: '14' }], 'count=exact');
      expect(counted.headers.get('content-range')).toBe('*/1');
      await asMember.from('tags').delete().gte('id', 10);
    });

    test('returns embeds of a new row', async () => {
      const { data, error } = await asMember
        .from('books')
        .insert({ title: 'New', author_id: 1 })
        .select('title, price, author:authors!author_id(name), tags(id)')
        .single();
      expect(error).toBeNull();
      expect(data).toEqual({ title: 'New', price: 9.5, author: { name: 'Ada' }, tags: [] });
      const withFunction = await asMember
        .from('authors')
        .insert({ name: 'Zoe' })
        .select('initials, cheapest_book(title)')
        .single();
      expect(withFunction.data).toEqual({ initials: 'Z', cheapest_book: null });
      await asMember.from('books').delete().eq('title', 'New');
      await asMember.from('authors').delete().eq('name', 'Zoe');
    });

    test('uses defaults for missing keys on request', async () => {
      const made = await asMember
        .from('books')
        .insert([{ title: 'A', price: 1 }, { title: 'B' }], { defaultToNull: false })
        .select('title,price');
      expect(made.data).toEqual([
        { title: 'A', price: 1 },
        { title: 'B', price: 9.5 },
      ]);
      const refused = await asMember.from('books').insert([{ title: 'A', price: 1 }, { title: 'B' }]);
      expect(refused.error?.code).toBe('23502');
      const empty = await send('POST', '/authors?select=name', {}, 'return=representation');
      expect((await empty.json()).code).toBe('23502');
      await asMember.from('books').delete().in('title', ['A', 'B']);
    });

    test('returns the Location of a new row', async () => {
      const made = await send('POST', '/tags', { id: 20, label: 'twenty' }, 'return=headers-only');
      expect([made.status, made.headers.get('location')]).toEqual([201, '/tags?id=eq.20']);
      expect(made.headers.get('preference-applied')).toBe('return=headers-only');
      await asMember.from('tags').delete().eq('id', 20);
    });

    test('merges and ignores duplicates', async () => {
      const merged = await asMember
        .from('tags')
        .upsert([
          { id: 1, label: 'mathematics' },
          { id: 30, label: 'thirty' },
        ])
        .select();
      expect([merged.status, merged.data]).toEqual([
        201,
        [
          { id: 1, label: 'mathematics' },
          { id: 30, label: 'thirty' },
        ],
      ]);
      const again = await send('POST', '/tags', { id: 1, label: 'maths' }, 'resolution=merge-duplicates');
      expect([again.status, again.headers.get('preference-applied')]).toEqual([
        200,
        'resolution=merge-duplicates',
      ]);
      const ignored = await asMember
        .from('tags')
        .upsert({ id: 31, label: 'maths' }, { onConflict: 'label', ignoreDuplicates: true })
        .select();
      expect(ignored.data).toEqual([]);
      await asMember.from('tags').delete().gte('id', 30);
      expect((await asAnon.from('tags').select('label').eq('id', 1).single()).data).toEqual({
        label: 'maths',
      });
    });

    test('updates the filtered rows and returns their count', async () => {
      const { data, count, status } = await asMember
        .from('books')
        .update({ is_lent: true }, { count: 'exact' })
        .eq('author_id', 1)
        .select('id')
        .order('id');
      expect([status, count, ids(data)]).toEqual([200, 2, [1, 2]]);
      const silent = await send('PATCH', '/books?id=eq.2', { is_lent: false }, 'count=exact');
      expect([silent.status, silent.headers.get('content-range')]).toEqual([204, '0-0/1']);
      const nothing = await send('PATCH', '/books?id=eq.2', {});
      expect([nothing.status, nothing.headers.get('content-range')]).toEqual([204, '*/*']);
      const missing = await asMember.from('books').update({ is_lent: true }).eq('id', 999).select();
      expect(missing.data).toEqual([]);
    });

    test('deletes the filtered rows', async () => {
      await asMember.from('tags').insert([
        { id: 40, label: '40' },
        { id: 41, label: '41' },
      ]);
      const shown = await asMember.from('tags').delete().or('id.eq.40').select();
      expect(shown.data).toEqual([{ id: 40, label: '40' }]);
      const counted = await asMember.from('tags').delete({ count: 'exact' }).eq('id', 41);
      expect([counted.status, counted.count]).toEqual([204, 1]);
    });

    test('puts one row whose key is in the URL', async () => {
      const made = await send('PUT', '/tags?id=eq.50', { id: 50, label: 'fifty' }, 'return=representation');
      expect([made.status, await made.json()]).toEqual([201, [{ id: 50, label: 'fifty' }]]);
      const changed = await send('PUT', '/tags?id=eq.50', { id: 50, label: 'L' }, 'return=representation');
      expect([changed.status, await changed.json()]).toEqual([200, [{ id: 50, label: 'L' }]]);
      const mismatch = await send('PUT', '/tags?id=eq.50', { id: 51, label: 'X' });
      expect((await mismatch.json()).code).toBe('PGRST115');
      expect((await (await send('PUT', '/tags?label=eq.L', { id: 50 })).json()).code).toBe('PGRST105');
      await asMember.from('tags').delete().eq('id', 50);
      expect(await get('/tags?id=gte.50')).toEqual([]);
    });

    test('rolls back a change that violates the requested condition', async () => {
      const tooMany = await asMember.from('books').update({ title: 'Same' }).gt('id', 0).select().single();
      expect(tooMany.error?.code).toBe('PGRST116');
      const limited = await asMember.from('books').update({ title: 'Same' }).gt('id', 0).maxAffected(1);
      expect(limited.error).toMatchObject({ code: 'PGRST124', details: 'The query affects 4 rows' });
      const undone = await asMember.from('tags').insert({ id: 60, label: 'sixty' }).rollback().select();
      expect(undone.data).toEqual([{ id: 60, label: 'sixty' }]);
      expect(await get('/books?select=id&title=eq.Same')).toEqual([]);
      expect(await get('/tags?id=eq.60')).toEqual([]);
    });

    test('accepts CSV and forms', async () => {
      const type = (value: string) => ({ 'content-type': value, prefer: 'return=representation' });
      const csv = await raw(
        '/tags',
        { method: 'POST', headers: type('text/csv'), body: 'id,label\n70,"a, ""b"""\n71,c\n' },
        member,
      );
      expect(await csv.json()).toEqual([
        { id: 70, label: 'a, "b"' },
        { id: 71, label: 'c' },
      ]);
      const form = await raw(
        '/tags',
        { method: 'POST', headers: type('application/x-www-form-urlencoded'), body: 'id=72&label=x+y' },
        member,
      );
      expect(await form.json()).toEqual([{ id: 72, label: 'x y' }]);
      await asMember.from('tags').delete().gte('id', 70);
    });

    test.each([
      ['{"id":', 'Empty or invalid json'],
      ['', 'Empty or invalid json'],
      ['[{"id":1,"label":"a"},{"id":2}]', 'All object keys must match'],
    ])('rejects the body %j', async (body, message) => {
      const response = await send('POST', '/tags', body);
      expect(response.status).toBe(400);
      expect(await response.json()).toEqual({ code: 'PGRST102', message, details: null, hint: null });
      expect(response.headers.get('proxy-status')).toBe('PostgREST; error=PGRST102');
    });

    test('rejects unknown columns and bodies that are too long', async () => {
      const unknown = await asMember.from('tags').insert({ id: 1, nope: 2 });
      expect(unknown.error).toMatchObject({
        code: 'PGRST204',
        message: "Could not find the 'nope' column of 'tags' in the schema cache",
      });
      const long = await send('POST', '/tags', JSON.stringify({ id: 1, label: 'x'.repeat(100_001) }));
      expect([long.status, (await long.json()).message]).toEqual([413, 'The body is too long']);
    });
  });

  describe('calling', () => {
    test('returns scalars, sets, objects and nothing', async () => {
      expect((await asAnon.rpc('add_them', { a: 1, b: 2 })).data).toBe(3);
      expect((await asAnon.rpc('add_them', { a: 1 }, { get: true })).data).toBe(11);
      expect((await asAnon.rpc('numbers')).data).toEqual([1, 2, 3]);
      expect((await asAnon.rpc('plus_one', { num: 5 })).data).toEqual({ num_plus_one: 6 });
      expect((await asAnon.rpc('book_of', { book: 1 })).data).toMatchObject({ title: 'Engines' });
      expect((await asAnon.rpc('book_of', { book: 999 })).data).toBeNull();
      const nothing = await asAnon.rpc('do_nothing');
      expect([nothing.status, nothing.data, nothing.error]).toEqual([204, null, null]);
    });

    test('selects from, filters, orders and embeds in the rows a function returns', async () => {
      const { data, count } = await asAnon
        .rpc('books_of', { author: 1 }, { count: 'exact' })
        .select('title, tags(label)')
        .gt('price', 15);
      expect([data, count]).toEqual([[{ title: 'Engines', tags: [{ label: 'maths' }] }], 1]);
      expect(await get('/rpc/books_of?author=1&price=lt.15&select=id')).toEqual([{ id: 2 }]);
      expect(await get('/rpc/price_table?select=title&order=price&limit=1')).toEqual([{ title: 'Kites' }]);
    });

    test('accepts arguments by name, by repetition and as a whole body', async () => {
      expect(await get('/rpc/joined?words=a&words=b,c')).toBe('a-b,c');
      expect((await asAnon.rpc('joined', { words: ['x', 'y'] })).data).toBe('x-y');
      expect((await asAnon.rpc('whole', { any: ['thing'] })).data).toEqual({ any: ['thing'] });
      expect(await (await send('POST', '/rpc/whole', [1, { a: 2 }])).json()).toEqual([1, { a: 2 }]);
      expect((await asAnon.rpc('either', { a: 1 })).data).toBe('a');
      expect((await asAnon.rpc('either', { b: '1' })).data).toBe('b');
    });

    test('distinguishes missing and ambiguous functions', async () => {
      const none = await asAnon.rpc('add_them', { x: 1, c: 2 });
      expect([none.status, none.error]).toMatchObject([
        404,
        {
          code: 'PGRST202',
          message: 'Could not find the function public.add_them(c, x) in the schema cache',
          details:
            'Searched for the function public.add_them with parameters c, x or with a single unnamed json/jsonb parameter, but no matches were found in the schema cache.',
        },
      ]);
      const several = await asAnon.rpc('torn', { a: 1 });
      expect([several.status, several.error]).toMatchObject([
        300,
        {
          code: 'PGRST203',
          message:
            'Could not choose the best candidate function between: public.torn(a => integer), public.torn(a => text)',
        },
      ]);
      expect((await raw('/rpc/trigger_function')).status).toBe(404);
    });

    test('writes only in calls that may write', async () => {
      const made = await asMember.rpc('add_tag', { id: 80, label: 'eighty' });
      expect(made.data).toEqual({ id: 80, label: 'eighty' });
      const read = await raw('/rpc/add_tag?id=81&label=x', {}, member);
      expect([read.status, (await read.json()).code]).toEqual([405, '25006']);
      await asMember.from('tags').delete().eq('id', 80);
    });

    test('lets a function set status and headers', async () => {
      const response = await raw('/rpc/answer_oddly', { method: 'POST' });
      expect([response.status, response.headers.get('x-odd'), await response.json()]).toEqual([
        202,
        'very',
        'odd',
      ]);
      const next = await raw('/rpc/add_them?a=1');
      expect([next.status, next.headers.get('x-odd')]).toEqual([200, null]);
    });

    test('passes the caller and the request to functions as settings', async () => {
      const response = await raw(
        '/rpc/what_sql_sees?x.limit=',
        { headers: { 'X-Agent': 'test', cookie: 'taste=sweet; b=c' } },
        member,
      );
      expect(await response.json()).toEqual({
        role: 'authenticated',
        claims: member,
        method: 'GET',
        path: '/rpc/what_sql_sees',
        agent: 'test',
        cookie: 'sweet',
        timeout: '5s',
      });
    });
  });

  describe('failing', () => {
    test.each([
      ['PT418', 418],
      ['23505', 409],
      ['P0001', 400],
      ['42501', 401],
      ['22000', 400],
      ['XX000', 500],
    ])('answers a function that raises %s with %i', async (state, status) => {
      const { error, status: answered } = await asAnon.rpc('fail', { state });
      expect([answered, error]).toMatchObject([
        status,
        { code: state, message: 'it failed', details: null, hint: 'try less' },
      ]);
    });

    test('returns the response that a function raises with PGRST', async () => {
      const response = await raw('/rpc/fail_as_told', { method: 'POST' });
      expect([response.status, response.headers.get('x-tea'), await response.json()]).toEqual([
        418,
        'yes',
        { code: '123', message: 'raised by a test', details: null, hint: null },
      ]);
    });

    test('returns the SQLSTATE of a violated constraint', async () => {
      const duplicate = await asMember.from('tags').insert({ id: 1, label: 'again' });
      expect([duplicate.status, duplicate.error?.code]).toEqual([409, '23505']);
      const dangling = await asMember.from('books').insert({ title: 'x', author_id: 999 });
      expect([dangling.status, dangling.error?.code]).toEqual([409, '23503']);
      const misfit = await asMember.from('tags').insert({ id: 'x', label: '' });
      expect([misfit.status, misfit.error?.code]).toEqual([400, '22P02']);
    });

    test.each([
      ['/nowhere', 404, 'PGRST205', "Could not find the table 'public.nowhere' in the schema cache"],
      ['/book', 404, 'PGRST205', "Could not find the table 'public.book' in the schema cache"],
      ['/books/1', 404, 'PGRST125', 'Invalid path specified in request URL'],
      ['/', 404, 'PGRST126', 'Root endpoint metadata is disabled'],
      ['/books?select=nope', 400, '42703', 'column books.nope does not exist'],
      ['/books?nope=eq.1', 400, '42703', 'column books.nope does not exist'],
      ['/books?order=nope', 400, '42703', 'column books.nope does not exist'],
      ['/books?select=id::nope', 400, '42704', 'type "nope" does not exist'],
      ['/books?id=what.1', 400, 'PGRST100', '"failed to parse filter (what.1)" (line 1, column 1)'],
      ['/books?select=price.sum()', 400, 'PGRST123', 'Use of aggregate functions is not allowed'],
      ['/books?id=eq.x', 400, '22P02', 'invalid input syntax for type bigint: "x"'],
      ['/books?id=like.1', 404, '42883', 'operator does not exist: bigint ~~ unknown'],
    ])('answers %s with %i %s', async (path, status, code, message) => {
      const response = await raw(path);
      const error = await response.json();
      expect([response.status, error.code]).toEqual([status, code]);
      if (code !== '42883') expect(error.message).toBe(message);
      expect(Object.keys(error).sort()).toEqual(['code', 'details', 'hint', 'message']);
    });

    test('rejects unknown methods, schemas and strict preferences', async () => {
      expect((await raw('/books', { method: 'PROPFIND' })).status).toBe(405);
      expect((await raw('/rpc/add_them', { method: 'DELETE' })).status).toBe(405);
      const schema = await raw('/keys', { headers: { 'accept-profile': 'vault' } });
      expect([schema.status, await schema.json()]).toMatchObject([
        406,
        { code: 'PGRST106', hint: 'Only the following schemas are exposed: public' },
      ]);
      const strict = await raw('/books', { headers: { prefer: 'handling=strict, anything=else' } });
      expect([strict.status, (await strict.json()).details]).toEqual([
        400,
        'Invalid preferences: anything=else',
      ]);
      expect((await raw('/books', { headers: { prefer: 'anything=else' } })).status).toBe(200);
    });

    test('lists the allowed methods', async () => {
      expect((await raw('/tags', { method: 'OPTIONS' })).headers.get('allow')).toBe(
        'OPTIONS,GET,HEAD,POST,PUT,PATCH,DELETE',
      );
      expect((await raw('/rpc/do_nothing', { method: 'OPTIONS' })).headers.get('allow')).toBe('OPTIONS,POST');
    });

    test('answers 503 while the database is unavailable, and reports the cause to onError but not to the client', async () => {
      const gone = new DatabaseError('connect ECONNREFUSED 10.0.0.7:5432', { code: '08006' });
      const reported: unknown[] = [];
      const away = await createDataService({
        schemas: ['public'],
        onError: (error) => reported.push(error),
        database: {
          ...database,
          transaction: (work, options) =>
            options?.settings?.role ? Promise.reject(gone) : database.transaction(work, options),
          read: () => Promise.reject(gone),
        },
      });
      const response = await away.fetch(new Request('http://backend/rest/v1/tags'), {
        claims: anon,
        address: null,
      });
      await away.close();
      const text = await response.text();
      expect([response.status, JSON.parse(text).code]).toEqual([503, 'PGRST000']);
      expect(response.headers.get('retry-after')).toBe('1');
      expect(text).not.toContain('10.0.0.7');
      expect(reported).toEqual([gone]);
    });
  });

  describe('guarding', () => {
    test('returns the rows that policies allow to anonymous visitors and to signed-in users', async () => {
      expect(ids((await asAnon.from('authors').select('id').order('id')).data)).toEqual([1, 2]);
      expect(ids((await asMember.from('authors').select('id').order('id')).data)).toEqual([1, 2, 3]);
      const embedded = '/authors?select=name,pupils:authors(name)&id=eq.1';
      expect((await get(embedded))[0].pupils).toEqual([{ name: 'Bo' }]);
      expect((await get(embedded, member))[0].pupils).toEqual([{ name: 'Bo' }, { name: 'Cy' }]);
      const count = await asAnon.from('authors').select('*', { count: 'exact', head: true });
      expect(count.count).toBe(2);
    });

    test('prevents changes by an anonymous visitor', async () => {
      const inserted = await asAnon.from('tags').insert({ id: 90, label: 'x' });
      expect([inserted.status, inserted.error?.code]).toEqual([401, '42501']);
      const updated = await asAnon.from('tags').update({ label: 'x' }).eq('id', 1).select();
      expect(updated.data).toEqual([]);
      const deleted = await asAnon.from('tags').delete().eq('id', 1).select();
      expect(deleted.data).toEqual([]);
      expect(await get('/tags?id=in.(1,90)')).toEqual([{ id: 1, label: 'maths' }]);
    });

    test('rejects a table without grants: 401 for anonymous visitors, 403 for signed-in users', async () => {
      const toAnon = await raw('/secrets');
      expect([toAnon.status, toAnon.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
      expect((await raw('/secrets', {}, member)).status).toBe(403);
      expect(await get('/secrets', { role: 'service_role' })).toEqual([{ id: 1, text: 'hidden' }]);
      expect((await raw('/tags', {}, { role: 'postgres' })).status).toBe(401);
    });

    const attempts = [
      `1;drop table tags`,
      `1'; drop table tags; --`,
      `1" or "1"="1`,
      `"tags"; drop table tags; --`,
      `$1`,
      `$$; drop table tags; $$`,
      `/* */ id`,
      `id--`,
      `id\\`,
      `\\'; drop table tags; --`,
      `\u02bc; drop table tags`,
      `\uff07 or 1=1`,
      `(select text from secrets)`,
      `tags.*`,
      `pg_sleep(1)`,
      `id\u0000; drop table tags`,
      `\ud800`,
    ];
    test.each(attempts)('treats %j as text in every position', async (attempt) => {
      const wellFormed = Buffer.from(attempt).toString();
      const text = encodeURIComponent(wellFormed);
      const name = encodeURIComponent(`"${wellFormed.replace(/["\\]/g, '\\$&')}"`);
      const places = [
        `/${text}`,
        `/tags?select=${text}`,
        `/tags?select=${name}`,
        `/tags?select=${name}:id`,
        `/tags?select=id::${text}`,
        `/tags?select=books!${name}(id)`,
        `/tags?select=label->>${name}`,
        `/tags?${text}=eq.1`,
        `/tags?${name}=eq.1`,
        `/tags?id=eq.${text}`,
        `/tags?label=eq.${text}`,
        `/tags?label=in.(${name})`,
        `/tags?label=in.(${text})`,
        `/tags?label=fts(${text}).x`,
        `/tags?label=is.${text}`,
        `/tags?or=(label.eq.${name},label.eq.${text})`,
        `/tags?order=${text}`,
        `/tags?order=${name}.asc`,
        `/tags?limit=${text}`,
        `/tags?offset=${text}`,
        `/rpc/${text}`,
        `/rpc/add_them?a=${text}`,
        `/rpc/joined?words=${text}`,
      ];
      for (const place of places) {
        const response = await raw(place);
        const answer = await response.text();
        expect(answer, place).not.toContain('hidden');
        expect(answer, place).not.toContain('42601');
        // Served or rejected, never an internal error.
        expect(response.status, `${place}: ${answer}`).toBeLessThan(500);
      }
      for (const body of [{ [attempt]: 1 }, { id: 99, label: attempt }]) {
        const written = await send('POST', '/tags', body, 'return=representation,tx=rollback');
        expect(written.status).toBeLessThan(500);
        if ('label' in body && written.status === 201) {
          expect((await written.json())[0].label).toBe(wellFormed);
        }
      }
      const upsert = await send(
        'POST',
        `/tags?on_conflict=${name}&columns=${name}`,
        { id: 1 },
        'resolution=merge-duplicates',
      );
      expect(upsert.status).toBe(400);
      expect(await get('/tags?select=id&order=id')).toEqual([{ id: 1 }, { id: 2 }, { id: 3 }]);
    });

    test('selects columns and aliases whose names need quoting', async () => {
      const name = encodeURIComponent('"odd \\"name\\""');
      const alias = encodeURIComponent('"a"";b"'.replace('""', '\\"'));
      expect(await get(`/books?select=${name},${alias}:id&${name}=is.null&id=eq.1`)).toEqual([
        { 'odd "name"': null, 'a";b': 1 },
      ]);
    });
  });

  test('reloads the schema after a notification', async () => {
    expect((await raw('/shelves')).status).toBe(404);
    await database.execute(`
      create table public.shelves (id int primary key, book_id bigint references public.books (id));
      insert into public.shelves values (1, 1);
      notify pgrst, 'reload schema';
    `);
    await expect
      .poll(() => get('/shelves?select=id,books(title)'))
      .toEqual([{ id: 1, books: { title: 'Engines' } }]);
  });

  test('reloads the schema after DDL without an explicit notification', async () => {
    await database.execute(
      'create table public.lamps (id int primary key); insert into public.lamps values (1)',
    );
    const statusOf = async (path: string) => (await raw(path)).status;
    await expect.poll(() => statusOf('/lamps')).toBe(200);
    await database.execute('alter table public.lamps add column watts int');
    await expect.poll(() => statusOf('/lamps?select=watts')).toBe(200);
    await database.execute('drop table public.lamps');
    await expect.poll(() => statusOf('/lamps')).toBe(404);
  });

  test('serves the cached schema while a reload fails, and retries', async () => {
    let isFailing = false;
    const reported: unknown[] = [];
    const stubborn = await createDataService({
      schemas: ['public'],
      onError: (error) => reported.push(error),
      database: {
        ...database,
        transaction: (work, options) =>
          isFailing && options?.settings?.search_path === ''
            ? Promise.reject(new DatabaseError('the database system is starting up', { code: '57P03' }))
            : database.transaction(work, options),
      },
    });
    const statusOf = async (path: string) =>
      (await stubborn.fetch(new Request(`http://backend/rest/v1${path}`), { claims: anon, address: null }))
        .status;
    isFailing = true;
    await database.execute(`create table public.stamps (id int); notify pgrst, 'reload schema'`);
    await expect.poll(() => reported.length).toBeGreaterThan(0);
    expect([await statusOf('/tags'), await statusOf('/stamps')]).toEqual([200, 404]);
    isFailing = false;
    await expect.poll(() => statusOf('/stamps'), { timeout: 10_000 }).toBe(200);
    await stubborn.close();
  });

  test('does not start when the schema cannot be read', async () => {
    const starting = createDataService({
      schemas: ['public'],
      database: {
        ...database,
        transaction: () => Promise.reject(new DatabaseError('away', { code: '08006' })),
      },
    });
    await expect(starting).rejects.toMatchObject({ code: '08006' });
  });

  test('reports internal errors only', () => {
    expect(errors.map((error) => (error as DatabaseError).code)).toEqual(['XX000']);
  });
});
