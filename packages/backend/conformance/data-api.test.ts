// The table-query service over HTTP: through the official client, and raw requests for details that the client hides.
import { request as send } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type OpenDataService, openDataService } from '../testing/open-data-service.ts';
import { testDatabases } from '../testing/throwaway.ts';

interface Answer {
  status: number;
  headers: Record<string, string>;
  cookies: string[];
  body: string;
}

const additions = `
  create table public.long_rows as select id, repeat('x', 50) as filling from generate_series(1, 5000) as id;
  grant select on public.long_rows to anon;
  create domain public."text/markdown" as text;
  create function public.add_line(state text, next public.tags) returns text language sql immutable
  as $$ select state || '- ' || next.label || E'\\n' $$;
  create function public.as_markdown(state text) returns public."text/markdown" language sql immutable
  as $$ select state::public."text/markdown" $$;
  create aggregate public.markdown_of(public.tags) (
    stype = text, initcond = '', sfunc = public.add_line, finalfunc = public.as_markdown);
  create function public.bake() returns void language plpgsql as $$
  begin
    perform set_config('response.headers', '[{"Set-Cookie": "a=1"}, {"Set-Cookie": "b=2"}]', true);
  end $$;`;

describe.each(testDatabases())('the table-query service over HTTP on %s', (kind) => {
  let service: OpenDataService;
  beforeAll(async () => {
    service = await openDataService(
      kind,
      {
        allowsAggregates: true,
        allowsPlan: true,
        allowsRollback: true,
        limits: { maxRows: Number.POSITIVE_INFINITY },
      },
      additions,
    );
  });
  afterAll(() => service.close());

  /** A raw request: no added headers, redirects or decoding. */
  const raw = (
    path: string,
    {
      method = 'GET',
      headers = {},
      body = '',
    }: { method?: string; headers?: Record<string, string>; body?: string } = {},
  ) =>
    new Promise<Answer>((resolve, reject) => {
      const request = send(`${service.url}${path}`, {
        method,
        headers: { 'x-role': 'authenticated', ...headers },
      });
      request.on('error', reject);
      request.on('response', (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => {
          text += chunk;
        });
        response.on('end', () => {
          const { 'set-cookie': cookies = [], ...others } = response.headers;
          resolve({
            status: response.statusCode ?? 0,
            headers: others as Record<string, string>,
            cookies,
            body: text,
          });
        });
      });
      request.end(body);
    });
  const json = { 'content-type': 'application/json' };

  describe('through the official client', () => {
    test('single() and maybeSingle() return one row or none', async () => {
      const client = service.client();
      expect((await client.from('books').select('title').eq('id', 1).single()).data).toEqual({
        title: 'Engines',
      });
      const { error, status } = await client.from('books').select('title').single();
      expect([status, error?.code, error?.details]).toEqual([406, 'PGRST116', 'The result contains 4 rows']);
      expect((await client.from('books').select().eq('id', 99).maybeSingle()).data).toBeNull();
    });

    test('counts are returned with and without rows', async () => {
      const client = service.client();
      const page = await client.from('books').select('id', { count: 'exact' }).range(1, 2).order('id');
      expect([page.status, page.count, page.data]).toEqual([206, 4, [{ id: 2 }, { id: 3 }]]);
      expect((await client.from('books').select('*', { count: 'exact', head: true })).count).toBe(4);
    });

    test('aggregates group by the other selected columns', async () => {
      const { data } = await service
        .client()
        .from('books')
        .select('author_id, price.sum(), how_many:count()')
        .not('author_id', 'is', null)
        .order('author_id');
      expect(data).toEqual([
        { author_id: 1, sum: 32.25, how_many: 2 },
        { author_id: 2, sum: 5, how_many: 1 },
      ]);
    });

    test('rows are returned as CSV and as a custom media type of the database', async () => {
      const { data } = await service.client().from('tags').select('id,label').order('id').csv();
      expect(data).toBe('id,label\n1,maths\n2,wind\n3,unused');
      const own = await raw('/tags?order=id', { headers: { accept: 'text/markdown' } });
      expect([own.headers['content-type'], own.body]).toEqual([
        'text/markdown',
        '- maths\n- wind\n- unused\n',
      ]);
    });

    test('explain() returns the plan instead of rows', async () => {
      const { data } = await service.client().from('books').select().eq('id', 1).explain({ verbose: true });
      expect(data).toContain('Output:');
    });

    test('rollback() changes nothing', async () => {
      const member = service.client('authenticated');
      const tried = await member.from('tags').insert({ id: 50, label: 'tried' }).select().rollback();
      expect([tried.status, tried.data]).toEqual([201, [{ id: 50, label: 'tried' }]]);
      expect((await member.from('tags').select().eq('id', 50)).data).toEqual([]);
    });

    test('a change of more rows than maxAffected() changes nothing', async () => {
      const member = service.client('authenticated');
      const { error, status } = await member
        .from('books')
        .update({ is_lent: true })
        .gt('id', 0)
        .maxAffected(1);
      expect([status, error?.code]).toEqual([400, 'PGRST124']);
      expect((await member.from('books').select('id').eq('is_lent', true)).data).toEqual([{ id: 1 }]);
    });

    test('an upsert merges or ignores duplicates', async () => {
      const member = service.client('authenticated');
      const merged = await member
        .from('tags')
        .upsert([
          { id: 3, label: 'used' },
          { id: 60, label: 'new' },
        ])
        .select()
        .order('id');
      expect(merged.data).toEqual([
        { id: 3, label: 'used' },
        { id: 60, label: 'new' },
      ]);
      const left = await member
        .from('tags')
        .upsert({ id: 61, label: 'used' }, { onConflict: 'label', ignoreDuplicates: true })
        .select();
      expect(left.data).toEqual([]);
      await member.from('tags').delete().eq('id', 60);
      await member.from('tags').update({ label: 'unused' }).eq('id', 3);
    });

    test('a function is called by GET, POST and HEAD', async () => {
      const client = service.client();
      expect((await client.rpc('add_them', { a: 1, b: 2 })).data).toBe(3);
      expect((await client.rpc('add_them', { a: 1 }, { get: true })).data).toBe(11);
      expect((await client.rpc('numbers', {}, { head: true, count: 'exact' })).count).toBe(3);
      const rows = client
        .rpc('books_of', { author: 1 })
        .select('title, authors:author_id(name)')
        .order('title');
      expect((await rows).data).toEqual([
        { title: 'Engines', authors: { name: 'Ada' } },
        { title: 'Looms', authors: { name: 'Ada' } },
      ]);
    });
  });

  describe('on the wire', () => {
    test('a change with return=minimal answers 204 without a body', async () => {
      const made = await raw('/tags', { method: 'POST', headers: json, body: '{"id":70,"label":"seventy"}' });
      expect([made.status, made.body, made.headers['content-length']]).toEqual([201, '', '0']);
      expect(made.headers).not.toHaveProperty('content-type');
      const gone = await raw('/tags?id=eq.70', { method: 'DELETE' });
      expect([gone.status, gone.body]).toEqual([204, '']);
      expect(gone.headers).not.toHaveProperty('content-type');
    });

    test('HEAD answers like GET, without the body', async () => {
      const got = await raw('/books?order=id&limit=2', { headers: { prefer: 'count=exact' } });
      const head = await raw('/books?order=id&limit=2', {
        method: 'HEAD',
        headers: { prefer: 'count=exact' },
      });
      for (const name of ['content-type', 'content-range', 'content-location', 'preference-applied']) {
        expect(head.headers[name]).toBe(got.headers[name]);
      }
      expect([head.status, head.body]).toEqual([206, '']);
      expect(got.headers['content-range']).toBe('0-1/4');
    });

    test('OPTIONS lists the allowed methods', async () => {
      const onTable = await raw('/tags', { method: 'OPTIONS' });
      expect([onTable.status, onTable.headers.allow]).toEqual([
        200,
        'OPTIONS,GET,HEAD,POST,PUT,PATCH,DELETE',
      ]);
      const onRoot = await raw('/', { method: 'OPTIONS' });
      expect(onRoot.headers.allow).toBe('OPTIONS,GET,HEAD');
    });

    test('a function sets several cookies', async () => {
      expect((await raw('/rpc/bake', { method: 'POST' })).cookies).toEqual(['a=1', 'b=2']);
    });

    test('a long response arrives complete', async () => {
      const { status, headers, body } = await raw('/long_rows?order=id', {
        headers: { prefer: 'count=exact' },
      });
      expect([status, headers['content-range']]).toEqual([200, '0-4999/5000']);
      const rows: Array<{ id: number }> = JSON.parse(body);
      expect(rows.map(({ id }) => id)).toEqual(Array.from({ length: 5000 }, (_, at) => at + 1));
    });

    test('a client that disconnects in the middle of a long response frees its connection', async () => {
      // More requests than the pool has connections.
      for (let left = 0; left < 12; left++) {
        await new Promise<void>((done) => {
          const request = send(`${service.url}/long_rows?order=id`, (response) => {
            response.once('data', () => response.destroy());
            response.once('close', () => done());
          });
          request.end();
        });
      }
      expect((await raw('/tags?id=eq.1&select=id')).body).toBe('[{"id":1}]');
    });

    test('the root path returns the OpenAPI description', async () => {
      const { status, headers, body } = await raw('/', { headers: { accept: 'application/openapi+json' } });
      expect([status, headers['content-type']]).toEqual([200, 'application/openapi+json; charset=utf-8']);
      const { host, basePath, paths } = JSON.parse(body);
      expect(`http://${host}${basePath}`).toBe(`${service.url}/`);
      expect(Object.keys(paths)).toEqual(expect.arrayContaining(['/', '/books', '/rpc/add_them']));
      const refused = await raw('/books', { headers: { accept: 'application/openapi+json' } });
      expect(refused.status).toBe(406);
    });

    test('an error has its code in body and header', async () => {
      const { status, headers, body } = await raw('/book');
      expect(status).toBe(404);
      expect(headers['proxy-status']).toBe('PostgREST; error=PGRST205');
      expect(headers['content-length']).toBe(String(Buffer.byteLength(body)));
      expect(JSON.parse(body)).toEqual({
        code: 'PGRST205',
        message: "Could not find the table 'public.book' in the schema cache",
        details: null,
        hint: "Perhaps you meant the table 'public.books'",
      });
    });
  });
});
