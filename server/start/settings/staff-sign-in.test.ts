import { type OpenAuthService, openAuthService } from '@jani-juice/backend/testing';
import { AuthClient, type AuthError, type AuthWeakPasswordError } from '@supabase/auth-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readConfig } from './config.ts';
import { staffSignIn } from './staff-sign-in.ts';

const password = 'correct horse battery';
const email = 'njeri@jani.example';
const day = 24 * 60 * 60;

let service: OpenAuthService;
beforeAll(async () => {
  service = await openAuthService('pglite', {
    ...staffSignIn(readConfig({}, '/')),
    isSignupOpen: false,
    autoconfirmsEmail: false,
  });
  await client(service.keys.secret).admin.createUser({ email, password, email_confirm: true });
});
afterAll(async () => {
  expect(service.errors).toEqual([]);
  await service.close();
});

const client = (key = service.keys.publishable) =>
  new AuthClient({
    url: service.url,
    headers: { apikey: key, ...(key === service.keys.secret ? { Authorization: `Bearer ${key}` } : {}) },
    autoRefreshToken: false,
    persistSession: false,
  });
const signIn = async () => {
  const signedIn = client();
  expect((await signedIn.signInWithPassword({ email, password })).error).toBeNull();
  return signedIn;
};
const sessionCount = async () => {
  const { rows } = await service.database.query<{ count: number }>(
    'select count(*)::integer as count from auth.sessions',
  );
  return rows[0]?.count;
};

test('a setting of the owner replaces one setting, not the rules next to it', () => {
  const AUTH_SETTINGS = JSON.stringify({ otpLength: 6, password: { minimumLength: 12 } });
  expect(staffSignIn(readConfig({ AUTH_SETTINGS }, '/'))).toMatchObject({
    otpLength: 6,
    password: { minimumLength: 12, refusesCommon: true, needsCurrentPassword: true },
    limits: { wrongCodeOverall: { count: 2000 } },
  });
});

test('a session ends after seven days without use', async () => {
  const used = await signIn();
  const unused = await signIn();
  service.advance(6 * day);
  expect((await used.refreshSession()).error).toBeNull();
  service.advance(2 * day);
  expect((await used.refreshSession()).error).toBeNull();
  expect((await unused.refreshSession()).error?.code).toBe('session_expired');
});

test('a session ends after thirty days, however often it is used', async () => {
  const used = await signIn();
  for (let week = 0; week < 4; week += 1) {
    service.advance(6 * day);
    expect((await used.refreshSession()).error).toBeNull();
  }
  service.advance(5 * day);
  expect((await used.refreshSession()).error).toBeNull();
  service.advance(2 * day);
  expect((await used.refreshSession()).error?.code).toBe('session_expired');
});

test('the next sign-in deletes sessions that have ended', async () => {
  await signIn();
  service.advance(31 * day);
  await signIn();
  expect(await sessionCount()).toBe(1);
});

test('codes by email have eight digits', async () => {
  expect((await client().resetPasswordForEmail(email)).error).toBeNull();
  expect(service.mails.at(-1)?.code).toMatch(/^\d{8}$/);
});

test('no one signs in by phone', async () => {
  const { error } = await client().signInWithOtp({ phone: '+254712345678' });
  expect([error?.code, service.texts]).toEqual(['phone_provider_disabled', []]);
});

describe('a common password', () => {
  const weak = ['password', '12345678', 'Passw0rd!', 'janijuice', 'njeri2024'];
  const refusal = (error: AuthError | null) => [
    error?.status,
    error?.code,
    (error as AuthWeakPasswordError)?.reasons,
  ];
  const tooWeak = [422, 'weak_password', ['pwned']];

  test.each(weak)('%s is refused by the admin API', async (tried) => {
    const { admin } = client(service.keys.secret);
    const created = await admin.createUser({ email: 'njeri@example.com', password: tried });
    expect(refusal(created.error)).toEqual(tooWeak);
    const { data } = await admin.listUsers();
    const id = data.users.find((user) => user.email === email)?.id ?? '';
    expect(refusal((await admin.updateUserById(id, { password: tried })).error)).toEqual(tooWeak);
    const link = await admin.generateLink({ type: 'signup', email: 'njeri@example.com', password: tried });
    expect(refusal(link.error)).toEqual(tooWeak);
  });

  test.each(weak)('%s is refused when it is changed or recovered', async (tried) => {
    const signedIn = await signIn();
    const changed = await signedIn.updateUser({ password: tried, current_password: password });
    expect(refusal(changed.error)).toEqual(tooWeak);
    const recovering = client();
    service.advance(day);
    await recovering.resetPasswordForEmail(email);
    const token = service.mails.at(-1)?.code ?? '';
    expect((await recovering.verifyOtp({ email, token, type: 'recovery' })).error).toBeNull();
    expect(refusal((await recovering.updateUser({ password: tried })).error)).toEqual(tooWeak);
    await signIn();
  });

  test.each(weak)('%s is refused at sign-up, where it is open', async (tried) => {
    const open = await service.alongside({ ...staffSignIn(readConfig({}, '/')), isSignupOpen: true });
    const visitor = new AuthClient({
      url: open.url,
      headers: { apikey: open.keys.publishable },
      persistSession: false,
    });
    const { error } = await visitor.signUp({ email: 'njeri@example.com', password: tried });
    await open.close();
    expect(refusal(error)).toEqual(tooWeak);
  });

  test('set before the rule is accepted at sign-in, with a warning in the response', async () => {
    const { hash } = await import('@node-rs/argon2');
    const { admin } = client(service.keys.secret);
    await admin.createUser({
      email: 'old@jani.example',
      password_hash: await hash('12345678', { memoryCost: 64, timeCost: 1, parallelism: 1 }),
      email_confirm: true,
    });
    const { data, error } = await client().signInWithPassword({
      email: 'old@jani.example',
      password: '12345678',
    });
    expect([error, data.weakPassword?.reasons]).toEqual([null, ['pwned']]);
  });

  test('does not include uncommon passwords', async () => {
    const signedIn = await signIn();
    const { error } = await signedIn.updateUser({ password: 'mwalimu na twiga', current_password: password });
    expect(error).toBeNull();
  });
});
