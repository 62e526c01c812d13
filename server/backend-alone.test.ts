// The services without the shop, as another application or a client's own test suite starts them.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AuthClient } from '@supabase/auth-js';
import { PostgrestClient } from '@supabase/postgrest-js';
import { SignJWT } from 'jose';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type BackendAlone, startBackendAlone } from './backend-alone.ts';
import { readConfig } from './config.ts';
import { openLog } from './log.ts';

const sharedSecret = '37c304f8-51aa-419a-a1af-06154e63707a';
let folder: string;
let backend: BackendAlone;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'jani-backend-'));
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

test('people sign up, are known, and come in by a test phone, under the gateway’s path and at the root alike', async () => {
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

test('tokens of whoever shares the secret are taken, forged ones are not', async () => {
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
