// The auth service as part of the backend: the other services accept its tokens and those signed with a shared secret.
import { AuthClient } from '@supabase/auth-js';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ApiKeys } from '../api-keys.ts';
import { createAccessTokens, InvalidToken } from '../authenticate.ts';
import { type Backend, createBackend } from '../backend.ts';
import type { Database } from '../database/database.ts';
import { createFairShare } from '../limits/fair-share.ts';
import { platform, throwawayDatabase } from '../testing/throwaway.ts';

const publicUrl = 'https://services.example.com';
const sharedSecret = '37c304f8-51aa-419a-a1af-06154e63707a';

const signed = (role: string, secret = sharedSecret) =>
  new SignJWT({ sub: '1234567890', role })
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .sign(new TextEncoder().encode(secret));

describe.each(['RS256', 'shared secret'])('a backend whose tokens are signed with %s', (how) => {
  let database: Database;
  let backend: Backend;
  const errors: unknown[] = [];
  const inProcess: typeof fetch = (input, init) => backend.fetch(new Request(input, init));
  beforeAll(async () => {
    database = await throwawayDatabase('pglite', [platform]);
    await database.execute(`
      create table public.notes (id integer primary key, owner uuid not null default auth.uid());
      alter table public.notes enable row level security;
      create policy "people read their own" on public.notes for select using (owner = (select auth.uid()));
      create policy "people write their own" on public.notes for insert with check (owner = (select auth.uid()));
    `);
    const { privateKey } = await generateKeyPair('RS256', { extractable: true });
    const keys: ApiKeys = {
      publishable: 'sb_publishable_test',
      secret: 'sb_secret_test',
      signingKeys: how === 'RS256' ? [{ ...(await exportJWK(privateKey)), alg: 'RS256', kid: 'rsa' }] : [],
      sharedSecret,
    };
    backend = await createBackend({
      database,
      keys,
      functions: {
        strict: { handler: () => new Response('called') },
        signed: { handler: () => new Response('called'), verifyJwt: 'signature' },
      },
      publicUrl,
      auth: {
        settings: {
          isSignupOpen: true,
          autoconfirmsEmail: true,
          passwordHashCost: { memoryCost: 64, timeCost: 1, parallelism: 1 },
        },
      },
      onError: (error) => errors.push(error),
    });
  });
  afterAll(async () => {
    expect(errors).toEqual([]);
    await backend.close();
    await database.close();
  });

  const rest = (token: string, init: RequestInit = {}) =>
    inProcess(`${publicUrl}/rest/v1/notes?select=id`, {
      ...init,
      headers: {
        apikey: 'sb_publishable_test',
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
      },
    });

  test('users read and write their own rows with their token', async () => {
    const client = new AuthClient({
      url: `${publicUrl}/auth/v1`,
      headers: { apikey: 'sb_publishable_test' },
      fetch: inProcess,
      storageKey: how,
      autoRefreshToken: false,
    });
    const { data, error } = await client.signUp({ email: 'me@example.com', password: 'my password' });
    expect(error).toBeNull();
    const token = data.session?.access_token ?? '';
    expect((await rest(token, { method: 'POST', body: '{"id":1}' })).status).toBe(201);
    expect(await (await rest(token)).json()).toEqual([{ id: 1 }]);
    const other = await client.signUp({ email: 'other@example.com', password: 'my password' });
    expect(await (await rest(other.data.session?.access_token ?? '')).json()).toEqual([]);
    const { data: claimed, error: unclaimed } = await client.getClaims();
    expect(unclaimed).toBeNull();
    expect(claimed?.header.alg).toBe(how === 'RS256' ? 'RS256' : 'HS256');
  });

  test('the shared secret can sign administrator tokens; another secret cannot', async () => {
    const list = async (token: string) =>
      (await inProcess(`${publicUrl}/auth/v1/admin/users`, { headers: { authorization: `Bearer ${token}` } }))
        .status;
    expect(await list(await signed('service_role'))).toBe(200);
    expect(await list(await signed('supabase_admin'))).toBe(200);
    expect(await list(await signed('authenticated'))).toBe(403);
    expect(await list(await signed('service_role', 'another secret of the same length, or so'))).toBe(403);
  });

  test('a function may accept signed tokens that name no role of the API', async () => {
    const call = async (name: string, token: string) =>
      (
        await inProcess(`${publicUrl}/functions/v1/${name}`, {
          headers: { authorization: `Bearer ${token}` },
        })
      ).status;
    const machine = await signed('machine');
    expect([await call('strict', machine), await call('signed', machine)]).toEqual([401, 200]);
    expect(await call('signed', await signed('machine', 'another secret of the same length, or so'))).toBe(
      401,
    );
  });

  test('health needs no key, and pages of other sites cannot sign in', async () => {
    expect((await inProcess(`${publicUrl}/auth/v1/health`)).status).toBe(200);
    const foreign = await inProcess(`${publicUrl}/auth/v1/token?grant_type=password`, {
      method: 'POST',
      headers: { origin: 'https://elsewhere.example.net', 'content-type': 'text/plain' },
      body: '{}',
    });
    expect(foreign.status).toBe(403);
  });
});

describe('an imported private key', () => {
  const origin = { issuer: `${publicUrl}/auth/v1`, audience: 'authenticated' };
  const tokensOf = async () => {
    const { privateKey } = await generateKeyPair('RS256', { extractable: true });
    const key = { ...(await exportJWK(privateKey)), alg: 'RS256', kid: 'rsa', key_ops: ['sign', 'verify'] };
    return createAccessTokens({ signingKeys: [key] }, origin);
  };

  test("signs even if it lists its public key's use", async () => {
    const tokens = await tokensOf();
    const token = await tokens.sign({ role: 'anon', iss: origin.issuer, aud: origin.audience });
    await expect(tokens.verify(token)).resolves.toMatchObject({ role: 'anon' });
    expect(tokens.publicKeys[0]).toMatchObject({ kid: 'rsa', key_ops: ['verify'] });
  });

  test('verifies role keys without an issuer, but none of another issuer or audience', async () => {
    const tokens = await tokensOf();
    const verified = async (claims: Record<string, unknown>) =>
      tokens.verify(await tokens.sign({ role: 'service_role', ...claims }));
    await expect(verified({})).resolves.toMatchObject({ role: 'service_role' });
    await expect(verified({ iss: 'supabase-demo' })).resolves.toBeDefined();
    await expect(verified({ iss: 'https://elsewhere.example' })).rejects.toBeInstanceOf(InvalidToken);
    await expect(verified({ aud: 'others' })).rejects.toBeInstanceOf(InvalidToken);
  });
});

test('requests that wait for an upstream response do not count towards the concurrency limit', async () => {
  const database = await throwawayDatabase('pglite', [platform]);
  const backend = await createBackend({
    database,
    keys: { publishable: 'sb_publishable_test', secret: 'sb_secret_test', signingKeys: [], sharedSecret },
    functions: {},
    publicUrl,
    auth: { settings: { shortestAnswer: 1500 } },
    fairShare: createFairShare('pglite'),
  });
  const answered: string[] = [];
  const ask = async (network: number, path: string, body?: object) => {
    const request = new Request(`${publicUrl}/auth/v1${path}`, {
      method: body ? 'POST' : 'GET',
      headers: { 'x-forwarded-for': `10.0.${network}.1`, 'content-type': 'application/json' },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    const { status } = await backend.answer(request, () => new AbortController().signal);
    answered.push(`${path} ${status}`);
  };
  try {
    const recoveries = [1, 2, 3, 4, 5, 6].map((network) =>
      ask(network, '/recover', { email: `someone${network}@example.com` }),
    );
    await ask(7, '/settings');
    expect(answered).toEqual(['/settings 200']);
    await Promise.all(recoveries);
    expect(answered.filter((line) => line === '/recover 200')).toHaveLength(6);
  } finally {
    await backend.close();
    await database.close();
  }
});
