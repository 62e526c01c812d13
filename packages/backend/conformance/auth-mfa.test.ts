// Second factors, enrolled and verified by the official client over HTTP.
import type { AuthError, GoTrueClient } from '@supabase/auth-js';
import { decodeJwt } from 'jose';
import { Secret, TOTP } from 'otpauth';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createSoftwareAuthenticator } from '../auth/passkeys/software-authenticator.ts';
import { createAccessTokens } from '../authenticate.ts';
import { type OpenAuthService, openAuthService } from '../testing/open-auth-service.ts';
import { testDatabases } from '../testing/throwaway.ts';
import { adminOf, clientOf, newEmail, password } from './auth-client.ts';

interface Person {
  client: GoTrueClient;
  email: string;
  id: string;
}

describe.each(testDatabases())('second factors on %s', (kind) => {
  let service: OpenAuthService;

  beforeAll(async () => {
    service = await openAuthService(kind, {
      isAnonymousSignInEnabled: true,
      testPhones: { '254700000099': '123456' },
      limits: { factorVerify: { count: 1000, window: 60 } },
    });
  });
  afterEach(() => {
    expect(service.errors.splice(0)).toEqual([]);
  });
  afterAll(() => service.close());

  async function newPerson(): Promise<Person> {
    const email = newEmail();
    const client = clientOf(service);
    const { data, error } = await client.signUp({ email, password });
    expect(error).toBeNull();
    return { client, email, id: data.user?.id ?? '' };
  }

  async function signedInAgain({ email }: Person): Promise<GoTrueClient> {
    const client = clientOf(service);
    const { error } = await client.signInWithPassword({ email, password });
    expect(error).toBeNull();
    return client;
  }

  /** An authenticator app on the service's clock, which tests advance for a new code. */
  let ahead = 0;
  const app = (secret: string) => ({
    code: (steps = 0) =>
      TOTP.generate({
        secret: Secret.fromBase32(secret),
        timestamp: Date.now() + (ahead + steps * 30) * 1000,
      }),
  });
  function pass(seconds: number): void {
    ahead += seconds;
    service.advance(seconds);
  }

  async function enrolledApp(client: GoTrueClient, friendlyName = 'My phone') {
    const { data, error } = await client.mfa.enroll({ factorType: 'totp', friendlyName });
    if (error) throw error;
    return { id: data.id, ...app(data.totp.secret) };
  }

  async function verifiedApp(client: GoTrueClient, friendlyName = 'My phone') {
    const factor = await enrolledApp(client, friendlyName);
    const { error } = await client.mfa.challengeAndVerify({ factorId: factor.id, code: factor.code() });
    expect(error).toBeNull();
    pass(60);
    return factor;
  }

  const levels = async (client: GoTrueClient) => {
    const { data } = await client.mfa.getAuthenticatorAssuranceLevel();
    return {
      now: data?.currentLevel,
      next: data?.nextLevel,
      methods: data?.currentAuthenticationMethods.map((entry) =>
        typeof entry === 'string' ? entry : entry.method,
      ),
    };
  };
  const refusal = (error: AuthError | null) => error && { status: error.status, code: error.code };

  describe('an authenticator app', () => {
    test('is enrolled with a QR code, a secret and a URI', async () => {
      const { client, email } = await newPerson();
      const { data, error } = await client.mfa.enroll({ factorType: 'totp', friendlyName: 'My phone' });
      expect(error).toBeNull();
      expect(data).toMatchObject({ type: 'totp', friendly_name: 'My phone' });
      expect(data?.totp.secret).toMatch(/^[A-Z2-7]{32}$/);
      expect(data?.totp.qr_code).toMatch(/^data:image\/svg\+xml;utf-8,<svg [^#]*<\/svg>$/s);
      const uri = new URL(data?.totp.uri ?? '');
      expect(uri.searchParams.get('issuer')).toBe(new URL(service.url).host);
      expect(decodeURIComponent(uri.pathname)).toContain(email);
      const { data: listed } = await client.mfa.listFactors();
      expect(listed?.totp).toEqual([]);
      expect(listed?.all).toMatchObject([
        { id: data?.id, factor_type: 'totp', status: 'unverified', friendly_name: 'My phone' },
      ]);
    });

    test('shows the issuer of the request', async () => {
      const { client } = await newPerson();
      const { data } = await client.mfa.enroll({ factorType: 'totp', issuer: 'Another issuer' });
      expect(new URL(data?.totp.uri ?? '').searchParams.get('issuer')).toBe('Another issuer');
    });

    test('raises the session to aal2 with its first code, also after a refresh', async () => {
      const { client } = await newPerson();
      const factor = await enrolledApp(client);
      expect(await levels(client)).toEqual({ now: 'aal1', next: 'aal1', methods: ['password'] });
      pass(5);
      const now = () => Date.now() / 1000 + ahead;
      const before = now();
      const challenge = await client.mfa.challenge({ factorId: factor.id });
      expect(challenge.data).toMatchObject({ type: 'totp' });
      expect(challenge.data?.expires_at).toBeGreaterThanOrEqual(before + 299);
      expect(challenge.data?.expires_at).toBeLessThanOrEqual(now() + 300);
      const { data, error } = await client.mfa.verify({
        factorId: factor.id,
        challengeId: challenge.data?.id ?? '',
        code: factor.code(),
      });
      expect(error).toBeNull();
      expect(data?.user.factors).toMatchObject([{ id: factor.id, status: 'verified' }]);
      expect(await levels(client)).toEqual({ now: 'aal2', next: 'aal2', methods: ['totp', 'password'] });
      const refreshed = await client.refreshSession();
      expect(refreshed.error).toBeNull();
      expect(await levels(client)).toEqual({ now: 'aal2', next: 'aal2', methods: ['totp', 'password'] });
      expect((await client.mfa.listFactors()).data?.totp).toHaveLength(1);
      pass(60);
    });

    test('is required at the next sign-in, and ends sessions below aal2', async () => {
      const person = await newPerson();
      const factor = await verifiedApp(person.client);
      const [second, third] = [await signedInAgain(person), await signedInAgain(person)];
      expect(await levels(second)).toEqual({ now: 'aal1', next: 'aal2', methods: ['password'] });
      const { error } = await second.mfa.challengeAndVerify({ factorId: factor.id, code: factor.code() });
      expect(error).toBeNull();
      expect(await levels(second)).toMatchObject({ now: 'aal2' });
      expect((await third.getUser()).error?.name).toBe('AuthSessionMissingError');
      expect((await third.refreshSession()).error).not.toBeNull();
      expect((await person.client.getUser()).error).toBeNull();
      pass(60);
    });

    test('is required to end other sessions, but not to sign out', async () => {
      const person = await newPerson();
      await verifiedApp(person.client);
      const isOpen = async (client: GoTrueClient) => (await client.getUser()).error === null;
      const stranger = await signedInAgain(person);
      const other = await signedInAgain(person);
      const aal = { status: 422, code: 'insufficient_aal' };
      expect(refusal((await stranger.signOut({ scope: 'others' })).error)).toEqual(aal);
      expect([await isOpen(stranger), await isOpen(other), await isOpen(person.client)]).toEqual([
        true,
        true,
        true,
      ]);
      expect((await stranger.signOut({ scope: 'global' })).error).toBeNull();
      expect((await stranger.getSession()).data.session).toBeNull();
      expect([await isOpen(other), await isOpen(person.client)]).toEqual([true, true]);
      // A token without a session, as an application signs it, means all sessions.
      const { data: signed } = await other.getSession();
      const { session_id: _session, ...claims } = decodeJwt(signed.session?.access_token ?? '');
      const bare = await createAccessTokens(service.keys).sign(claims);
      const refused = await fetch(`${service.url}/logout?scope=local`, {
        method: 'POST',
        headers: { authorization: `Bearer ${bare}` },
      });
      expect(refused.status).toBe(422);
      expect((await other.signOut({ scope: 'local' })).error).toBeNull();
      expect(await isOpen(person.client)).toBe(true);

      const last = await signedInAgain(person);
      expect((await person.client.signOut({ scope: 'others' })).error).toBeNull();
      expect([await isOpen(last), await isOpen(person.client)]).toEqual([false, true]);
    });

    test('accepts each code once, and no earlier code', async () => {
      const person = await newPerson();
      const factor = await verifiedApp(person.client);
      const code = factor.code();
      const client = await signedInAgain(person);
      expect((await client.mfa.challengeAndVerify({ factorId: factor.id, code })).error).toBeNull();
      const again = await signedInAgain(person);
      const refused = { status: 422, code: 'mfa_verification_failed' };
      const replayed = await again.mfa.challengeAndVerify({ factorId: factor.id, code });
      expect(refusal(replayed.error)).toEqual(refused);
      expect(replayed.error?.message).toBe('Invalid TOTP code entered');
      const older = await again.mfa.challengeAndVerify({ factorId: factor.id, code: factor.code(-1) });
      expect(refusal(older.error)).toEqual(refused);
      const next = await again.mfa.challengeAndVerify({ factorId: factor.id, code: factor.code(1) });
      expect(next.error).toBeNull();
      pass(60);
    });

    test('accepts one of two equal concurrent codes', async () => {
      const person = await newPerson();
      const factor = await verifiedApp(person.client);
      const clients = [await signedInAgain(person), await signedInAgain(person)];
      const code = factor.code();
      const results = await Promise.all(
        clients.map((client) => client.mfa.challengeAndVerify({ factorId: factor.id, code })),
      );
      expect(results.filter(({ error }) => error === null)).toHaveLength(1);
      pass(60);
    });

    test('rejects wrong, early and late codes', async () => {
      const { client } = await newPerson();
      const factor = await enrolledApp(client);
      // Three steps ahead: two may have become one when the code arrives.
      for (const code of [factor.code(-2), factor.code(3), '12345', 'abcdef']) {
        const { error } = await client.mfa.challengeAndVerify({ factorId: factor.id, code });
        expect(refusal(error)).toEqual({ status: 422, code: 'mfa_verification_failed' });
      }
      const { error } = await client.mfa.challengeAndVerify({ factorId: factor.id, code: '' });
      expect(refusal(error)).toEqual({ status: 400, code: 'validation_failed' });
      expect(error?.message).toBe('Code needs to be non-empty');
      expect(await levels(client)).toMatchObject({ now: 'aal1' });
    });

    test('of another user cannot be used', async () => {
      const [owner, other] = [await newPerson(), await newPerson()];
      const factor = await enrolledApp(owner.client);
      const notFound = { status: 404, code: 'mfa_factor_not_found' };
      expect(refusal((await other.client.mfa.challenge({ factorId: factor.id })).error)).toEqual(notFound);
      const { data: challenge } = await owner.client.mfa.challenge({ factorId: factor.id });
      const answer = { factorId: factor.id, challengeId: challenge?.id ?? '', code: factor.code() };
      expect(refusal((await other.client.mfa.verify(answer)).error)).toEqual(notFound);
      expect(refusal((await other.client.mfa.unenroll({ factorId: factor.id })).error)).toEqual(notFound);
      // With their own factor, another user's code or challenge is rejected, too.
      const own = await enrolledApp(other.client);
      const foreignCode = await other.client.mfa.challengeAndVerify({
        factorId: own.id,
        code: factor.code(),
      });
      expect(refusal(foreignCode.error)).toEqual({ status: 422, code: 'mfa_verification_failed' });
      const foreignChallenge = await other.client.mfa.verify({
        ...answer,
        factorId: own.id,
        code: own.code(),
      });
      expect(refusal(foreignChallenge.error)).toEqual({ status: 422, code: 'mfa_factor_not_found' });
    });

    test('is removed only in a session at aal2; then sessions fall back to aal1', async () => {
      const person = await newPerson();
      const factor = await verifiedApp(person.client);
      const below = await signedInAgain(person);
      const refused = await below.mfa.unenroll({ factorId: factor.id });
      expect(refusal(refused.error)).toEqual({ status: 422, code: 'insufficient_aal' });
      const { data, error } = await person.client.mfa.unenroll({ factorId: factor.id });
      expect(error).toBeNull();
      expect(data).toEqual({ id: factor.id });
      expect((await person.client.refreshSession()).error).toBeNull();
      expect(await levels(person.client)).toEqual({ now: 'aal1', next: 'aal1', methods: ['password'] });
      const gone = await person.client.mfa.unenroll({ factorId: factor.id });
      expect(refusal(gone.error)).toEqual({ status: 404, code: 'mfa_factor_not_found' });
    });

    test('that was never verified can be removed at any level', async () => {
      const { client } = await newPerson();
      const { id } = await enrolledApp(client);
      expect((await client.mfa.unenroll({ factorId: id })).data).toEqual({ id });
      expect((await client.mfa.listFactors()).data?.all).toEqual([]);
    });
  });

  describe('enrolling', () => {
    test('rejects an unknown type and a caller without a session', async () => {
      const { client } = await newPerson();
      const { error } = await client.mfa.enroll({ factorType: 'fax' as 'totp' });
      expect(refusal(error)).toEqual({ status: 400, code: 'validation_failed' });
      expect(error?.message).toBe('factor_type needs to be totp, phone, or webauthn');
      const visitor = clientOf(service);
      await visitor.signInAnonymously();
      const anonymous = await visitor.mfa.enroll({ factorType: 'totp' });
      expect(refusal(anonymous.error)).toEqual({ status: 403, code: 'no_authorization' });
      const signedOut = await fetch(`${service.url}/factors`, {
        method: 'POST',
        body: '{"factor_type":"totp"}',
      });
      expect(signedOut.status).toBe(401);
    });

    test('rejects a name that is taken', async () => {
      const { client } = await newPerson();
      await enrolledApp(client, 'One');
      const { error } = await client.mfa.enroll({ factorType: 'totp', friendlyName: 'One' });
      expect(refusal(error)).toEqual({ status: 422, code: 'mfa_factor_name_conflict' });
      expect(error?.message).toBe('A factor with the friendly name "One" for this user already exists');
      expect((await client.mfa.enroll({ factorType: 'totp', friendlyName: 'Two' })).error).toBeNull();
    });

    test('replaces factors that were never verified', async () => {
      const { client } = await newPerson();
      const stale = await enrolledApp(client, 'One');
      pass(301);
      const fresh = await enrolledApp(client, 'One');
      const { data } = await client.mfa.listFactors();
      expect(data?.all.map(({ id }) => id)).toEqual([fresh.id]);
      expect(fresh.id).not.toBe(stale.id);
    });

    test('deletes other unverified factors of the type when one is verified', async () => {
      const { client } = await newPerson();
      await enrolledApp(client, 'One');
      await client.mfa.enroll({ factorType: 'webauthn', friendlyName: 'Key' });
      await verifiedApp(client, 'Two');
      const { data } = await client.mfa.listFactors();
      expect(data?.all.map((factor) => factor.friendly_name)).toEqual(['Key', 'Two']);
    });

    test('is limited to ten factors', async () => {
      const { client } = await newPerson();
      for (let made = 0; made < 10; made += 1) await enrolledApp(client, `Number ${made}`);
      const { error } = await client.mfa.enroll({ factorType: 'totp', friendlyName: 'One more' });
      expect(refusal(error)).toEqual({ status: 422, code: 'too_many_enrolled_mfa_factors' });
    });

    test('is limited to ten factors under concurrent requests', async () => {
      const { client } = await newPerson();
      const results = await Promise.all(
        Array.from({ length: 14 }, (_, made) =>
          client.mfa.enroll({ factorType: 'webauthn', friendlyName: `Number ${made}` }),
        ),
      );
      expect(results.filter(({ error }) => error === null)).toHaveLength(10);
    });

    test('requires an existing factor to be verified first', async () => {
      const person = await newPerson();
      await verifiedApp(person.client, 'One');
      const below = await signedInAgain(person);
      const { error } = await below.mfa.enroll({ factorType: 'totp', friendlyName: 'Two' });
      expect(refusal(error)).toEqual({ status: 403, code: 'insufficient_aal' });
      expect((await person.client.mfa.enroll({ factorType: 'totp', friendlyName: 'Two' })).error).toBeNull();
    });
  });

  describe('a challenge', () => {
    test('expires after 300 seconds', async () => {
      const { client } = await newPerson();
      const factor = await enrolledApp(client);
      const { data } = await client.mfa.challenge({ factorId: factor.id });
      pass(301);
      const answer = { factorId: factor.id, challengeId: data?.id ?? '', code: factor.code() };
      const { error } = await client.mfa.verify(answer);
      expect(refusal(error)).toEqual({ status: 422, code: 'mfa_challenge_expired' });
    });

    test('is answered once, from the IP address that requested it', async () => {
      const { client } = await newPerson();
      const factor = await enrolledApp(client);
      const { data } = await client.mfa.challenge({ factorId: factor.id });
      const answer = { factorId: factor.id, challengeId: data?.id ?? '', code: factor.code() };
      const token = (await client.getSession()).data.session?.access_token;
      const elsewhere = await fetch(`${service.url}/factors/${factor.id}/verify`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'x-forwarded-for': '192.0.2.7' },
        body: JSON.stringify({ challenge_id: answer.challengeId, code: answer.code }),
      });
      expect([elsewhere.status, (await elsewhere.json()).error_code]).toEqual([
        422,
        'mfa_ip_address_mismatch',
      ]);
      expect((await client.mfa.verify(answer)).error).toBeNull();
      const again = await client.mfa.verify({ ...answer, code: factor.code(1) });
      expect(refusal(again.error)).toEqual({ status: 422, code: 'mfa_ip_address_mismatch' });
      pass(60);
    });

    test('that does not exist, for a factor that does not exist, is rejected', async () => {
      const { client } = await newPerson();
      const factor = await enrolledApp(client);
      const unknown = '2f0c6f0e-6a0a-4f2c-9c3b-0d9f3a4b5c6d';
      for (const challengeId of [unknown, 'no-uuid']) {
        const { error } = await client.mfa.verify({ factorId: factor.id, challengeId, code: factor.code() });
        expect(refusal(error)).toEqual({ status: 422, code: 'mfa_factor_not_found' });
      }
      expect(refusal((await client.mfa.challenge({ factorId: unknown })).error)).toEqual({
        status: 404,
        code: 'mfa_factor_not_found',
      });
      expect(refusal((await client.mfa.challenge({ factorId: 'no-uuid' })).error)).toEqual({
        status: 404,
        code: 'validation_failed',
      });
    });

    test('is void after ten wrong answers, even if the eleventh is right', async () => {
      const { client } = await newPerson();
      const factor = await enrolledApp(client);
      const { data } = await client.mfa.challenge({ factorId: factor.id });
      const answer = { factorId: factor.id, challengeId: data?.id ?? '' };
      for (let attempt = 0; attempt < 10; attempt += 1) {
        const { error } = await client.mfa.verify({ ...answer, code: factor.code(5) });
        expect(refusal(error)).toEqual({ status: 422, code: 'mfa_verification_failed' });
      }
      const { error } = await client.mfa.verify({ ...answer, code: factor.code() });
      expect(refusal(error)).toEqual({ status: 422, code: 'mfa_challenge_expired' });
    });
  });

  describe('guessing', () => {
    test('is limited to fifty codes across challenges and concurrent requests, until a right one', async () => {
      const person = await newPerson();
      const factor = await enrolledApp(person.client);
      const guess = async (times: number) => {
        const { data } = await person.client.mfa.challenge({ factorId: factor.id });
        const answer = { factorId: factor.id, challengeId: data?.id ?? '', code: factor.code(9) };
        const results = await Promise.all(
          Array.from({ length: times }, () => person.client.mfa.verify(answer)),
        );
        return results.map(({ error }) => error?.code);
      };
      await guess(9);
      const right = { factorId: factor.id, code: factor.code() };
      expect((await person.client.mfa.challengeAndVerify(right)).error).toBeNull();
      pass(60);
      for (let round = 0; round < 5; round += 1) {
        expect(new Set(await guess(10))).toEqual(new Set(['mfa_verification_failed']));
      }
      expect(await guess(2)).toEqual(['over_request_rate_limit', 'over_request_rate_limit']);
      const { error } = await person.client.mfa.challengeAndVerify({ ...right, code: factor.code() });
      expect(refusal(error)).toEqual({ status: 429, code: 'over_request_rate_limit' });
      pass(86_400);
      const client = await signedInAgain(person);
      expect((await client.mfa.challengeAndVerify({ ...right, code: factor.code() })).error).toBeNull();
      pass(60);
    });

    test('by a stranger with the password does not block a session that began by e-mail', async () => {
      const person = await newPerson();
      const factor = await enrolledApp(person.client);
      expect(
        (await person.client.mfa.challengeAndVerify({ factorId: factor.id, code: factor.code() })).error,
      ).toBeNull();
      pass(60);
      const thief = await signedInAgain(person);
      const guess = async () => {
        const { data } = await thief.mfa.challenge({ factorId: factor.id });
        const answer = { factorId: factor.id, challengeId: data?.id ?? '', code: factor.code(9) };
        await Promise.all(Array.from({ length: 10 }, () => thief.mfa.verify(answer)));
      };
      for (let round = 0; round < 5; round += 1) await guess();
      const right = () => ({ factorId: factor.id, code: factor.code() });
      const byPassword = await signedInAgain(person);
      const { error } = await byPassword.mfa.challengeAndVerify(right());
      expect(refusal(error)).toEqual({ status: 429, code: 'over_request_rate_limit' });

      const byEmail = clientOf(service);
      await byEmail.resetPasswordForEmail(person.email);
      const token = service.mails.at(-1)?.code ?? '';
      expect((await byEmail.verifyOtp({ email: person.email, token, type: 'recovery' })).error).toBeNull();
      expect((await byEmail.mfa.challengeAndVerify(right())).error).toBeNull();
      pass(60);
    });
  });

  describe('a phone', () => {
    const enrolledPhone = async (client: GoTrueClient, phone: string) => {
      const { data, error } = await client.mfa.enroll({ factorType: 'phone', friendlyName: phone, phone });
      if (error) throw error;
      return data;
    };

    test('receives a code that raises the session, once', async () => {
      const { client } = await newPerson();
      const factor = await enrolledPhone(client, '+254711000001');
      expect(factor).toMatchObject({ type: 'phone', phone: '+254711000001' });
      const { data: challenge, error } = await client.mfa.challenge({
        factorId: factor.id,
        channel: 'whatsapp',
      });
      expect(error).toBeNull();
      const message = service.texts.at(-1);
      expect(message).toMatchObject({ to: '254711000001', kind: 'mfa', channel: 'whatsapp' });
      expect(message?.code).toMatch(/^[0-9]{6}$/);
      const { rows } = await service.database.query<{ otp_code: string }>(
        'select otp_code from auth.mfa_challenges where id = $1::uuid',
        [challenge?.id],
      );
      expect(rows[0]?.otp_code).toMatch(/^[0-9a-f]{64}$/);
      const answer = { factorId: factor.id, challengeId: challenge?.id ?? '' };
      const wrong = message?.code === '000000' ? '000001' : '000000';
      const refused = await client.mfa.verify({ ...answer, code: wrong });
      expect(refusal(refused.error)).toEqual({ status: 422, code: 'mfa_verification_failed' });
      expect(refused.error?.message).toBe('Invalid MFA Phone code entered');
      const verified = await client.mfa.verify({ ...answer, code: message?.code ?? '' });
      expect(verified.error).toBeNull();
      expect(await levels(client)).toEqual({ now: 'aal2', next: 'aal2', methods: ['mfa/phone', 'password'] });
      expect((await client.mfa.verify({ ...answer, code: message?.code ?? '' })).error).not.toBeNull();
      expect((await client.mfa.listFactors()).data?.phone).toMatchObject([{ phone: '254711000001' }]);
    });

    test('is not sent a second code within a minute', async () => {
      const { client } = await newPerson();
      const factor = await enrolledPhone(client, '+254711000002');
      await client.mfa.challenge({ factorId: factor.id, channel: 'sms' });
      const { error } = await client.mfa.challenge({ factorId: factor.id, channel: 'sms' });
      expect(refusal(error)).toEqual({ status: 429, code: 'over_sms_send_rate_limit' });
      pass(61);
      expect((await client.mfa.challenge({ factorId: factor.id, channel: 'sms' })).error).toBeNull();
    });

    test('from the settings accepts its fixed code and receives no message', async () => {
      const { client } = await newPerson();
      const sent = service.texts.length;
      const factor = await enrolledPhone(client, '+254700000099');
      const { error } = await client.mfa.challengeAndVerify({ factorId: factor.id, code: '123456' });
      expect(error).toBeNull();
      expect(service.texts).toHaveLength(sent);
    });

    test('must be a valid number, with a known channel', async () => {
      const { client } = await newPerson();
      for (const phone of ['', 'abc', '+0123', '+2547110000021234567']) {
        const { error } = await client.mfa.enroll({ factorType: 'phone', phone });
        expect(refusal(error)).toEqual({ status: 400, code: 'validation_failed' });
      }
      const factor = await enrolledPhone(client, '+254711000003');
      const { error } = await client.mfa.challenge({ factorId: factor.id, channel: 'pigeon' as 'sms' });
      expect(refusal(error)).toEqual({ status: 400, code: 'validation_failed' });
    });

    test('can be enrolled again until it is verified', async () => {
      const { client } = await newPerson();
      const first = await enrolledPhone(client, '+254711000004');
      const second = await enrolledPhone(client, '+254711000004');
      expect((await client.mfa.listFactors()).data?.all.map(({ id }) => id)).toEqual([second.id]);
      expect(second.id).not.toBe(first.id);
      const { data } = await client.mfa.challenge({ factorId: second.id, channel: 'sms' });
      const code = service.texts.at(-1)?.code ?? '';
      await client.mfa.verify({ factorId: second.id, challengeId: data?.id ?? '', code });
      const { error } = await client.mfa.enroll({
        factorType: 'phone',
        friendlyName: 'again',
        phone: '254711000004',
      });
      expect(refusal(error)).toEqual({ status: 422, code: 'mfa_verified_factor_exists' });
    });
  });

  describe('a security key', () => {
    async function registeredKey(client: GoTrueClient) {
      const key = createSoftwareAuthenticator(new URL(service.url).origin);
      const { data: factor } = await client.mfa.enroll({ factorType: 'webauthn', friendlyName: 'Key' });
      const factorId = factor?.id ?? '';
      const challenge = await rawChallenge(client, factorId);
      const result = await rawVerify(client, factorId, challenge.id, {
        type: 'create',
        credential_response: key.create(challenge.webauthn.credential_options.publicKey, {
          isUserVerified: false,
        }),
      });
      expect(result.status).toBe(200);
      await client.setSession(result.body);
      return { key, factorId };
    }
    const token = async (client: GoTrueClient) => (await client.getSession()).data.session?.access_token;
    const post = async (client: GoTrueClient, path: string, body: unknown) => {
      const response = await fetch(`${service.url}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${await token(client)}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      return { status: response.status, body: await response.json() };
    };
    const rawChallenge = async (client: GoTrueClient, factorId: string) =>
      (await post(client, `/factors/${factorId}/challenge`, { webauthn: { rpId: 'evil.example' } })).body;
    const rawVerify = (client: GoTrueClient, factorId: string, challengeId: string, webauthn: unknown) =>
      post(client, `/factors/${factorId}/verify`, { challenge_id: challengeId, webauthn });

    test('is challenged with options that the client understands', async () => {
      const { client } = await newPerson();
      const { data: factor } = await client.mfa.enroll({ factorType: 'webauthn', friendlyName: 'Key' });
      const { data, error } = await client.mfa.challenge({
        factorId: factor?.id ?? '',
        webauthn: { rpId: 'localhost' },
      });
      expect(error).toBeNull();
      expect(data).toMatchObject({ type: 'webauthn', webauthn: { type: 'create' } });
      const options = data?.webauthn.credential_options.publicKey;
      expect(options?.challenge).toBeInstanceOf(ArrayBuffer);
    });

    test('is registered, and then raises a session with each use', async () => {
      const person = await newPerson();
      const { key, factorId } = await registeredKey(person.client);
      expect(await levels(person.client)).toEqual({
        now: 'aal2',
        next: 'aal2',
        methods: ['mfa/webauthn', 'password'],
      });
      const client = await signedInAgain(person);
      const challenge = await rawChallenge(client, factorId);
      expect(challenge.webauthn.type).toBe('request');
      expect(challenge.webauthn.credential_options.publicKey).toMatchObject({
        rpId: 'localhost',
        allowCredentials: [{ type: 'public-key' }],
      });
      const used = {
        type: 'request',
        credential_response: key.get(challenge.webauthn.credential_options.publicKey),
      };
      const { status, body } = await rawVerify(client, factorId, challenge.id, used);
      expect(status).toBe(200);
      await client.setSession(body);
      expect(await levels(client)).toMatchObject({ now: 'aal2', methods: ['mfa/webauthn', 'password'] });
      const replayed = await rawVerify(client, factorId, challenge.id, used);
      expect([replayed.status, replayed.body.error_code]).toEqual([422, 'mfa_ip_address_mismatch']);
    });

    test('with another origin, challenge, type or user is rejected', async () => {
      const person = await newPerson();
      const { key, factorId } = await registeredKey(person.client);
      const client = await signedInAgain(person);
      const challenge = await rawChallenge(client, factorId);
      const options = challenge.webauthn.credential_options.publicKey;
      const other = createSoftwareAuthenticator(new URL(service.url).origin);
      const foreign = other.create({ ...options, rp: { id: 'localhost' }, user: { id: 'AQID' } });
      const answers = [
        { type: 'request', credential_response: key.get(options, { origin: 'https://evil.example' }) },
        { type: 'request', credential_response: key.get(options, { challenge: 'AAAAAAAAAAAAAAAAAAAAAA' }) },
        { type: 'request', credential_response: other.get({ ...options, allowCredentials: [] }) },
        { type: 'request', credential_response: { id: 5 } },
        { type: 'create', credential_response: foreign },
      ];
      for (const answer of answers) {
        const { status, body } = await rawVerify(client, factorId, challenge.id, answer);
        expect([status, body.error_code]).toEqual([422, 'mfa_verification_failed']);
      }
      for (const answer of [undefined, { type: 'other', credential_response: {} }, { type: 'request' }]) {
        const { status, body } = await rawVerify(client, factorId, challenge.id, answer);
        expect([status, body.error_code]).toEqual([400, 'validation_failed']);
      }
      const copied = key.get(options);
      key.forgetCounts();
      expect(
        (await rawVerify(client, factorId, challenge.id, { type: 'request', credential_response: copied }))
          .status,
      ).toBe(200);
      const later = await signedInAgain(person);
      const again = await rawChallenge(later, factorId);
      const stale = {
        type: 'request',
        credential_response: key.get(again.webauthn.credential_options.publicKey),
      };
      expect((await rawVerify(later, factorId, again.id, stale)).status).toBe(422);
    });

    test('cannot be replaced through a challenge from before its registration', async () => {
      const person = await newPerson();
      const { data: factor } = await person.client.mfa.enroll({
        factorType: 'webauthn',
        friendlyName: 'Key',
      });
      const factorId = factor?.id ?? '';
      const thief = await signedInAgain(person);
      const [early, current] = [
        await rawChallenge(thief, factorId),
        await rawChallenge(person.client, factorId),
      ];
      const origin = new URL(service.url).origin;
      const creation = (challenge: typeof early) => ({
        type: 'create',
        credential_response: createSoftwareAuthenticator(origin).create(
          challenge.webauthn.credential_options.publicKey,
        ),
      });
      const right = await rawVerify(person.client, factorId, current.id, creation(current));
      expect(right.status).toBe(200);
      await person.client.setSession(right.body);
      const wrong = await rawVerify(person.client, factorId, early.id, creation(early));
      expect([wrong.status, wrong.body.error_code]).toEqual([422, 'mfa_verification_failed']);
    });
  });

  describe('an administrator', () => {
    test('lists, renames and deletes the factors of users', async () => {
      const person = await newPerson();
      const factor = await verifiedApp(person.client);
      const { data } = await adminOf(service).mfa.listFactors({ userId: person.id });
      expect(data?.factors).toMatchObject([{ id: factor.id, status: 'verified', factor_type: 'totp' }]);
      expect(JSON.stringify(data)).not.toContain('secret');
      const renamed = await fetch(`${service.url}/admin/users/${person.id}/factors/${factor.id}`, {
        method: 'PUT',
        headers: { authorization: `Bearer ${service.keys.secret}` },
        body: JSON.stringify({ friendly_name: 'Work phone' }),
      });
      expect([renamed.status, (await renamed.json()).friendly_name]).toEqual([200, 'Work phone']);
      const { error } = await adminOf(service).mfa.deleteFactor({ userId: person.id, id: factor.id });
      expect(error).toBeNull();
      expect((await person.client.mfa.listFactors()).data?.all).toEqual([]);
      await person.client.refreshSession();
      expect(await levels(person.client)).toMatchObject({ now: 'aal1' });
    });

    test('receives an error for a factor that does not exist', async () => {
      const { id } = await newPerson();
      const unknown = '2f0c6f0e-6a0a-4f2c-9c3b-0d9f3a4b5c6d';
      const { error } = await adminOf(service).mfa.listFactors({ userId: unknown });
      expect(refusal(error)).toEqual({ status: 404, code: 'user_not_found' });
      const gone = await adminOf(service).mfa.deleteFactor({ userId: id, id: unknown });
      expect(refusal(gone.error)).toEqual({ status: 404, code: 'mfa_factor_not_found' });
    });

    test('requires the secret key', async () => {
      const { client, id } = await newPerson();
      const token = (await client.getSession()).data.session?.access_token;
      const response = await fetch(`${service.url}/admin/users/${id}/factors`, {
        headers: { authorization: `Bearer ${token}` },
      });
      expect([response.status, (await response.json()).error_code]).toEqual([403, 'not_admin']);
    });
  });

  test('answers requests for recovery codes with a named error', async () => {
    const { client } = await newPerson();
    const { data } = await client.getSession();
    const answer = await fetch(`${service.url}/factors/recovery-codes`, {
      method: 'POST',
      headers: { authorization: `Bearer ${data.session?.access_token}` },
    });
    expect([answer.status, await answer.json()]).toEqual([
      405,
      { code: 405, error_code: 'method_not_allowed', msg: 'POST is not supported here' },
    ]);
  });

  test('rejects features that the settings disable', async () => {
    const closed = await service.alongside({
      mfa: {
        totp: { canEnroll: false, canVerify: false },
        phone: { canEnroll: false, canVerify: true },
        webauthn: { canEnroll: false, canVerify: true },
      },
    });
    try {
      const client = clientOf(closed);
      const { data } = await client.signUp({ email: 'person@jani.example', password });
      for (const factorType of ['totp', 'phone', 'webauthn'] as const) {
        const { error } = await client.mfa.enroll({ factorType, phone: '+254711000009' } as {
          factorType: 'totp';
        });
        expect(refusal(error)).toEqual({ status: 422, code: `mfa_${factorType}_enroll_not_enabled` });
      }
      const { rows } = await closed.database.query<{ id: string }>(
        `insert into auth.mfa_factors (user_id, factor_type) values ($1::uuid, 'totp') returning id`,
        [data.user?.id],
      );
      const { error } = await client.mfa.challenge({ factorId: rows[0]?.id ?? '' });
      expect(refusal(error)).toEqual({ status: 422, code: 'mfa_totp_verify_not_enabled' });
    } finally {
      await closed.close();
    }
  });
});
