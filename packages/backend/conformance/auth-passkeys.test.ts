// Passkeys: the official client over HTTP with a software authenticator.
import { type AuthError, GoTrueClient, type VerifyPasskeyRegistrationParams } from '@supabase/auth-js';
import { Secret, TOTP } from 'otpauth';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import {
  createSoftwareAuthenticator,
  type SoftwareAuthenticator,
} from '../auth/passkeys/software-authenticator.ts';
import { type OpenAuthService, openAuthService } from '../testing/open-auth-service.ts';
import { testDatabases } from '../testing/throwaway.ts';
import { adminOf, clientOf, newEmail, password } from './auth-client.ts';

type CreationOptions = Parameters<SoftwareAuthenticator['create']>[0];
type RequestOptions = Parameters<SoftwareAuthenticator['get']>[0];
type Deviations = Parameters<SoftwareAuthenticator['get']>[1];

// An authenticator's response in the client's types.
const sent = (answer: object) => answer as VerifyPasskeyRegistrationParams['credential'];

const refusal = (error: Error | null) => {
  const { status, code } = (error ?? {}) as Partial<AuthError>;
  return error && { status, code };
};

describe.each(testDatabases())('passkeys on %s', (kind) => {
  let service: OpenAuthService;
  let origin: string;

  beforeAll(async () => {
    service = await openAuthService(kind, {
      isAnonymousSignInEnabled: true,
      passkeys: { isEnabled: true, relyingPartyName: 'The house' },
      limits: { passkey: { count: 1000, window: 60 } },
    });
    origin = new URL(service.url).origin;
  });
  afterEach(() => {
    expect(service.errors.splice(0)).toEqual([]);
  });
  afterAll(() => service.close());

  async function newPerson() {
    const email = newEmail();
    const client = clientOf(service);
    const { data, error } = await client.signUp({
      email,
      password,
      options: { data: { full_name: 'Amina Wanjiru' } },
    });
    expect(error).toBeNull();
    return { client, email, id: data.user?.id ?? '', device: createSoftwareAuthenticator(origin) };
  }

  async function register(client: GoTrueClient, device: SoftwareAuthenticator, change?: Deviations) {
    const { data, error } = await client.passkey.startRegistration();
    if (error) return { data: null, error };
    return client.passkey.verifyRegistration({
      challengeId: data.challenge_id,
      credential: sent(device.create(data.options as CreationOptions, change)),
    });
  }

  async function signIn(device: SoftwareAuthenticator, change?: Deviations, client = clientOf(service)) {
    const { data, error } = await client.passkey.startAuthentication();
    if (error) return { client, data: null, error };
    const result = await client.passkey.verifyAuthentication({
      challengeId: data.challenge_id,
      credential: sent(device.get(data.options as RequestOptions, change)),
    });
    return { client, ...result };
  }

  const claimsOf = (token: string | undefined) =>
    JSON.parse(Buffer.from(token?.split('.')[1] ?? '', 'base64url').toString());

  describe('a signed-in user', () => {
    test('receives the options that a browser needs to create one', async () => {
      const { client, id, email } = await newPerson();
      const before = Date.now() / 1000;
      const { data, error } = await client.passkey.startRegistration();
      expect(error).toBeNull();
      expect(data?.options).toMatchObject({
        rp: { id: 'localhost', name: 'The house' },
        user: { id: Buffer.from(id).toString('base64url'), name: email, displayName: 'Amina Wanjiru' },
        authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
        excludeCredentials: [],
      });
      expect(data?.expires_at).toBeGreaterThanOrEqual(before + 299);
      expect(data?.expires_at).toBeLessThanOrEqual(Date.now() / 1000 + 300);
    });

    test('creates, names, lists and deletes one', async () => {
      const { client, device } = await newPerson();
      const made = await register(client, device);
      expect(made.error).toBeNull();
      expect(made.data).toEqual({ id: expect.any(String), created_at: expect.any(String) });
      const passkeyId = made.data?.id ?? '';
      const named = await client.passkey.update({ passkeyId, friendlyName: 'My laptop' });
      expect(named.data).toMatchObject({ id: passkeyId, friendly_name: 'My laptop' });
      const listed = await client.passkey.list();
      expect(listed.data).toEqual([
        { id: passkeyId, friendly_name: 'My laptop', created_at: made.data?.created_at },
      ]);
      expect((await client.passkey.startRegistration()).data?.options.excludeCredentials).toHaveLength(1);
      expect((await client.passkey.delete({ passkeyId })).error).toBeNull();
      expect((await client.passkey.list()).data).toEqual([]);
      expect(refusal((await signIn(device)).error)).toEqual({
        status: 400,
        code: 'webauthn_verification_failed',
      });
    });

    test('can name one with up to 120 characters', async () => {
      const { client, device } = await newPerson();
      const { data } = await register(client, device);
      const rename = (friendlyName: string) =>
        client.passkey.update({ passkeyId: data?.id ?? '', friendlyName });
      expect((await rename('n'.repeat(120))).error).toBeNull();
      for (const name of ['', 'n'.repeat(121)]) {
        expect(refusal((await rename(name)).error)).toEqual({ status: 400, code: 'validation_failed' });
      }
    });

    test("cannot change another user's", async () => {
      const [owner, other] = [await newPerson(), await newPerson()];
      const { data } = await register(owner.client, owner.device);
      const passkeyId = data?.id ?? '';
      const notFound = { status: 404, code: 'webauthn_credential_not_found' };
      expect(refusal((await other.client.passkey.delete({ passkeyId })).error)).toEqual(notFound);
      const renamed = await other.client.passkey.update({ passkeyId, friendlyName: 'Mine' });
      expect(refusal(renamed.error)).toEqual(notFound);
      expect((await other.client.passkey.list()).data).toEqual([]);
      expect((await owner.client.passkey.list()).data).toHaveLength(1);
      const strange = await owner.client.passkey.update({ passkeyId: 'no-uuid', friendlyName: 'x' });
      expect(refusal(strange.error)).toEqual({ status: 404, code: 'validation_failed' });
    });

    test('has ten at most', async () => {
      const { client, device } = await newPerson();
      for (let made = 0; made < 9; made += 1) expect((await register(client, device)).error).toBeNull();
      const { data: spare } = await client.passkey.startRegistration();
      expect((await register(client, device)).error).toBeNull();
      const tooMany = { status: 422, code: 'too_many_passkeys' };
      expect(refusal((await client.passkey.startRegistration()).error)).toEqual(tooMany);
      const { error } = await client.passkey.verifyRegistration({
        challengeId: spare?.challenge_id ?? '',
        credential: sent(device.create(spare?.options as CreationOptions)),
      });
      expect(refusal(error)).toEqual(tooMany);
    });

    test('cannot register a credential that is registered', async () => {
      const [owner, other] = [await newPerson(), await newPerson()];
      const { data: first } = await owner.client.passkey.startRegistration();
      const credential = owner.device.create(first?.options as CreationOptions);
      await owner.client.passkey.verifyRegistration({
        challengeId: first?.challenge_id ?? '',
        credential: sent(credential),
      });
      // Without attestation any client can claim any credential id; the challenge is its own.
      const { data: second } = await other.client.passkey.startRegistration();
      const clientData = JSON.parse(Buffer.from(credential.response.clientDataJSON, 'base64url').toString());
      const claimed = Buffer.from(JSON.stringify({ ...clientData, challenge: second?.options.challenge }));
      const { error } = await other.client.passkey.verifyRegistration({
        challengeId: second?.challenge_id ?? '',
        credential: sent({
          ...credential,
          response: { ...credential.response, clientDataJSON: claimed.toString('base64url') },
        }),
      });
      expect(refusal(error)).toEqual({ status: 422, code: 'webauthn_credential_exists' });
    });

    test('with a second factor needs aal2 to add or delete one', async () => {
      const person = await newPerson();
      const { data: passkey } = await register(person.client, person.device);
      const { data: factor } = await person.client.mfa.enroll({ factorType: 'totp', friendlyName: 'App' });
      const code = TOTP.generate({ secret: Secret.fromBase32(factor?.totp.secret ?? '') });
      await person.client.mfa.challengeAndVerify({ factorId: factor?.id ?? '', code });
      const below = clientOf(service);
      await below.signInWithPassword({ email: person.email, password });
      const refused = { status: 403, code: 'insufficient_aal' };
      expect(refusal((await below.passkey.startRegistration()).error)).toEqual(refused);
      const deleted = await below.passkey.delete({ passkeyId: passkey?.id ?? '' });
      expect(refusal(deleted.error)).toEqual(refused);
      expect((await register(person.client, person.device)).error).toBeNull();
    });

    test('needs a session', async () => {
      const visitor = clientOf(service);
      await visitor.signInAnonymously();
      expect(refusal((await visitor.passkey.startRegistration()).error)).toEqual({
        status: 403,
        code: 'no_authorization',
      });
      const response = await fetch(`${service.url}/passkeys`);
      expect(response.status).toBe(401);
    });
  });

  describe('a registration', () => {
    test.each([
      ['from another origin', { origin: 'https://evil.example' }],
      ['for another challenge', { challenge: 'AAAAAAAAAAAAAAAAAAAAAA' }],
      ['without a verified user', { isUserVerified: false }],
    ])('%s is rejected', async (_what, change) => {
      const { client, device } = await newPerson();
      expect(refusal((await register(client, device, change)).error)).toEqual({
        status: 400,
        code: 'webauthn_verification_failed',
      });
      expect((await client.passkey.list()).data).toEqual([]);
    });

    test('is answered once, by the user who requested it, in time', async () => {
      const [owner, other] = [await newPerson(), await newPerson()];
      const { data } = await owner.client.passkey.startRegistration();
      const answer = {
        challengeId: data?.challenge_id ?? '',
        credential: sent(owner.device.create(data?.options as CreationOptions)),
      };
      const notFound = { status: 400, code: 'webauthn_challenge_not_found' };
      expect(refusal((await other.client.passkey.verifyRegistration(answer)).error)).toEqual(notFound);
      expect((await owner.client.passkey.verifyRegistration(answer)).error).toBeNull();
      expect(refusal((await owner.client.passkey.verifyRegistration(answer)).error)).toEqual(notFound);
      const { data: late } = await owner.client.passkey.startRegistration();
      service.advance(301);
      const { error } = await owner.client.passkey.verifyRegistration({
        challengeId: late?.challenge_id ?? '',
        credential: sent(owner.device.create(late?.options as CreationOptions)),
      });
      expect(refusal(error)).toEqual({ status: 400, code: 'webauthn_challenge_expired' });
    });

    test('needs a challenge and a credential', async () => {
      const { client } = await newPerson();
      const token = (await client.getSession()).data.session?.access_token;
      const { data } = await client.passkey.startRegistration();
      for (const body of [
        {},
        { challenge_id: data?.challenge_id },
        { credential: { id: 'AQID' } },
        { challenge_id: 'no-uuid', credential: { id: 'AQID' } },
      ]) {
        const response = await fetch(`${service.url}/passkeys/registration/verify`, {
          method: 'POST',
          headers: { authorization: `Bearer ${token}` },
          body: JSON.stringify(body),
        });
        expect([response.status, (await response.json()).error_code]).toEqual([400, 'validation_failed']);
      }
    });
  });

  describe('signing in', () => {
    test('requires no name and no password', async () => {
      const person = await newPerson();
      await register(person.client, person.device);
      const { client, data, error } = await signIn(person.device);
      expect(error).toBeNull();
      expect(data?.user?.email).toBe(person.email);
      expect(claimsOf(data?.session?.access_token)).toMatchObject({
        sub: person.id,
        aal: 'aal1',
        amr: [{ method: 'passkey' }],
      });
      expect((await client.getUser()).data.user?.id).toBe(person.id);
      expect((await client.refreshSession()).error).toBeNull();
      const { data: passkeys } = await client.passkey.list();
      expect(passkeys?.[0]?.last_used_at).toMatch(/^\d{4}-/);
    });

    test('accepts any discoverable passkey', async () => {
      const { data } = await clientOf(service).passkey.startAuthentication();
      expect(data?.options).toMatchObject({ rpId: 'localhost', userVerification: 'required' });
      expect(data?.options.allowCredentials ?? []).toEqual([]);
    });

    test.each([
      ['from another origin', { origin: 'https://evil.example' }],
      ['for another challenge', { challenge: 'AAAAAAAAAAAAAAAAAAAAAA' }],
      ['without a verified user', { isUserVerified: false }],
    ])('%s is rejected', async (_what, change) => {
      const person = await newPerson();
      await register(person.client, person.device);
      const { error } = await signIn(person.device, change);
      expect(refusal(error)).toEqual({ status: 400, code: 'webauthn_verification_failed' });
      expect((await signIn(person.device)).error).toBeNull();
    });

    test('with a cloned authenticator (lower counter) is rejected', async () => {
      const person = await newPerson();
      await register(person.client, person.device);
      await signIn(person.device);
      person.device.forgetCounts();
      expect(refusal((await signIn(person.device)).error)).toEqual({
        status: 400,
        code: 'webauthn_verification_failed',
      });
    });

    test('with the credential of one user and the handle of another is rejected', async () => {
      const [owner, other] = [await newPerson(), await newPerson()];
      await register(owner.client, owner.device);
      const client = clientOf(service);
      const { data } = await client.passkey.startAuthentication();
      const credential = owner.device.get(data?.options as RequestOptions);
      credential.response.userHandle = Buffer.from(other.id).toString('base64url');
      const { error } = await client.passkey.verifyAuthentication({
        challengeId: data?.challenge_id ?? '',
        credential: sent(credential),
      });
      expect(refusal(error)).toEqual({ status: 400, code: 'webauthn_verification_failed' });
    });

    test('succeeds once per challenge, also for concurrent answers', async () => {
      const person = await newPerson();
      await register(person.client, person.device);
      const { data } = await clientOf(service).passkey.startAuthentication();
      const answer = {
        challengeId: data?.challenge_id ?? '',
        credential: sent(person.device.get(data?.options as RequestOptions)),
      };
      const results = await Promise.all([
        clientOf(service).passkey.verifyAuthentication(answer),
        clientOf(service).passkey.verifyAuthentication(answer),
      ]);
      expect(results.map(({ error }) => refusal(error)?.code ?? 'signed in').sort()).toEqual([
        'signed in',
        'webauthn_challenge_not_found',
      ]);
    });

    test('expires after 300 seconds', async () => {
      const person = await newPerson();
      await register(person.client, person.device);
      const { data } = await clientOf(service).passkey.startAuthentication();
      service.advance(301);
      const { error } = await clientOf(service).passkey.verifyAuthentication({
        challengeId: data?.challenge_id ?? '',
        credential: sent(person.device.get(data?.options as RequestOptions)),
      });
      expect(refusal(error)).toEqual({ status: 400, code: 'webauthn_challenge_expired' });
    });

    test('rejects the challenge of a registration', async () => {
      const person = await newPerson();
      await register(person.client, person.device);
      const { data } = await person.client.passkey.startRegistration();
      const options = { challenge: data?.options.challenge ?? '', rpId: 'localhost' };
      const { error } = await clientOf(service).passkey.verifyAuthentication({
        challengeId: data?.challenge_id ?? '',
        credential: sent(person.device.get(options)),
      });
      expect(refusal(error)).toEqual({ status: 400, code: 'webauthn_challenge_not_found' });
    });

    test.each([
      ['banned', "banned_until = now() + interval '1 day'", 'user_banned'],
      ['with an unconfirmed e-mail address', 'email_confirmed_at = null', 'email_not_confirmed'],
    ])('is rejected for a user %s', async (_what, change, code) => {
      const person = await newPerson();
      await register(person.client, person.device);
      await service.database.query(`update auth.users set ${change} where id = $1::uuid`, [person.id]);
      expect(refusal((await signIn(person.device)).error)).toEqual({ status: 403, code });
    });
  });

  describe('an administrator', () => {
    test('lists and deletes the passkeys of users', async () => {
      const person = await newPerson();
      const { data: passkey } = await register(person.client, person.device);
      const listed = await adminOf(service).passkey.listPasskeys({ userId: person.id });
      expect(listed.data).toEqual([passkey]);
      const passkeyId = passkey?.id ?? '';
      const { error } = await adminOf(service).passkey.deletePasskey({ userId: person.id, passkeyId });
      expect(error).toBeNull();
      const again = await adminOf(service).passkey.deletePasskey({ userId: person.id, passkeyId });
      expect(refusal(again.error)).toEqual({ status: 404, code: 'webauthn_credential_not_found' });
      const unknown = await adminOf(service).passkey.listPasskeys({ userId: passkeyId });
      expect(refusal(unknown.error)).toEqual({ status: 404, code: 'user_not_found' });
      expect(refusal((await signIn(person.device)).error)).not.toBeNull();
    });
  });

  test('the setting switches passkeys off, and challenges are limited per IP address', async () => {
    const other = await service.alongside({ passkeys: { isEnabled: false } });
    const limited = await service.alongside({
      passkeys: { isEnabled: true },
      limits: { passkey: { count: 2, window: 60 } },
    });
    try {
      const { error } = await clientOf(other).passkey.startAuthentication();
      expect(refusal(error)).toEqual({ status: 404, code: 'passkey_disabled' });
      const visitor = new GoTrueClient({
        url: limited.url,
        headers: { 'x-forwarded-for': '192.0.2.9' },
        experimental: { passkey: true },
      });
      const ask = () => visitor.passkey.startAuthentication();
      expect([(await ask()).error, (await ask()).error]).toEqual([null, null]);
      expect(refusal((await ask()).error)).toEqual({ status: 429, code: 'over_request_rate_limit' });
    } finally {
      await other.close();
      await limited.close();
    }
  });
});
