// Sessions and access tokens: concurrent refreshes, stolen tokens, forged tokens, rotated keys.
import { createHmac, randomUUID } from 'node:crypto';
import { exportJWK, exportSPKI, generateKeyPair, importJWK, type JWTPayload, SignJWT } from 'jose';
import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ApiKeys } from '../api-keys.ts';
import { createAccessTokens, createAuthenticate, InvalidToken } from '../authenticate.ts';
import { type OpenAuthService, openAuthService } from '../testing/open-auth-service.ts';
import { testDatabases } from '../testing/throwaway.ts';
import { clientOf, newEmail, password, post } from './auth-client.ts';

interface Tokens {
  access_token: string;
  refresh_token: string;
  error_code?: string;
}

async function signUp(service: OpenAuthService): Promise<Tokens & { email: string; id: string }> {
  const email = newEmail();
  const { data, error } = await clientOf(service).signUp({ email, password });
  if (!data.session) throw error;
  return { ...data.session, email, id: data.session.user.id };
}

const refresh = async (service: OpenAuthService, token: string) => {
  const answer = await post(service, '/token?grant_type=refresh_token', { refresh_token: token });
  return { status: answer.status, ...((await answer.json()) as Tokens) };
};

const getUser = async (service: OpenAuthService, bearer?: string) => {
  const answer = await fetch(`${service.url}/user`, {
    headers: bearer === undefined ? {} : { authorization: `Bearer ${bearer}` },
  });
  return [answer.status, ((await answer.json()) as Tokens).error_code];
};

const often = { count: 100_000, window: 300 };
const limits = { signUp: often, signIn: often, tokenRefresh: often, wrongPassword: often };

describe.each(testDatabases())('sessions on %s', (kind) => {
  let service: OpenAuthService;
  beforeAll(async () => {
    service = await openAuthService(kind, { limits });
  });
  afterAll(() => service.close());

  test('a refresh returns new tokens of the same session', async () => {
    const first = await signUp(service);
    const second = await refresh(service, first.refresh_token);
    expect(second.status).toBe(200);
    expect(second.refresh_token).not.toBe(first.refresh_token);
    const claims = (token: string) =>
      JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
    expect(claims(second.access_token)).toMatchObject({
      session_id: claims(first.access_token).session_id,
      aal: 'aal1',
      amr: [{ method: 'password' }],
    });
    expect(await getUser(service, second.access_token)).toEqual([200, undefined]);
  });

  test('concurrent refreshes of one token by many tabs share one valid session', async () => {
    const first = await signUp(service);
    const answers = await Promise.all(
      Array.from({ length: 12 }, () => refresh(service, first.refresh_token)),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array(12).fill(200));
    expect(new Set(answers.map(({ refresh_token }) => refresh_token)).size).toBe(1);
    const { rows } = await service.database.query<{ active: number; sessions: number }>(
      `select (select count(*) from auth.refresh_tokens where not revoked and user_id = $1) as active,
         (select count(*) from auth.sessions where user_id = $1::uuid) as sessions`,
      [first.id],
    );
    expect(rows).toEqual([{ active: 1, sessions: 1 }]);
    expect((await refresh(service, answers[0]?.refresh_token ?? '')).status).toBe(200);
  });

  test('a used token returns the active one within ten seconds, or as its direct parent', async () => {
    const first = await signUp(service);
    const second = await refresh(service, first.refresh_token);
    const third = await refresh(service, second.refresh_token);
    expect((await refresh(service, first.refresh_token)).refresh_token).toBe(third.refresh_token);
    service.advance(60);
    expect((await refresh(service, second.refresh_token)).refresh_token).toBe(third.refresh_token);
  });

  test('a stolen token that is used again ends its token family', async () => {
    const first = await signUp(service);
    const second = await refresh(service, first.refresh_token);
    const third = await refresh(service, second.refresh_token);
    service.advance(11);
    const reused = await refresh(service, first.refresh_token);
    expect([reused.status, reused.error_code]).toEqual([400, 'refresh_token_already_used']);
    const active = await refresh(service, third.refresh_token);
    expect([active.status, active.error_code]).toEqual([400, 'refresh_token_already_used']);
    expect(await getUser(service, third.access_token)).toEqual([403, 'session_expired']);
  });

  test('unknown and malformed refresh tokens have different errors', async () => {
    expect(await refresh(service, 'abcdef123456')).toMatchObject({
      status: 400,
      error_code: 'refresh_token_not_found',
    });
    expect(await refresh(service, 'A'.repeat(43))).toMatchObject({
      status: 400,
      error_code: 'refresh_token_not_found',
    });
    for (const token of ['', 'x', 'not/a token']) {
      expect(await refresh(service, token)).toMatchObject({ status: 400, error_code: 'validation_failed' });
    }
  });

  test('the database contains no readable refresh token, code or password', async () => {
    const held = await signUp(service);
    await clientOf(service).resetPasswordForEmail(held.email);
    const code = service.mails.at(-1)?.code ?? '';
    const { rows } = await service.database.query<{ contents: string }>(
      `select concat((select jsonb_agg(to_jsonb(u)) from auth.users u), (select jsonb_agg(to_jsonb(r)) from auth.refresh_tokens r),
         (select jsonb_agg(to_jsonb(s)) from auth.sessions s), (select jsonb_agg(to_jsonb(o)) from auth.one_time_tokens o)) as contents`,
    );
    const contents = rows[0]?.contents ?? '';
    expect(contents).toContain('$argon2id$');
    for (const secret of [password, held.refresh_token, held.access_token])
      expect(contents).not.toContain(secret);
    expect(contents).not.toContain(`"${code}"`);
  });

  test('API roles cannot read the tables of the service', async () => {
    const { rows } = await service.database.query<{ name: string }>(
      `select format('%s %s %s', r, t.relname, p) as name
       from pg_class t join pg_namespace n on n.oid = t.relnamespace and n.nspname = 'auth' and t.relkind = 'r',
         unnest(array['anon', 'authenticated']) r, unnest(array['select', 'insert', 'update', 'delete']) p
       where has_table_privilege(r, t.oid, p) or not t.relrowsecurity`,
    );
    expect(rows).toEqual([]);
  });
});

describe.each(testDatabases())('sessions with time limits on %s', (kind) => {
  let service: OpenAuthService;
  beforeAll(async () => {
    service = await openAuthService(kind, {
      limits,
      sessionTimeBox: 3600,
      sessionInactivity: 600,
      isSingleSession: true,
    });
  });
  afterAll(() => service.close());

  test('inactivity and age end a session, a refresh resets inactivity', async () => {
    let held: Tokens = await signUp(service);
    for (let minutes = 0; minutes < 54; minutes += 9) {
      service.advance(540);
      held = await refresh(service, held.refresh_token);
      expect(held.error_code).toBeUndefined();
    }
    service.advance(420);
    expect(await refresh(service, held.refresh_token)).toMatchObject({
      status: 400,
      error_code: 'session_expired',
    });
    const idle = await signUp(service);
    service.advance(601);
    expect(await refresh(service, idle.refresh_token)).toMatchObject({
      status: 400,
      error_code: 'session_expired',
    });
    expect(await getUser(service, idle.access_token)).toEqual([403, 'session_expired']);
  });

  test('signing in elsewhere ends the previous session', async () => {
    const first = await signUp(service);
    await clientOf(service).signInWithPassword({ email: first.email, password });
    expect(await getUser(service, first.access_token)).toEqual([403, 'session_not_found']);
  });

  test('a password alone does not end a session that passed a second factor, the factor does', async () => {
    const today = await service.alongside({ limits, isSingleSession: true });
    const email = newEmail();
    const [owner, stranger] = [clientOf(today), clientOf(today)];
    await owner.signUp({ email, password });
    const { data: factor } = await owner.mfa.enroll({ factorType: 'totp' });
    const code = (ahead: number) =>
      TOTP.generate({
        secret: Secret.fromBase32(factor?.totp.secret ?? ''),
        timestamp: Date.now() + ahead * 1000,
      });
    const factorId = factor?.id ?? '';
    expect((await owner.mfa.challengeAndVerify({ factorId, code: code(0) })).error).toBeNull();
    await stranger.signInWithPassword({ email, password });
    expect((await owner.getUser()).error).toBeNull();
    expect((await stranger.mfa.challengeAndVerify({ factorId, code: code(30) })).error).toBeNull();
    expect((await owner.getUser()).error?.name).toBe('AuthSessionMissingError');
    expect((await stranger.getUser()).error).toBeNull();
    await today.close();
  });
});

describe('access tokens', () => {
  let service: OpenAuthService;
  let held: Awaited<ReturnType<typeof signUp>>;
  let claims: JWTPayload;
  beforeAll(async () => {
    service = await openAuthService('pglite', { limits });
    held = await signUp(service);
    claims = JSON.parse(Buffer.from(held.access_token.split('.')[1] ?? '', 'base64url').toString());
  });
  afterAll(() => service.close());

  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const ownKey = async () => importJWK(service.keys.signingKeys[0] ?? {}, 'ES256');
  const signed = async (payload: JWTPayload, header = { alg: 'ES256', kid: 'one' }) =>
    new SignJWT(payload).setProtectedHeader(header).sign(await ownKey());

  test('a valid one is accepted', async () => {
    expect(await getUser(service, await signed(claims))).toEqual([200, undefined]);
  });

  test('a missing token and a token without a user are rejected', async () => {
    expect(await getUser(service)).toEqual([401, 'no_authorization']);
    expect(await getUser(service, service.keys.publishable)).toEqual([403, 'bad_jwt']);
    const { sub: _sub, ...withoutSubject } = claims;
    expect(await getUser(service, await signed(withoutSubject))).toEqual([403, 'bad_jwt']);
    expect(await getUser(service, await signed({ ...claims, sub: 'me' }))).toEqual([400, 'bad_jwt']);
    expect(await getUser(service, await signed({ ...claims, session_id: 'x' }))).toEqual([403, 'bad_jwt']);
    expect(await getUser(service, await signed({ ...claims, sub: randomUUID() }))).toEqual([
      403,
      'user_not_found',
    ]);
    expect(await getUser(service, await signed({ ...claims, session_id: randomUUID() }))).toEqual([
      403,
      'session_not_found',
    ]);
  });

  test("another user's session id is rejected", async () => {
    const other = await signUp(service);
    expect(await getUser(service, await signed({ ...claims, sub: other.id }))).toEqual([
      403,
      'session_not_found',
    ]);
  });

  test('unsigned, wrongly signed, expired, early and foreign ones are rejected', async () => {
    const now = Math.floor(Date.now() / 1000);
    const publicKey = await importJWK(service.keys.signingKeys[0] ?? {}, 'ES256', { extractable: true });
    const { d: _private, ...jwk } = await exportJWK(publicKey as Parameters<typeof exportJWK>[0]);
    const pem = await exportSPKI((await importJWK(jwk, 'ES256', { extractable: true })) as never);
    const confused = (header: object, secret: string) => {
      const body = `${part(header)}.${part(claims)}`;
      return `${body}.${createHmac('sha256', secret).update(body).digest('base64url')}`;
    };
    const stranger = await generateKeyPair('ES256');
    const [, body, signature] = held.access_token.split('.');
    const forged = [
      `${part({ alg: 'none', typ: 'JWT' })}.${part(claims)}.`,
      `${part({ alg: 'none', kid: 'one' })}.${part(claims)}.${signature}`,
      confused({ alg: 'HS256', kid: 'one' }, pem),
      confused({ alg: 'HS256', kid: 'one' }, JSON.stringify(jwk)),
      confused({ alg: 'HS256' }, pem),
      confused({ alg: 'HS256' }, ''),
      `${part({ alg: 'ES256', kid: 'one' })}.${part({ ...claims, role: 'service_role' })}.${signature}`,
      `${held.access_token.split('.')[0]}.${body}.${Buffer.alloc(64).toString('base64url')}`,
      await new SignJWT(claims).setProtectedHeader({ alg: 'ES256', kid: 'one' }).sign(stranger.privateKey),
      await new SignJWT(claims).setProtectedHeader({ alg: 'ES256', kid: 'two' }).sign(stranger.privateKey),
      // A key in the token's header is ignored.
      await new SignJWT(claims)
        .setProtectedHeader({ alg: 'ES256', jwk: await exportJWK(stranger.publicKey) })
        .sign(stranger.privateKey),
      await signed(claims, { alg: 'ES256', kid: 'unknown' }),
      await signed({ ...claims, exp: now - 60 }),
      await signed({ ...claims, nbf: now + 600 }),
      await signed({ ...claims, iss: 'https://elsewhere.example.com/auth/v1' }),
      await signed({ ...claims, aud: 'another audience' }),
      'a.b.c',
      'nothing',
    ];
    for (const token of forged)
      expect([token, await getUser(service, token)]).toEqual([token, [403, 'bad_jwt']]);
  });

  test('the other services reject an expired one with their own errors', async () => {
    const authenticate = createAuthenticate(service.keys, { issuer: service.url, audience: 'authenticated' });
    const expired = await signed({ ...claims, exp: Math.floor(Date.now() / 1000) - 60 });
    await expect(authenticate(expired)).rejects.toMatchObject({ code: 'PGRST303', message: 'JWT expired' });
    await expect(authenticate(await signed({ ...claims, iss: 'x' }))).rejects.toBeInstanceOf(InvalidToken);
    await expect(authenticate(await signed({ ...claims, role: 'postgres' }))).rejects.toMatchObject({
      code: 'PGRST303',
    });
    expect(await authenticate(held.access_token)).toMatchObject({ role: 'authenticated', sub: held.id });
  });
});

describe('signing keys', () => {
  const makeKey = async (alg: 'ES256' | 'RS256', kid: string) => {
    const { privateKey } = await generateKeyPair(alg, { extractable: true });
    return { ...(await exportJWK(privateKey)), alg, kid };
  };
  const keysWith = (given: Pick<ApiKeys, 'signingKeys' | 'sharedSecret'>): ApiKeys => ({
    publishable: 'sb_publishable_x',
    secret: 'sb_secret_x',
    ...given,
  });
  const claims = () => ({
    role: 'authenticated',
    sub: randomUUID(),
    exp: Math.floor(Date.now() / 1000) + 60,
  });

  test('the new one signs, the previous one still verifies, a removed one does not', async () => {
    const [old, next] = [await makeKey('ES256', 'old'), await makeKey('RS256', 'next')];
    const before = createAccessTokens(keysWith({ signingKeys: [old] }));
    const between = createAccessTokens(keysWith({ signingKeys: [next, old] }));
    const after = createAccessTokens(keysWith({ signingKeys: [next] }));
    const [first, second] = [await before.sign(claims()), await between.sign(claims())];
    expect(JSON.parse(Buffer.from(second.split('.')[0] ?? '', 'base64url').toString())).toMatchObject({
      alg: 'RS256',
      kid: 'next',
    });
    await expect(between.verify(first)).resolves.toBeDefined();
    await expect(between.verify(second)).resolves.toBeDefined();
    await expect(after.verify(first)).rejects.toBeInstanceOf(InvalidToken);
    for (const key of between.publicKeys) {
      for (const member of ['d', 'p', 'q', 'dp', 'dq', 'qi', 'k']) expect(key).not.toHaveProperty(member);
    }
  });

  test('a shared secret signs where no key is set, and is never published', async () => {
    const secret = 'a secret that is shared with others, 32 bytes';
    const origin = { issuer: 'https://shop.example.com/auth/v1', audience: 'authenticated' };
    const tokens = createAccessTokens(keysWith({ signingKeys: [], sharedSecret: secret }), origin);
    expect(tokens.publicKeys).toEqual([]);
    const made = await tokens.sign({ ...claims(), iss: origin.issuer, aud: origin.audience });
    await expect(tokens.verify(made)).resolves.toBeDefined();
    const sign = (payload: JWTPayload, key = secret, alg = 'HS256') =>
      new SignJWT(payload).setProtectedHeader({ alg }).sign(new TextEncoder().encode(key));
    await expect(tokens.verify(await sign({ role: 'service_role' }))).resolves.toBeDefined();
    await expect(tokens.verify(await sign({ role: 'anon', iss: 'supabase' }))).resolves.toBeDefined();
    await expect(tokens.verify(await sign({ role: 'anon', iss: 'elsewhere' }))).rejects.toBeInstanceOf(
      InvalidToken,
    );
    await expect(tokens.verify(await sign({ role: 'anon', aud: 'others' }))).rejects.toBeInstanceOf(
      InvalidToken,
    );
    await expect(tokens.verify(await sign({ role: 'anon' }, `${secret}!`))).rejects.toBeInstanceOf(
      InvalidToken,
    );
    await expect(
      tokens.verify(await sign({ role: 'anon' }, secret.repeat(2).slice(0, 64), 'HS512')),
    ).rejects.toBeInstanceOf(InvalidToken);
  });
});
