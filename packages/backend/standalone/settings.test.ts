// Settings of the standalone data service: in the database, reloaded at run time, and its keys.
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Database } from '../database/database.ts';
import { platform, testDatabases, throwawayDatabase } from '../testing/throwaway.ts';
import { readDataConfig } from './config.ts';
import { startDataServer } from './data-server.ts';
import { createTokenCheck } from './token-check.ts';

const silentLog = { error() {}, warn() {} };

const secret = '37c304f8-51aa-419a-a1af-06154e63707a';
const tokensOf = (settings: Record<string, string>) => {
  const config = readDataConfig({ PGRST_DB_URI: 'postgres://x', PGRST_DB_ANON_ROLE: 'visitor', ...settings });
  if (!config) throw new Error('not configured');
  return createTokenCheck(config.tokens);
};
const bearer = (
  claims: Record<string, unknown>,
  header: { alg: string; kid?: string },
  key: Parameters<SignJWT['sign']>[0],
) =>
  new SignJWT(claims)
    .setProtectedHeader(header)
    .sign(key)
    .then((token) => `Bearer ${token}`);
const shared = new TextEncoder().encode(secret);

describe('tokens', () => {
  test.each([
    ['.postgrest.role', { postgrest: { role: 'author' } }],
    ['.postgrest.roles[1]', { postgrest: { roles: ['other', 'author'] } }],
    ['."https://www.example.com/roles"[0].value', { 'https://www.example.com/roles': [{ value: 'author' }] }],
    ['.roles[?(@ == "author")]', { roles: ['other', 'author'] }],
    ['.roles[?(@ != "other")]', { roles: ['other', 'author'] }],
    ['.roles[?(@ ^== "aut")]', { roles: [{ aut: 1 }, 'author'] }],
    ['.roles[?(@ ==^ "hor")]', { roles: ['other', 'author'] }],
    ['.roles[?(@ *== "utho")]', { roles: ['other', 'author'] }],
    ['.aud[0]', { aud: ['author', 'other'] }],
    ['$.roles[1]', { roles: ['other', 'author'] }],
    [
      `$['https://www.example.com/roles'][0]["value"]`,
      { 'https://www.example.com/roles': [{ value: 'author' }] },
    ],
  ])('contain the role at %s', async (path, claims) => {
    const check = tokensOf({ PGRST_JWT_SECRET: secret, PGRST_JWT_ROLE_CLAIM_KEY: path });
    expect((await check(await bearer(claims, { alg: 'HS256' }, shared))).role).toBe('author');
    expect((await check(await bearer({ other: 1 }, { alg: 'HS256' }, shared))).role).toBe('visitor');
  });

  test('are verified with the key they name, or with any key of the set that fits', async () => {
    const rsa = await generateKeyPair('RS256');
    const ec = await generateKeyPair('ES256');
    const keys = [
      { ...(await exportJWK(rsa.publicKey)), kid: 'rsa', alg: 'RS256' },
      { ...(await exportJWK(ec.publicKey)), kid: 'ec' },
      { kty: 'oct', k: Buffer.from(secret).toString('base64url') },
    ];
    const check = tokensOf({ PGRST_JWT_SECRET: JSON.stringify({ keys }) });
    const claims = { role: 'author' };
    for (const token of [
      await bearer(claims, { alg: 'RS256', kid: 'rsa' }, rsa.privateKey),
      await bearer(claims, { alg: 'ES256' }, ec.privateKey),
      await bearer(claims, { alg: 'HS256' }, shared),
    ]) {
      expect((await check(token)).role).toBe('author');
      expect((await check(token)).role, 'remembered').toBe('author');
    }
    const refused = check(await bearer(claims, { alg: 'RS256', kid: 'another' }, rsa.privateKey));
    await expect(refused).rejects.toMatchObject({
      code: 'PGRST301',
      message: 'No suitable key or wrong key type',
      details: 'No suitable key was found to decode the JWT',
    });
  });

  test.each([
    [
      'random characters',
      'quifquirndsjagnrgniur.fonvoienqhhdj.iuqvnvhojah',
      'JWT cryptographic operation failed',
      null,
    ],
    [
      'no signature',
      'eyJ0eXAiOiJKV1QiLCJhbGciOiJub25lIn0.e30.',
      'Wrong or unsupported encoding algorithm',
      "JWT is unsecured but expected 'alg' was not 'none'",
    ],
  ])('of %s are refused', async (_, token, message, details) => {
    await expect(tokensOf({ PGRST_JWT_SECRET: secret })(`Bearer ${token}`)).rejects.toMatchObject({
      code: 'PGRST301',
      message,
      details,
    });
  });

  test.each([
    [{ exp: 0 }, 'JWT expired'],
    [{ exp: 'soon' }, "The JWT 'exp' claim must be a number"],
    [{ exp: 1, nbf: 'soon' }, 'JWT expired'],
    [{ iat: 9e9 }, 'JWT issued at future'],
    [{ aud: [1] }, "The JWT 'aud' claim must be a string or an array of strings"],
  ])('that claim %j are refused', async (claims, message) => {
    const token = await bearer(claims as Record<string, unknown>, { alg: 'HS256' }, shared);
    await expect(tokensOf({ PGRST_JWT_SECRET: secret })(token)).rejects.toMatchObject({
      code: 'PGRST303',
      message,
    });
  });

  test('are rejected without a secret, and required without an anonymous role', async () => {
    await expect(tokensOf({})(`Bearer ${secret}`)).rejects.toMatchObject({ code: 'PGRST300', status: 500 });
    await expect(tokensOf({ PGRST_DB_ANON_ROLE: '' })(null)).rejects.toMatchObject({ code: 'PGRST302' });
  });

  test('are verified with a base64 secret from a file', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'jani-secret-'));
    await writeFile(join(folder, 'secret'), `${Buffer.from(secret).toString('base64url')}\n`);
    const check = tokensOf({ PGRST_JWT_SECRET: `@${folder}/secret`, PGRST_JWT_SECRET_IS_BASE64: 'True' });
    expect((await check(await bearer({ role: 'author' }, { alg: 'HS256' }, shared))).role).toBe('author');
    const bytes = Buffer.from(Array.from({ length: 40 }, (_, at) => 250 - at));
    await writeFile(join(folder, 'bytes'), bytes);
    const byBytes = tokensOf({ PGRST_JWT_SECRET: `@${folder}/bytes` });
    expect((await byBytes(await bearer({ role: 'author' }, { alg: 'HS256' }, bytes))).role).toBe('author');
    await rm(folder, { recursive: true });
  });
});

describe.runIf(testDatabases().includes('postgresql'))('settings of the standalone data service', () => {
  const authenticator = `settings_${crypto.randomUUID().slice(0, 8)}`;
  const visitor = `${authenticator}_visitor`;
  let database: Database & { url?: string };
  let url: string;
  beforeAll(async () => {
    database = await throwawayDatabase('postgresql', [platform]);
    await database.execute(`
      create role ${authenticator} login noinherit;
      create role ${visitor};
      grant ${visitor} to ${authenticator};
      create schema one; create schema two; create schema setup;
      grant usage on schema one, two to ${visitor};
      grant usage on schema setup to ${authenticator};
      create table one.notes (id int primary key);
      insert into one.notes select generate_series(1, 5);
      create table two.notes (id int primary key);
      insert into two.notes values (100);
      grant select on one.notes, two.notes to ${visitor};
      create function one.setting(name text) returns text language sql stable as 'select current_setting(name, true)';
      create function one.named_statements() returns bigint language sql stable as 'select count(*) from pg_prepared_statements';
      create function setup.configure() returns void language sql as $$
        select set_config('pgrst.db_schemas', 'two', true), set_config('pgrst.db_max_rows', '3', true) $$;
      alter role ${visitor} set log_min_duration_statement = '12345ms';
      grant set on parameter log_min_duration_statement to ${authenticator};
      alter role ${authenticator} set pgrst.db_max_rows = '4';
      alter role ${authenticator} set pgrst.db_plan_enabled = 'true';
      alter role ${authenticator} set pgrst.not_known = 'x'`);
    const address = new URL(database.url ?? '');
    address.username = authenticator;
    url = address.href;
  });
  afterAll(async () => {
    await database.execute(`
      drop owned by ${visitor}, ${authenticator}; drop role ${visitor}; drop role ${authenticator}`);
    await database.close();
  });
  const start = (settings: Record<string, string> = {}) =>
    startDataServer(
      {
        PGRST_DB_URI: url,
        PGRST_SERVER_PORT: '0',
        PGRST_DB_SCHEMAS: 'one',
        PGRST_DB_ANON_ROLE: visitor,
        ...settings,
      },
      silentLog,
    );
  const rangeAt = async (root: string) => (await fetch(`${root}/notes`)).headers.get('content-range');

  test('name no statement where a pooler gives each transaction another connection', async () => {
    for (const [setting, isNamed] of [
      ['true', true],
      ['false', false],
    ] as const) {
      const alone = await start({ PGRST_DB_PREPARED_STATEMENTS: setting, PGRST_DB_POOL: '1' });
      for (let call = 0; call < 3; call += 1) await rangeAt(alone.url);
      const named = (await (await fetch(`${alone.url}/rpc/named_statements`)).json()) as number;
      expect(named > 0, setting).toBe(isNamed);
      await alone.close();
    }
  });

  test('without effect are named in the log', async () => {
    const warned: object[] = [];
    const alone = await startDataServer(
      {
        PGRST_DB_URI: url,
        PGRST_SERVER_PORT: '0',
        PGRST_DB_SCHEMAS: 'one',
        PGRST_DB_POOL_MAX_LIFETIME: '60',
        PGRST_APP_SETTINGS_COLOUR: 'green',
      },
      { ...silentLog, warn: (event) => warned.push(event) },
    );
    await alone.close();
    expect(warned).toEqual([{ settings: ['PGRST_DB_POOL_MAX_LIFETIME'] }]);
  });

  test('in the database take precedence over the environment and change without a restart', async () => {
    const alone = await start({ PGRST_DB_MAX_ROWS: '2' });
    expect(await rangeAt(alone.url)).toBe('0-3/*');
    await database.execute(`
      alter role ${authenticator} in database "${new URL(url).pathname.slice(1)}" set pgrst.db_max_rows = '1';
      notify pgrst, 'reload config'`);
    await expect.poll(() => rangeAt(alone.url)).toBe('0-0/*');
    // A wrong one changes nothing.
    await database.execute(`alter role ${authenticator} set pgrst.jwt_role_claim_key = 'test'`);
    await alone.reload();
    expect(await rangeAt(alone.url)).toBe('0-0/*');
    await database.execute(`
      alter role ${authenticator} in database "${new URL(url).pathname.slice(1)}" reset pgrst.db_max_rows;
      alter role ${authenticator} reset pgrst.jwt_role_claim_key`);
    await alone.reload();
    expect(await rangeAt(alone.url)).toBe('0-3/*');
    await alone.close();
  });

  test('set by a function do not override those of the role', async () => {
    const alone = await start({ PGRST_DB_PRE_CONFIG: 'setup.configure' });
    expect(await (await fetch(`${alone.url}/notes`)).json()).toEqual([{ id: 100 }]);
    expect(
      (await fetch(`${alone.url}/notes`, { headers: { accept: 'application/vnd.pgrst.plan' } })).status,
    ).toBe(200);
    await alone.close();
    const without = await start({ PGRST_DB_CONFIG: 'false', PGRST_DB_MAX_ROWS: '2' });
    expect(await rangeAt(without.url)).toBe('0-1/*');
    await without.close();
  });

  test('of a role may be superuser settings, and no extra schema is searched', async () => {
    const alone = await start({ PGRST_DB_EXTRA_SEARCH_PATH: '', PGRST_APP_SETTINGS_STAGE: 'test' });
    const setting = async (name: string) => (await fetch(`${alone.url}/rpc/setting?name=${name}`)).json();
    expect(await setting('log_min_duration_statement')).toBe('12345ms');
    expect(await setting('search_path')).toBe('"one"');
    expect(await setting('app.settings.stage')).toBe('test');
    await alone.close();
  });

  test('serves liveness, readiness and the schema cache on a separate port', async () => {
    const alone = await start({ PGRST_ADMIN_SERVER_PORT: '0' });
    const ask = (path: string) => fetch(`${alone.adminUrl}${path}`);
    expect((await ask('/live')).status).toBe(200);
    expect((await ask('/ready')).status).toBe(200);
    expect((await ask('/elsewhere')).status).toBe(404);
    expect(await (await ask('/schema_cache')).json()).toMatchObject({
      relations: { one: { notes: { primaryKey: ['id'] } } },
    });
    await alone.close();
  });

  test('listens on a configured socket file', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'jani-socket-'));
    const socketPath = join(folder, 'rest.sock');
    const alone = await start({ PGRST_SERVER_UNIX_SOCKET: socketPath, PGRST_SERVER_UNIX_SOCKET_MODE: '600' });
    expect((await stat(socketPath)).mode & 0o777).toBe(0o600);
    const status = await new Promise((resolve, reject) => {
      request({ socketPath, path: '/notes' }, (response) => resolve(response.resume().statusCode))
        .on('error', reject)
        .end();
    });
    expect(status).toBe(200);
    await alone.close();
    await rm(folder, { recursive: true });
  });
});
