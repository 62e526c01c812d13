// The standalone services, as another application or a client's test suite starts them.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { copyMigratedDatabase, platform } from '@jani-juice/backend/testing';
import { AuthClient } from '@supabase/auth-js';
import { PostgrestClient } from '@supabase/postgrest-js';
import { SignJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { type BackendAlone, startBackendAlone } from './backend-alone.ts';
import { openLog } from './monitoring/log.ts';
import { readConfig } from './start/settings/config.ts';

const sharedSecret = '37c304f8-51aa-419a-a1af-06154e63707a';
let folder: string;
let backend: BackendAlone;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'jani-backend-'));
  await copyMigratedDatabase(join(folder, 'database'), [platform]);
  await writeFile(
    join(folder, '1_notes.sql'),
    `create table public.notes (id int primary key, text text);
     insert into public.notes values (1, 'hello');
     revoke all on public.notes from anon;`,
  );
  const config = readConfig(
    {
      PORT: '0',
      DATA_DIR: folder,
      JWT_SECRET: sharedSecret,
      ALLOWED_ORIGINS: 'https://app.example',
      AUTH_SETTINGS: JSON.stringify({
        isSignupOpen: true,
        autoconfirmsEmail: true,
        autoconfirmsPhone: true,
        isAnonymousSignInEnabled: true,
        testPhones: { '254700000001': '123456' },
      }),
    },
    process.cwd(),
  );
  backend = await startBackendAlone({
    config,
    root: process.cwd(),
    log: openLog('silent'),
    migrations: folder,
    rootService: 'auth',
  });
});
afterAll(async () => {
  await backend.close();
  await rm(folder, { recursive: true });
});

const authAt = (url: string) =>
  new AuthClient({
    url,
    headers: { apikey: backend.keys.publishable },
    persistSession: false,
    autoRefreshToken: false,
  });

test('signs users up and in, also with a test phone, below the gateway path and at the root', async () => {
  for (const url of [`${backend.url}/auth/v1`, backend.url]) {
    const auth = authAt(url);
    const { data, error } = await auth.signUp({
      email: `${crypto.randomUUID()}@example.com`,
      password: 'correct horse',
    });
    expect(error).toBeNull();
    expect(data.session?.user.email).toBe(data.user?.email);
    expect((await auth.signInAnonymously()).data.user?.is_anonymous).toBe(true);
  }
  const auth = authAt(backend.url);
  expect((await auth.signInWithOtp({ phone: '254700000001' })).error).toBeNull();
  const { data } = await auth.verifyOtp({ phone: '254700000001', token: '123456', type: 'sms' });
  expect(data.session?.access_token).toBeTruthy();
});

test('accepts tokens signed with the shared secret and rejects forged ones', async () => {
  const sign = (secret: string) =>
    new SignJWT({ role: 'service_role' })
      .setProtectedHeader({ alg: 'HS256' })
      .setExpirationTime('1h')
      .sign(new TextEncoder().encode(secret));
  const read = async (token: string) =>
    new PostgrestClient(`${backend.url}/rest/v1`, {
      headers: { apikey: token, authorization: `Bearer ${token}` },
    })
      .from('notes')
      .select('text');
  expect((await read(await sign(sharedSecret))).data).toEqual([{ text: 'hello' }]);
  expect((await read(await sign(`${sharedSecret}x`))).error?.code).toBe('PGRST301');
  expect((await read(backend.keys.publishable)).error?.code).toBe('42501');
});

test.each([
  ['POST', '/rest/v1/notes'],
  ['POST', '/storage/v1/object/images/a.png'],
  ['PATCH', '/storage/v1/upload/resumable/abc'],
  ['POST', '/realtime/v1/api/broadcast/hall/events/hello'],
  ['POST', '/auth/v1/token'],
  ['POST', '/functions/v1/hello'],
])('accepts %s %s from browsers on allowed origins only', async (method, path) => {
  const ask = (origin: string) =>
    fetch(`${backend.url}${path}`, {
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': method,
        'access-control-request-headers': 'apikey, authorization, content-type, x-upsert',
      },
    });
  const allowed = await ask('https://app.example');
  expect([allowed.ok, allowed.headers.get('access-control-allow-origin')]).toEqual([
    true,
    expect.stringMatching(/^(\*|https:\/\/app\.example)$/),
  ]);
  expect(allowed.headers.get('access-control-allow-methods')).toContain(method);
  expect(allowed.headers.get('access-control-allow-headers')).toContain('x-upsert');
  const other = await ask('https://elsewhere.example');
  if (!path.startsWith('/functions/'))
    expect(other.headers.get('access-control-allow-origin'), 'of any other site').toBeNull();
});

test('exposes Content-Range to allowed origins', async () => {
  const { headers } = await fetch(`${backend.url}/rest/v1/notes`, {
    headers: { origin: 'https://app.example', apikey: backend.keys.secret, prefer: 'count=exact' },
  });
  expect(headers.get('content-range')).toBe('0-0/1');
  expect(headers.get('access-control-expose-headers')).toMatch(/content-range.*upload-offset/);
});

describe('the secret key', () => {
  const browser = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0';
  const ask = async (path: string, headers: Record<string, string>) => {
    const answer = await fetch(`${backend.url}${path}`, { headers });
    return { status: answer.status, code: answer.headers.get('sb-error-code'), body: await answer.text() };
  };
  const paths = [
    '/rest/v1/notes',
    '/auth/v1/admin/users',
    '/storage/v1/bucket',
    '/functions/v1/hello',
    '/realtime/v1/api/broadcast',
  ];

  test.each(paths)('is rejected from a browser at %s, in any header or parameter', async (path) => {
    const { publishable, secret } = backend.keys;
    const carriers: [string, Record<string, string>][] = [
      [path, { apikey: secret }],
      [path, { authorization: `Bearer ${secret}`, apikey: publishable }],
      [path, { authorization: `Bearer ${publishable}`, apikey: secret }],
      [`${path}?apikey=${secret}`, {}],
    ];
    for (const [url, headers] of carriers) {
      expect(await ask(url, { ...headers, 'user-agent': browser })).toEqual({
        status: 401,
        code: 'UNAUTHORIZED_INVALID_API_KEY_TYPE',
        body: JSON.stringify({
          message: 'Forbidden use of secret API key in browser',
          hint: 'Secret API keys can only be used in a protected environment and should never be used in a browser. Delete this secret API key immediately!',
        }),
      });
      expect((await ask(url, headers)).body).not.toContain('in browser');
    }
    const visitor = await ask(path, { apikey: publishable, 'user-agent': browser });
    expect(visitor.body).not.toContain('in browser');
  });

  test('opens no WebSocket from a browser', async () => {
    const open = (key: string, userAgent: string, header = false) =>
      new Promise<number | undefined>((done) => {
        const query = header ? '' : `&apikey=${key}`;
        const socket = new WebSocket(
          `${backend.url.replace('http', 'ws')}/realtime/v1/websocket?vsn=2.0.0${query}`,
          { headers: { 'user-agent': userAgent, ...(header ? { 'x-api-key': key } : {}) } },
        );
        socket.on('open', () => {
          socket.close();
          done(101);
        });
        socket.on('unexpected-response', (_, response) => done(response.statusCode));
      });
    const { publishable, secret } = backend.keys;
    expect(await open(secret, browser)).toBe(401);
    expect(await open(secret, browser, true)).toBe(401);
    expect(await open(secret, 'node')).toBe(101);
    expect(await open(publishable, browser)).toBe(101);
  });
});
