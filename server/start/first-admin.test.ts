import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { WrongSetting } from '@jani-juice/backend/settings';
import { copyMigratedDatabase } from '@jani-juice/backend/testing';
import { GoTrueAdminApi, GoTrueClient } from '@supabase/auth-js';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { shopMigrations } from '../../scripts/databases/shop-migrations.ts';
import { createStore, type Store } from '../../supabase/store.ts';
import { openLog } from '../monitoring/log.ts';
import { type Shop, startShop } from '../shop.ts';
import { ensureFirstAdmin, type FirstAdmin, retryFirstAdmin } from './first-admin.ts';
import { readConfig } from './settings/config.ts';

const email = 'admin@jani.example';

let dataDir: string;
let shop: Shop;
let store: Store;
let admin: GoTrueAdminApi;
let madeAtTheStart: FirstAdmin | null;

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'jani-shop-'));
  await copyMigratedDatabase(join(dataDir, 'database'), shopMigrations);
  const root = fileURLToPath(new URL('../..', import.meta.url));
  shop = await startShop({
    config: readConfig(
      { PORT: '0', DATA_DIR: dataDir, SEED: 'none', ADMIN_PASSWORD: 'set by a person' },
      root,
    ),
    root,
    log: openLog('silent'),
    build: () => Promise.reject(new Error('no page is requested')),
    mode: 'development',
    assets: (_request, _response, next) => next(),
  });
  madeAtTheStart = shop.firstAdmin;
  store = createStore({ url: shop.url, key: shop.keys.secret });
  admin = new GoTrueAdminApi({
    url: `${shop.url}/auth/v1`,
    headers: { apikey: shop.keys.secret, authorization: `Bearer ${shop.keys.secret}` },
  });
});
afterAll(async () => {
  await shop.close();
  await rm(dataDir, { recursive: true });
});
// Each test begins without any account.
beforeEach(async () => {
  for (const { id } of await accounts()) await admin.deleteUser(id);
});

const accounts = async () => (await admin.listUsers()).data.users;
const staff = async () => (await store.tables.from('admin_profiles').select()).data ?? [];
const ensure = (password: string | null = null) =>
  ensureFirstAdmin({ store, servicesUrl: shop.url, secretKey: shop.keys.secret, email, password });
const signIn = async (password: string) => {
  const client = new GoTrueClient({
    url: `${shop.url}/auth/v1`,
    headers: { apikey: shop.keys.publishable },
    persistSession: false,
  });
  return (await client.signInWithPassword({ email, password })).error;
};

test('is created on the first start, and a configured password is not reported', () => {
  expect(madeAtTheStart).toEqual({ outcome: 'made', email, password: null });
});

test('gets a random password when none is configured', async () => {
  const made = await ensure();
  expect(made).toMatchObject({ outcome: 'made', email });
  const password = made.outcome === 'made' ? (made.password ?? '') : '';
  expect(password).toMatch(/^([a-z2-9]{5}-){3}[a-z2-9]{5}$/);
  expect(await signIn(password)).toBeNull();
  const [account] = await accounts();
  expect(await staff()).toMatchObject([{ user_id: account?.id, is_active: true }]);
});

test('is not created when there is staff, even inactive', async () => {
  await ensure();
  await store.tables.from('admin_profiles').update({ is_active: false }).eq('is_active', true);
  expect(await ensure()).toEqual({ outcome: 'not needed' });
  expect(await accounts()).toHaveLength(1);
});

test('is created once by concurrent processes, and one of them reports the password', async () => {
  const outcomes = await Promise.all([ensure(), ensure(), ensure()]);
  expect(outcomes.filter(({ outcome }) => outcome === 'made')).toHaveLength(1);
  expect(await accounts()).toHaveLength(1);
  expect(await staff()).toHaveLength(1);
});

test('is completed after an interrupted start', async () => {
  await ensure('set by a person');
  const [account] = await accounts();
  await store.tables
    .from('admin_profiles')
    .delete()
    .eq('user_id', account?.id ?? '');
  expect(await ensure('another one')).toEqual({ outcome: 'not needed' });
  expect(await staff()).toMatchObject([{ user_id: account?.id }]);
  expect(await signIn('set by a person')).toBeNull();
});

test('does not make an existing account staff', async () => {
  await admin.createUser({ email, password: 'of a stranger', email_confirm: true });
  expect(await ensure()).toEqual({ outcome: 'taken', email });
  expect(await staff()).toEqual([]);
});

test.each(['password', '12345678', 'janijuice1'])(
  'a common password (%s) stops the start with one sentence',
  async (password) => {
    const attempt = ensure(password);
    await expect(attempt).rejects.toThrow(WrongSetting);
    await expect(attempt).rejects.toThrow(
      'ADMIN_PASSWORD is not accepted: Password is known to be weak and easy to guess, please choose a different one.',
    );
    expect(await accounts()).toEqual([]);
  },
);

test('reports an error when the services refuse', async () => {
  const attempt = ensureFirstAdmin({
    store: createStore({ url: shop.url, key: 'sb_secret_wrong' }),
    servicesUrl: shop.url,
    secretKey: 'sb_secret_wrong',
    email,
    password: null,
  });
  await expect(attempt).rejects.toThrow('staff could not be counted');
});

test('deletes an account that could not be made staff, so that the next attempt shows a password', async () => {
  const failing = createStore(
    { url: shop.url, key: shop.keys.secret },
    {
      fetch: async (input, init) =>
        init?.method === 'POST'
          ? Response.json({ message: 'unavailable' }, { status: 503 })
          : fetch(input, init),
    },
  );
  const options = { servicesUrl: shop.url, secretKey: shop.keys.secret, email, password: null };
  await expect(ensureFirstAdmin({ ...options, store: failing })).rejects.toThrow('unavailable');
  expect(await accounts()).toEqual([]);
  expect(await ensure()).toMatchObject({ outcome: 'made', password: expect.any(String) });
});

test('is retried until it succeeds, and then never again', async () => {
  const outcomes: FirstAdmin[] = [];
  let attempts = 0;
  const { run } = retryFirstAdmin(
    async () => {
      attempts += 1;
      if (attempts === 1) throw new Error('the project does not answer');
      return { outcome: 'made', email, password: 'generated' };
    },
    (account) => outcomes.push(account),
  );
  await expect(run()).rejects.toThrow('does not answer');
  await run();
  await run();
  expect(attempts).toBe(2);
  expect(outcomes).toEqual([{ outcome: 'made', email, password: 'generated' }]);
});
