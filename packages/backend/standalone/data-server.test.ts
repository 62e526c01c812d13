// The standalone data service, started with PostgREST's settings on an existing database.
import { PostgrestClient } from '@supabase/postgrest-js';
import { SignJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Database } from '../database/database.ts';
import { platform, testDatabases, throwawayDatabase } from '../testing/throwaway.ts';
import { readDataConfig } from './config.ts';
import { pageHeaders } from './cors.ts';
import { startDataServer } from './data-server.ts';

const silentLog = { error() {}, warn() {} };

const secret = '37c304f8-51aa-419a-a1af-06154e63707a';

test('does not start without PGRST_DB_URI', () => {
  expect(readDataConfig({ PGRST_DB_SCHEMAS: 'api' })).toBeNull();
});

test('names an invalid setting', () => {
  const read = (settings: Record<string, string>) => () =>
    readDataConfig({ PGRST_DB_URI: 'postgres://x', ...settings });
  expect(read({ PGRST_DB_TX_END: 'sometimes' })).toThrow('PGRST_DB_TX_END');
  expect(read({ PGRST_OPENAPI_MODE: 'open' })).toThrow('PGRST_OPENAPI_MODE');
  expect(read({ PGRST_OPENAPI_SERVER_PROXY_URI: 'here' })).toThrow('PGRST_OPENAPI_SERVER_PROXY_URI');
  expect(read({ PGRST_DB_MAX_ROWS: 'many' })).toThrow('PGRST_DB_MAX_ROWS');
  for (const path of [
    'role',
    'role.other',
    '.role##',
    '.a;b',
    '1234',
    '.role[?(@ =)]',
    '.r[?(@ == "a")].b',
  ]) {
    expect(read({ PGRST_JWT_ROLE_CLAIM_KEY: path }), path).toThrow('PGRST_JWT_ROLE_CLAIM_KEY');
  }
  expect(read({ PGRST_JWT_SECRET: 'short' })).toThrow('at least 32 characters');
  expect(read({ PGRST_JWT_SECRET: 'no base-64!', PGRST_JWT_SECRET_IS_BASE64: 'true' })).toThrow('base64');
  expect(read({ PGRST_JWT_SECRET: '@/nowhere/at/all' })).toThrow('/nowhere/at/all');
  expect(read({ PGRST_JWT_AUD: 'http://%%localhorst.invalid' })).toThrow('PGRST_JWT_AUD');
  expect(read({ PGRST_SERVER_UNIX_SOCKET_MODE: '599' })).toThrow('PGRST_SERVER_UNIX_SOCKET_MODE');
  expect(read({ PGRST_ADMIN_SERVER_PORT: '3000' })).toThrow('PGRST_ADMIN_SERVER_PORT');
});

test('accepts requests from configured origins only', () => {
  const config = readDataConfig({
    PGRST_DB_URI: 'postgres://x',
    PGRST_SERVER_CORS_ALLOWED_ORIGINS: 'http://one.example, http://two.example',
  });
  const allowedOrigins = config?.allowedOrigins ?? null;
  const headersFor = (origin: string) =>
    pageHeaders(new Request('http://x/', { headers: { origin } }), allowedOrigins);
  expect(headersFor('http://two.example')).toMatchObject({
    'access-control-allow-origin': 'http://two.example',
    'access-control-allow-credentials': 'true',
    vary: 'Origin',
  });
  expect(headersFor('http://three.example')).toEqual({});
});

test('reads quoted names with commas', () => {
  const config = readDataConfig({ PGRST_DB_URI: 'postgres://x', PGRST_DB_SCHEMAS: 'api, "odd, one"' });
  expect(config?.service.schemas).toEqual(['api', 'odd, one']);
});

describe.runIf(testDatabases().includes('postgresql'))('the standalone data service', () => {
  let database: Database & { url?: string };
  let alone: Awaited<ReturnType<typeof startDataServer>>;
  const sign = (claims: Record<string, unknown>, key = secret) =>
    new SignJWT(claims).setProtectedHeader({ alg: 'HS256' }).sign(new TextEncoder().encode(key));
  beforeAll(async () => {
    database = await throwawayDatabase('postgresql', [platform]);
    await database.execute(`
      create schema api;
      create role alone_visitor; create role alone_clerk;
      grant alone_visitor, alone_clerk to current_user;
      grant usage on schema api to alone_visitor, alone_clerk;
      create table api.notes (id int primary key, amount int);
      insert into api.notes values (1, 10), (2, 20), (3, 30);
      grant select on api.notes to alone_visitor;
      grant all on api.notes to alone_clerk;
      create function api.settings() returns json language sql stable as $$ select json_build_object(
        'timeout', current_setting('statement_timeout'), 'isolation', current_setting('transaction_isolation')) $$;
      create function api.with_timeout() returns text language sql stable set statement_timeout to '7s' set work_mem to '5MB'
      as $$ select current_setting('statement_timeout') $$;
      create function api.alone() returns text language sql stable set default_transaction_isolation to 'serializable'
      as $$ select current_setting('transaction_isolation') $$;
      create function api.paid() returns void language plpgsql
      as $$ begin raise sqlstate 'PT402' using message = 'Payment Required, please'; end $$;
      create function api.description() returns json language sql stable as $$ select '{"swagger":"2.0"}'::json $$;
      alter role alone_clerk set statement_timeout to '3s';
      alter role alone_clerk set default_transaction_isolation to 'repeatable read';`);
    const environment = {
      PGRST_DB_URI: database.url ?? '',
      PGRST_SERVER_PORT: '0',
      PGRST_DB_SCHEMAS: 'api',
      PGRST_DB_ANON_ROLE: 'alone_visitor',
      PGRST_DB_AGGREGATES_ENABLED: 'true',
      PGRST_DB_MAX_ROWS: '2',
      PGRST_DB_TX_END: 'rollback-allow-override',
      PGRST_JWT_SECRET: secret,
      PGRST_JWT_AUD: 'shop',
      PGRST_DB_PLAN_ENABLED: 'true',
      PGRST_DB_ROOT_SPEC: 'description',
      PGRST_SERVER_TIMING_ENABLED: 'true',
      PGRST_SERVER_TRACE_HEADER: 'X-Request-Id',
      PGRST_JWT_ROLE_CLAIM_KEY: '.roles[0]',
    };
    alone = await startDataServer(environment, silentLog);
  });
  afterAll(async () => {
    await alone.close();
    await database.execute(`
      drop owned by alone_visitor, alone_clerk; drop role alone_visitor; drop role alone_clerk;`);
    await database.close();
  });

  test('requests without a token use the anonymous role and the maximum number of rows', async () => {
    const client = new PostgrestClient(alone.url);
    expect((await client.from('notes').select('id').order('id')).data).toEqual([{ id: 1 }, { id: 2 }]);
    expect((await client.from('notes').select('amount.sum()')).data).toEqual([{ sum: 60 }]);
  });

  test('reads the role from the configured claim, and rolls changes back', async () => {
    const headers = { Authorization: `Bearer ${await sign({ roles: ['alone_clerk'], aud: 'shop' })}` };
    const client = new PostgrestClient(alone.url, { headers });
    const { status, data } = await client.from('notes').insert({ id: 9, amount: 1 }).select('id');
    expect([status, data]).toEqual([201, [{ id: 9 }]]);
    expect((await client.from('notes').select('id').eq('id', 9)).data).toEqual([]);
  });

  test('applies the settings of the role and of the function', async () => {
    const visitor = new PostgrestClient(alone.url);
    expect((await visitor.rpc('settings')).data).toEqual({ timeout: '0', isolation: 'read committed' });
    const headers = { Authorization: `Bearer ${await sign({ roles: ['alone_clerk'] })}` };
    const clerk = new PostgrestClient(alone.url, { headers });
    expect((await clerk.rpc('settings')).data).toEqual({ timeout: '3s', isolation: 'repeatable read' });
    expect((await clerk.rpc('with_timeout')).data).toBe('7s');
    expect((await clerk.rpc('alone')).data).toBe('serializable');
  });

  test('sends the status text that a function raises, and answers OPTIONS without a body', async () => {
    const paid = await fetch(`${alone.url}/rpc/paid`, { method: 'POST' });
    expect([paid.status, paid.statusText]).toEqual([402, 'Payment Required, please']);
    const { headers } = await fetch(`${alone.url}/notes`, { method: 'OPTIONS' });
    expect([headers.get('allow'), headers.get('content-length')]).toEqual([
      'OPTIONS,GET,HEAD,POST,PUT,PATCH,DELETE',
      '0',
    ]);
  });

  test('sends plans, timings, the trace header and a custom description when configured', async () => {
    const client = new PostgrestClient(alone.url);
    expect((await client.from('notes').select().explain()).data).toContain('notes');
    const answer = await fetch(`${alone.url}/notes`, { headers: { 'x-request-id': 'seven' } });
    expect(answer.headers.get('x-request-id')).toBe('seven');
    expect(answer.headers.get('server-timing')).toMatch(
      /^jwt;dur=[\d.]+, parse;dur=[\d.]+, plan;dur=[\d.]+, transaction;dur=[\d.]+, response;dur=[\d.]+$/,
    );
    expect(await (await fetch(alone.url)).json()).toEqual({ swagger: '2.0' });
  });

  test('accepts requests from every origin by default', async () => {
    const origin = 'http://example.com';
    const preflight = await fetch(`${alone.url}/notes`, {
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'Foo,Bar',
      },
    });
    expect(Object.fromEntries(preflight.headers)).toMatchObject({
      'access-control-allow-origin': '*',
      'access-control-allow-methods': 'GET, POST, PATCH, PUT, DELETE, OPTIONS, HEAD',
      'access-control-allow-headers': 'Authorization, Foo, Bar, Accept, Accept-Language, Content-Language',
      'access-control-max-age': '86400',
    });
    const answered = await fetch(`${alone.url}/notes`, { headers: { origin } });
    expect(answered.headers.get('access-control-allow-origin')).toBe('*');
    expect(answered.headers.get('access-control-expose-headers')).toContain('Content-Range');
  });

  test.each([
    ['none', async () => '', 'PGRST301', 'Empty JWT is sent in Authorization header'],
    ['two parts', async () => 'a.b', 'PGRST301', 'Expected 3 parts in JWT; got 2'],
    [
      'another key',
      () => sign({}, `${secret}!`),
      'PGRST301',
      'No suitable key or wrong key type',
      'None of the keys was able to decode the JWT',
    ],
    ['a past time', () => sign({ exp: 1 }), 'PGRST303', 'JWT expired'],
    ['a future time', () => sign({ nbf: 9e9 }), 'PGRST303', 'JWT not yet valid'],
    ['others', () => sign({ aud: 'them' }), 'PGRST303', 'JWT not in audience'],
  ])('a token with %s is refused', async (_, token, code, message, details: string | null = null) => {
    const answer = await fetch(`${alone.url}/notes`, {
      headers: { authorization: `Bearer ${await token()}` },
    });
    expect(answer.status).toBe(401);
    expect(await answer.json()).toEqual({ code, message, details, hint: null });
    expect(answer.headers.get('www-authenticate')).toBe(
      `Bearer error="invalid_token", error_description="${message}"`,
    );
  });

  test('rejects a token with an unknown role', async () => {
    const authorization = `Bearer ${await sign({ roles: ['nobody_at_all'] })}`;
    expect((await fetch(`${alone.url}/notes`, { headers: { authorization } })).status).toBe(401);
  });
});
