// Response formats: media types and domain representations from the database, execution plans, the OpenAPI description.
import { PostgrestClient } from '@supabase/postgrest-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Database } from '../database/database.ts';
import { platform, testDatabases, throwawayDatabase } from '../testing/throwaway.ts';
import { createDataService, type DataServiceOptions } from './service.ts';

const schema = `
  create schema garden;
  comment on schema garden is E'Garden API\\n\\nWhat grows\\nand where.';
  create schema shed;
  create domain garden."text/html" as text;
  create domain garden."text/tab-separated-values" as text;
  create domain garden."application/vnd.leaf" as bytea;
  create domain garden."*/*" as bytea;

  create domain garden.shade as int;
  create function garden.shade_to_json(garden.shade) returns json language sql immutable
  as $$ select to_json('#' || lpad(to_hex($1::int), 6, '0')) $$;
  create function garden.shade_from_text(text) returns garden.shade language sql immutable
  as $$ select ('x' || lpad(ltrim($1, '#'), 8, '0'))::bit(32)::int::garden.shade $$;
  create function garden.shade_from_json(json) returns garden.shade language sql immutable
  as $$ select garden.shade_from_text($1 #>> '{}') $$;
  create cast (garden.shade as json) with function garden.shade_to_json(garden.shade) as implicit;
  create cast (text as garden.shade) with function garden.shade_from_text(text) as implicit;
  create cast (json as garden.shade) with function garden.shade_from_json(json) as implicit;

  create type garden.habit as enum ('climbing', 'creeping');
  create table garden.beds (id int primary key, name varchar(20) not null);
  create table garden.plants (
    id int primary key,
    name text not null default 'unnamed',
    shade garden.shade,
    bed_id int references garden.beds,
    habit garden.habit,
    height numeric(6, 2) default 1.5,
    tags text[]);
  comment on table garden.plants is E'Plants\\n\\nEvery plant there is.';
  comment on column garden.plants.id is 'Its number';
  create view garden.tall_plants as select id, name, bed_id from garden.plants where height > 2;
  create table garden.secrets (id int primary key);
  create table garden.leaves (id int primary key, label text);
  create table shed.tools (id int primary key);
  insert into garden.beds values (1, 'North');
  insert into garden.plants values
    (1, 'Rose', 255, 1, 'climbing', 3), (2, 'Thyme', 65280, 1, 'creeping', 0.2), (3, 'Moss', null, null, null, 0.1);
  insert into garden.leaves values (1, 'a'), (2, 'b');

  create function garden.add_html(state text, next garden.plants) returns text language sql immutable
  as $$ select state || '<li>' || next.name || '</li>' $$;
  create function garden.end_html(state text) returns garden."text/html" language sql immutable
  as $$ select ('<ul>' || state || '</ul>')::garden."text/html" $$;
  create aggregate garden.html_of(garden.plants) (
    stype = text, initcond = '', sfunc = garden.add_html, finalfunc = garden.end_html);
  create function garden.add_line(state text, next anyelement) returns text language sql immutable
  as $$ select state || translate(next::text, '(),', E'\\t') || E'\\n' $$;
  create function garden.end_lines(state text) returns garden."text/tab-separated-values" language sql immutable
  as $$ select state::garden."text/tab-separated-values" $$;
  create function garden.end_lines(state text, next anyelement) returns garden."text/tab-separated-values"
  language sql immutable as $$ select state::garden."text/tab-separated-values" $$;
  create aggregate garden.lines_of(anyelement) (
    stype = text, initcond = '', sfunc = garden.add_line, finalfunc = garden.end_lines, finalfunc_extra);
  create function garden.add_leaf(state bytea, next garden.leaves) returns bytea language sql immutable
  as $$ select state || '\\xff'::bytea || convert_to(next.label, 'utf8') $$;
  create function garden.end_leaves(state bytea) returns garden."*/*" language sql immutable
  as $$ select state::garden."*/*" $$;
  create aggregate garden.leaves_of(garden.leaves) (
    stype = bytea, initcond = '', sfunc = garden.add_leaf, finalfunc = garden.end_leaves);
  create function garden.leaf() returns garden."application/vnd.leaf" language sql stable
  as $$ select '\\x00ff'::bytea::garden."application/vnd.leaf" $$;
  create function garden.tall() returns setof garden.plants language sql stable
  as $$ select * from garden.plants where height > 1 $$;

  create function garden.plant(name text, amount int default 1, variadic words text[] default '{}') returns void
  language sql as '';
  comment on function garden.plant is 'Plants something';
  create function garden.count_plants(inout total int, "of" json default '{}') language sql stable as 'select 3';
  create function garden.secret() returns int language sql as 'select 1';
  revoke execute on function garden.secret() from public;
  create function garden.root() returns json language sql stable as $$ select '{"swagger": "2.0", "own": true}'::json $$;
  grant usage on schema garden, shed to anon;
  grant select, insert, update on garden.plants, garden.beds, garden.leaves, garden.tall_plants, shed.tools to anon;`;

describe.each(testDatabases())('response formats on %s', (kind) => {
  let database: Database;
  const services: Array<Awaited<ReturnType<typeof createDataService>>> = [];
  const open = async (options: Partial<DataServiceOptions> = {}) => {
    const service = await createDataService({ database, schemas: ['garden', 'shed'], ...options });
    services.push(service);
    return (path: string, init: RequestInit = {}) =>
      service.fetch(new Request(`http://backend:8080/rest/v1${path}`, init), {
        claims: { role: 'anon' },
        address: null,
      });
  };
  let send: Awaited<ReturnType<typeof open>>;
  beforeAll(async () => {
    database = await throwawayDatabase(kind, [platform]);
    await database.execute(schema);
    send = await open({ allowsPlan: true });
  });
  afterAll(async () => {
    for (const service of services) await service.close();
    await database.close();
  });
  const get = (path: string, accept: string) => send(path, { headers: { accept } });
  const json = async (path: string, init?: RequestInit) => (await send(path, init)).json();

  describe('media types of the database', () => {
    test('an aggregate converts whole rows of its relation', async () => {
      const response = await get('/plants?order=id&limit=2', 'text/html');
      expect(response.headers.get('content-type')).toBe('text/html');
      expect(await response.text()).toBe('<ul><li>Rose</li><li>Thyme</li></ul>');
      expect((await get('/plants?select=id,name', 'text/html')).status).toBe(406);
      expect((await get('/beds', 'text/html')).status).toBe(406);
    });

    test('an aggregate of a relation converts the rows that functions return', async () => {
      expect(await (await get('/rpc/tall', 'text/html')).text()).toBe('<ul><li>Rose</li></ul>');
    });

    test('an aggregate for any rows converts the selected columns', async () => {
      const response = await get('/beds?select=name', 'text/tab-separated-values');
      expect(await response.text()).toBe('\tNorth\n');
    });

    test('an aggregate converts changed rows that the client requests', async () => {
      const response = await send('/plants?id=eq.1', {
        method: 'PATCH',
        body: '{"name":"Rose"}',
        headers: {
          accept: 'text/html',
          prefer: 'return=representation',
          'content-type': 'application/json',
        },
      });
      expect(await response.text()).toBe('<ul><li>Rose</li></ul>');
    });

    test('a handler for */* answers every Accept header', async () => {
      const response = await get('/leaves', 'image/webp');
      expect(response.headers.get('content-type')).toBe('application/octet-stream');
      expect(Buffer.from(await response.arrayBuffer()).toString('hex')).toBe('ff61ff62');
      expect(await (await get('/leaves?select=label', 'application/json')).json()).toEqual([
        { label: 'a' },
        { label: 'b' },
      ]);
    });

    test('a function returns its own media type, binary content included', async () => {
      const response = await get('/rpc/leaf', '*/*');
      expect(response.headers.get('content-type')).toBe('application/vnd.leaf');
      expect(Buffer.from(await response.arrayBuffer())).toEqual(Buffer.from([0, 255]));
    });

    test('HEAD returns the media type without a body', async () => {
      const response = await send('/plants', { method: 'HEAD', headers: { accept: 'text/html' } });
      expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/html']);
    });

    test('GeoJSON requires the function st_asgeojson', async () => {
      expect((await get('/plants', 'application/geo+json')).status).toBe(406);
      await database.execute(`create function shed.st_asgeojson(anyelement) returns text language plpgsql
        as $$ begin return '{"type":"Feature"}'; end $$`);
      const withIt = await open();
      const response = await withIt('/plants?limit=2', { headers: { accept: 'application/geo+json' } });
      expect(response.headers.get('content-type')).toBe('application/geo+json; charset=utf-8');
      expect(await response.json()).toEqual({
        type: 'FeatureCollection',
        features: [{ type: 'Feature' }, { type: 'Feature' }],
      });
    });
  });

  describe('representations of domains', () => {
    test('values are formatted and compared with the casts of their domain', async () => {
      expect(await json('/plants?select=id,hue:shade&order=id')).toEqual([
        { id: 1, hue: '#0000ff' },
        { id: 2, hue: '#00ff00' },
        { id: 3, hue: null },
      ]);
      expect(await json('/plants?select=*&id=eq.1')).toMatchObject([{ shade: '#0000ff', name: 'Rose' }]);
      expect(await json('/plants?select=id&shade=eq.00ff00')).toEqual([{ id: 2 }]);
      expect(await json('/plants?select=id&shade=in.(00ff00,0000ff)&order=id')).toEqual([
        { id: 1 },
        { id: 2 },
      ]);
      expect(await json('/plants?select=id&or=(shade.neq.00ff00,shade.is.null)&order=id')).toEqual([
        { id: 1 },
        { id: 3 },
      ]);
      expect(await json('/beds?select=plants(shade)&plants.order=id&plants.limit=1')).toEqual([
        { plants: [{ shade: '#0000ff' }] },
      ]);
    });

    test('written values are parsed with the cast from JSON', async () => {
      const wanted = { prefer: 'return=representation', 'content-type': 'application/json' };
      const made = await json('/plants?select=id,shade', {
        method: 'POST',
        body: '[{"id":8,"shade":"#000010"},{"id":9,"shade":null}]',
        headers: wanted,
      });
      expect(made).toEqual([
        { id: 8, shade: '#000010' },
        { id: 9, shade: null },
      ]);
      const changed = await json('/plants?id=eq.8', {
        method: 'PATCH',
        body: '{"shade":"#000011"}',
        headers: wanted,
      });
      expect(changed).toMatchObject([{ id: 8, shade: '#000011', name: 'unnamed' }]);
      const stored = await database.query('select shade::int as shade from garden.plants where id = 8');
      expect(stored.rows).toEqual([{ shade: 17 }]);
      await database.execute('delete from garden.plants where id in (8, 9)');
    });
  });

  describe('execution plans', () => {
    test('are returned where they are allowed', async () => {
      // biome-ignore lint/suspicious/noExplicitAny: the client is driven without generated types
      const client = new PostgrestClient<any, { PostgrestVersion: '14' }, any>('http://backend/rest/v1', {
        fetch: (input, init) =>
          send(new Request(input, init).url.replace('http://backend/rest/v1', ''), init),
        schema: 'garden',
      });
      const { data: text } = await client.from('plants').select('id').eq('id', 1).explain();
      expect(text).toContain('plants');
      const { data: tree } = await client
        .from('plants')
        .select('id')
        .explain({ format: 'json', analyze: true });
      expect(tree).toMatchObject([{ Plan: { 'Actual Loops': 1 } }]);
    });

    test('the media type selects the explained format and the options', async () => {
      const accept = 'application/vnd.pgrst.plan+json; for="text/csv"; options=verbose|analyze|nonsense';
      const response = await get('/plants', accept);
      expect(response.headers.get('content-type')).toBe(
        'application/vnd.pgrst.plan+json; for="text/csv"; options=analyze|verbose; charset=utf-8',
      );
      expect(await response.json()).toMatchObject([{ Plan: { Output: expect.anything() } }]);
    });

    test('explaining a mutation does not run it', async () => {
      const response = await send('/plants?id=eq.1', {
        method: 'PATCH',
        body: '{"name":"Changed"}',
        headers: { accept: 'application/vnd.pgrst.plan', 'content-type': 'application/json' },
      });
      expect(await response.text()).toContain('Update on plants');
      expect(await json('/plants?select=name&id=eq.1')).toEqual([{ name: 'Rose' }]);
    });

    test('are rejected where they are not allowed', async () => {
      const closed = await open();
      const response = await closed('/plants', { headers: { accept: 'application/vnd.pgrst.plan+json' } });
      expect([response.status, (await response.json()).code]).toEqual([406, 'PGRST107']);
    });
  });

  describe('the description', () => {
    test('lists operations with the comments of the database', async () => {
      const response = await send('/');
      expect(response.headers.get('content-type')).toBe('application/openapi+json; charset=utf-8');
      const document = await response.json();
      expect(document).toMatchObject({
        swagger: '2.0',
        info: { title: 'Garden API', description: 'What grows\nand where.' },
        host: 'backend:8080',
        basePath: '/rest/v1/',
        schemes: ['http'],
      });
      expect(document).not.toHaveProperty('security');
      const { get, post, patch, delete: remove } = document.paths['/plants'];
      expect(get).toMatchObject({
        tags: ['plants'],
        summary: 'Plants',
        description: 'Every plant there is.',
      });
      expect(get.parameters.slice(0, 2)).toEqual([
        { $ref: '#/parameters/rowFilter.plants.id' },
        { $ref: '#/parameters/rowFilter.plants.name' },
      ]);
      expect(post.responses).toEqual({ 201: { description: 'Created' } });
      expect(patch.parameters).toContainEqual({ $ref: '#/parameters/body.plants' });
      expect(remove.responses).toEqual({ 204: { description: 'No Content' } });
      expect(document.parameters['rowFilter.plants.id']).toEqual({
        name: 'id',
        description: 'Its number',
        required: false,
        in: 'query',
        type: 'string',
      });
    });

    test('defines rows by their columns, keys, defaults and types', async () => {
      const { definitions } = await json('/');
      expect(definitions.plants).toEqual({
        description: 'Plants\n\nEvery plant there is.',
        required: ['id', 'name'],
        type: 'object',
        properties: {
          id: {
            description: 'Its number\n\nNote:\nThis is a Primary Key.<pk/>',
            format: 'int32',
            type: 'integer',
          },
          name: { default: 'unnamed', format: 'text', type: 'string' },
          shade: { format: 'int32', type: 'integer' },
          bed_id: {
            description: "Note:\nThis is a Foreign Key to `beds.id`.<fk table='beds' column='id'/>",
            format: 'int32',
            type: 'integer',
          },
          habit: { enum: ['climbing', 'creeping'], format: 'garden.habit', type: 'string' },
          height: { default: 1.5, format: 'numeric', type: 'number' },
          tags: { format: 'text[]', type: 'array', items: { type: 'string' } },
        },
      });
      expect(definitions.tall_plants).not.toHaveProperty('required');
      expect(definitions.beds.properties.name).toEqual({
        maxLength: 20,
        format: 'character varying',
        type: 'string',
      });
    });

    test('describes functions by their arguments', async () => {
      const { paths } = await json('/');
      expect(paths['/rpc/plant']).not.toHaveProperty('get');
      expect(paths['/rpc/plant'].post).toMatchObject({ tags: ['(rpc) plant'], summary: 'Plants something' });
      expect(paths['/rpc/plant'].post.parameters[0].schema).toEqual({
        description: 'Plants something',
        required: ['name'],
        type: 'object',
        properties: {
          name: { format: 'text', type: 'string' },
          amount: { format: 'int32', type: 'integer' },
          words: { format: 'text[]', type: 'array', items: { type: 'string' } },
        },
      });
      expect(paths['/rpc/count_plants'].get.parameters).toEqual([
        { name: 'total', required: true, in: 'query', format: 'int32', type: 'integer' },
        { name: 'of', required: false, in: 'query', format: 'json', type: 'string' },
      ]);
    });

    test('omits objects that the role may not use, except with ignore-privileges', async () => {
      const { paths } = await json('/');
      expect(paths).not.toHaveProperty('/secrets');
      expect(paths).not.toHaveProperty('/rpc/secret');
      const everything = await open({ openApiMode: 'ignore-privileges', openApiSecurity: true });
      const document = await (await everything('/')).json();
      expect(document.paths).toHaveProperty('/secrets');
      expect(document.paths).toHaveProperty('/rpc/secret');
      expect(document.security).toEqual([{ JWT: [] }]);
    });

    test('describes the requested schema', async () => {
      const { paths } = await json('/', { headers: { 'accept-profile': 'shed' } });
      expect(paths).toHaveProperty('/tools');
      expect(paths).not.toHaveProperty('/plants');
    });

    test('names the configured URL', async () => {
      const proxied = await open({ openApiAddress: 'https://api.example/data' });
      expect(await (await proxied('/')).json()).toMatchObject({
        host: 'api.example:443',
        basePath: '/data',
        schemes: ['https'],
      });
    });

    test('answers GET, HEAD and OPTIONS in its own format only', async () => {
      const head = await send('/', { method: 'HEAD' });
      expect([head.status, await head.text()]).toEqual([200, '']);
      const options = await send('/', { method: 'OPTIONS' });
      expect(options.headers.get('allow')).toBe('OPTIONS,GET,HEAD');
      expect((await send('/', { method: 'POST', body: '{}' })).status).toBe(405);
      expect((await get('/', 'text/csv')).status).toBe(406);
      expect((await get('/plants', 'application/openapi+json')).status).toBe(406);
    });

    test('can be replaced by a function or disabled', async () => {
      const replaced = await open({ rootFunction: 'root' });
      const response = await replaced('/', { headers: { accept: 'application/openapi+json' } });
      expect(response.headers.get('content-type')).toBe('application/openapi+json; charset=utf-8');
      expect(await response.json()).toEqual({ swagger: '2.0', own: true });
      const silent = await open({ openApiMode: 'disabled' });
      const refused = await silent('/');
      expect([refused.status, (await refused.json()).code]).toEqual([404, 'PGRST126']);
    });
  });
});
