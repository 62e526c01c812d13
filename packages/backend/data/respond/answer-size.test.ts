// The size of answers by role, on both databases.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Database } from '../../database/database.ts';
import { platform, testDatabases, throwawayDatabase } from '../../testing/throwaway.ts';
import { createDataService } from '../service.ts';

const sources = [platform, { name: 'library', folder: 'packages/backend/data/fixture' }];
const maxAnswerBytes = 400;

describe.each(testDatabases())('answers on %s', (kind) => {
  let database: Database;
  let service: Awaited<ReturnType<typeof createDataService>>;
  beforeAll(async () => {
    database = await throwawayDatabase(kind, sources);
    await database.execute(`
      create table public.long_texts (id int primary key, title text default 'x', body text);
      insert into public.long_texts (id, body) values (1, repeat('a', 300)), (2, repeat('b', 300));
      create function public.loud(given public.long_texts) returns text language sql stable return repeat(given.body, 9);
      create function public.long_text(length int) returns text language sql immutable return repeat('c', length);
      grant select, insert, update, delete on public.long_texts to anon, authenticated, service_role;`);
    service = await createDataService({
      database,
      schemas: ['public'],
      roleLimits: { anon: { maxAnswerBytes, allowsRepeats: false, maxRows: 3 } },
    });
  });
  afterAll(async () => {
    await service.close();
    await database.close();
  });
  const send = (path: string, init: RequestInit = {}, role = 'anon') =>
    service.fetch(new Request(`http://backend/rest/v1${path}`, init), { claims: { role }, address: null });
  const post = (path: string, body: unknown, prefer = '') =>
    send(path, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json', prefer },
    });

  test.each<[string, string, RequestInit?]>([
    ['rows', '/long_texts'],
    ['CSV', '/long_texts?select=body', { headers: { accept: 'text/csv' } }],
    [
      'one object',
      '/long_texts?select=loud&id=eq.1',
      { headers: { accept: 'application/vnd.pgrst.object+json' } },
    ],
    ['a computed column', '/long_texts?select=loud&id=eq.1'],
    [
      'rows without nulls',
      '/long_texts',
      { headers: { accept: 'application/vnd.pgrst.array+json;nulls=stripped' } },
    ],
    ['counted rows', '/long_texts', { headers: { prefer: 'count=exact' } }],
    ['a function', '/rpc/long_text?length=401'],
    [
      'changed rows',
      '/long_texts',
      { method: 'PATCH', body: '{"title":"y"}', headers: { prefer: 'return=representation' } },
    ],
  ])('refuses %s above the limit', async (_, path, init = {}) => {
    const refused = await send(path, {
      ...init,
      headers: { 'content-type': 'application/json', ...init.headers },
    });
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({ code: '54000', message: 'The answer is too large' });
  });

  test('undoes a change whose answer is above the limit', async () => {
    const refused = await post('/long_texts', { id: 3, body: 'd'.repeat(500) }, 'return=representation');
    expect(refused.status).toBe(400);
    expect((await post('/long_texts', { id: 3, body: 'd' }, 'return=representation')).status).toBe(201);
  });

  test('sends an answer of exactly the limit', async () => {
    const answered = await send(`/rpc/long_text?length=${maxAnswerBytes - 2}`);
    expect((await answered.text()).length).toBe(maxAnswerBytes);
    expect((await send('/long_texts', { method: 'HEAD' })).status).toBe(200);
  });

  test('counts bytes, not characters', async () => {
    await database.query("insert into public.long_texts (id, body) values (4, repeat('€', 140))");
    expect((await send('/long_texts?id=eq.4&select=body')).status).toBe(400);
  });

  test('limits rows by role', async () => {
    const ids = async (role: string) => (await send('/tags?select=id', {}, role)).json();
    await database.query(
      "insert into public.tags (id, label) values (101, 'a'), (102, 'b'), (103, 'c'), (104, 'd')",
    );
    expect(await ids('anon')).toHaveLength(3);
    expect((await ids('authenticated')).length).toBeGreaterThan(3);
  });

  test.each([
    ['a column under two names', '/books?select=a:title,b:title'],
    ['a column twice', '/books?select=title,title'],
    ['a column and its cast', '/books?select=title,b:title::varchar'],
    ['two JSON paths of a column', '/authors?select=details->city,details->awards'],
    ['a star and a column', '/books?select=*,b:title'],
    ['two stars', '/books?select=*,*'],
    ['a computed column twice', '/authors?select=initials,b:initials'],
    ['a column of an embed twice', '/books?select=id,authors!author_id(a:name,b:name)'],
    ['a column of a spread twice', '/books?select=id,...authors!author_id(a:name,b:name)'],
    ['an embed under two names', '/books?select=id,a:authors!author_id(name),b:authors!author_id(name)'],
    ['an embed and its spread', '/books?select=id,a:authors!author_id(name),...authors!author_id(b:name)'],
    ['a column of a function twice', '/rpc/books_of?author=1&select=a:title,b:title'],
    ['counts twice', '/books?select=a:count,b:count'],
  ])('refuses %s', async (_, path) => {
    const refused = await send(path);
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({ code: 'PGRST100' });
  });

  test.each([
    '/books?select=id,title&limit=1',
    '/books?select=id,authors!author_id(name),editor:authors!editor_id(name)&limit=1',
    '/authors?select=*,initials&limit=1',
  ])('accepts each column once: %s', async (path) => {
    expect((await send(path)).status).toBe(200);
  });

  test('has no limits for other roles', async () => {
    expect((await send('/long_texts?select=a:body,b:body', {}, 'authenticated')).status).toBe(200);
    expect((await send('/long_texts?select=loud', {}, 'service_role')).status).toBe(200);
  });
});
