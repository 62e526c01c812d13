// Order of limits and password hashing in a sign-in by password.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createAccessTokens } from '../../authenticate.ts';
import type { Database } from '../../database/database.ts';
import { platform, throwawayDatabase } from '../../testing/throwaway.ts';
import { AuthError } from '../auth-error.ts';
import type { AuthContext, AuthRequest } from '../context.ts';
import { createPasswords } from '../passwords/passwords.ts';
import { completeSettings } from '../settings.ts';
import { createUser } from '../users/users.ts';
import { ownGrants } from './token.ts';

const settings = completeSettings({
  externalUrl: 'http://localhost/auth/v1',
  siteUrl: 'http://localhost',
  passwordHashCost: { memoryCost: 64, timeCost: 1, parallelism: 1 },
});
let database: Database;
let context: AuthContext;
let comparisons = 0;

beforeAll(async () => {
  database = await throwawayDatabase('pglite', [platform]);
  const passwords = await createPasswords(settings.password, settings.passwordHashCost);
  const keys = {
    publishable: 'sb_publishable_x',
    secret: 'sb_secret_x',
    signingKeys: [],
    sharedSecret: 'x'.repeat(32),
  };
  context = {
    database,
    settings,
    accessTokens: createAccessTokens(keys, { issuer: settings.externalUrl, audience: settings.audience }),
    messages: { sendMail: async () => {}, sendText: async () => undefined },
    passwords: {
      ...passwords,
      matches(password, hashed) {
        comparisons += 1;
        return passwords.matches(password, hashed);
      },
    },
    secret: 'secret',
    now: () => new Date(),
    onError: () => {},
  };
  await createUser(database, context, {
    email: 'njeri@jani.example',
    encrypted_password: await passwords.hash('correct horse battery'),
    email_confirmed_at: new Date().toISOString(),
  });
});
afterAll(() => database.close());

async function signIn(email: string, password: string, ip: string) {
  comparisons = 0;
  const body = { email, password };
  const request = { body, ip, userAgent: null } as unknown as AuthRequest;
  const answer = await ownGrants.password?.(request, context).catch((error) => error);
  return { status: answer instanceof AuthError ? answer.status : (answer as Response).status, comparisons };
}

test.each(['njeri@jani.example', 'unknown@jani.example'])(
  'computes one hash for an attempt at %s, and none above the limit',
  async (email) => {
    const ip = email.startsWith('njeri') ? '192.0.2.1' : '198.51.100.1';
    for (let attempt = 0; attempt < 10; attempt += 1) {
      expect(await signIn(email, 'not it', ip)).toEqual({ status: 400, comparisons: 1 });
    }
    expect(await signIn(email, 'not it', ip)).toEqual({ status: 429, comparisons: 0 });
  },
);

test('computes one hash for the correct password', async () => {
  const right = await signIn('njeri@jani.example', 'correct horse battery', '203.0.113.1');
  expect(right).toEqual({ status: 200, comparisons: 1 });
});
