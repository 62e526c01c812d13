// Limits on the size of requests to the auth service.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type OpenAuthService, openAuthService } from '../testing/open-auth-service.ts';
import { adminOf, clientOf, newEmail, password, post } from './auth-client.ts';

const often = { count: 100_000, window: 300 };
let service: OpenAuthService;
beforeAll(async () => {
  service = await openAuthService('pglite', {
    isAnonymousSignInEnabled: true,
    saml: { isEnabled: true },
    limits: { signUp: often, signIn: often, otp: often, verify: often, anonymous: often },
  });
});
afterAll(() => service.close());

const answerOf = async (path: string, body: unknown, headers: Record<string, string> = {}) => {
  const answer = await post(service, path, body, headers);
  const { error_code: code, msg } = await answer.json();
  return [answer.status, code, msg];
};
const repeatA = (length: number) => 'a'.repeat(length);

describe('a body', () => {
  const padded = (bytes: number) => {
    const body = JSON.stringify({ email: newEmail(), password, padding: '' });
    return body.replace('"padding":""', `"padding":"${repeatA(bytes - body.length)}"`);
  };

  test('is limited to 64 KiB', async () => {
    expect((await post(service, '/signup', padded(65_536))).status).toBe(200);
    expect(await answerOf('/signup', padded(65_537))).toEqual([
      413,
      'request_entity_too_large',
      'Request body is larger than 64 KiB',
    ]);
  });

  test('without Content-Length is not read beyond the limit', async () => {
    let sent = 0;
    const endless = new ReadableStream({
      pull(controller) {
        sent += 16_384;
        if (sent > 64 * 1024 * 1024) controller.close();
        else controller.enqueue(new Uint8Array(16_384).fill(97));
      },
    });
    const request = { method: 'POST', body: endless, duplex: 'half' };
    const status = await fetch(`${service.url}/signup`, request as RequestInit).then(
      (answer) => answer.status,
      () => 'connection closed',
    );
    expect([413, 'connection closed']).toContain(status);
    expect(sent).toBeLessThan(16 * 1024 * 1024);
  });

  test('of an admin request is not read without the secret key', async () => {
    const metadata = { type: 'saml', metadata_xml: `<a>${repeatA(500_000)}</a>` };
    expect((await answerOf('/admin/sso/providers', metadata)).slice(0, 2)).toEqual([401, 'no_authorization']);
    const headers = { authorization: `Bearer ${service.keys.secret}` };
    expect(await answerOf('/admin/sso/providers', metadata, headers)).toEqual([
      400,
      'validation_failed',
      'SAML Metadata is not valid XML',
    ]);
  });

  test('from an identity provider is limited to 512 KiB', async () => {
    const send = async (length: number) => {
      const body = new URLSearchParams({ SAMLResponse: repeatA(length) });
      return (await fetch(`${service.url}/sso/saml/acs`, { method: 'POST', body, redirect: 'manual' }))
        .status;
    };
    expect([await send(100_000), await send(600_000)]).toEqual([303, 413]);
  });

  test('of form data is limited to 100 fields', async () => {
    const send = async (fields: number) => {
      const body = new URLSearchParams({ email: newEmail(), password });
      for (let index = 0; index < fields; index += 1) body.append(`field${index}`, '');
      return (await fetch(`${service.url}/signup`, { method: 'POST', body })).status;
    };
    expect([await send(98), await send(99)]).toEqual([200, 400]);
  });
});

describe('a field', () => {
  const tooLong: [string, string, Record<string, unknown>][] = [
    ['an e-mail address', '/recover', { email: `${repeatA(250)}@a.ke` }],
    ['an e-mail address', '/otp', { email: `${repeatA(60_000)}@a.ke` }],
    ['an e-mail address', '/signup', { email: `${repeatA(60_000)}@a.ke`, password }],
    ['a phone', '/otp', { phone: `+254${'7'.repeat(60_000)}` }],
    ['a password', '/signup', { email: 'long@example.com', password: repeatA(73) }],
    [
      'a password of 19 emoji (76 bytes)',
      '/signup',
      { email: 'long@example.com', password: '🥭'.repeat(19) },
    ],
    ['a password', '/token?grant_type=password', { email: 'long@example.com', password: repeatA(60_000) }],
    ['a code', '/verify', { type: 'email', email: 'long@example.com', token: '1'.repeat(129) }],
    ['a hash', '/verify', { type: 'email', token_hash: '1'.repeat(129) }],
    ['a refresh token', '/token?grant_type=refresh_token', { refresh_token: repeatA(60_000) }],
    ['a code', '/token?grant_type=pkce', { auth_code: repeatA(3000), code_verifier: 'x' }],
    ['a verifier', '/token?grant_type=pkce', { auth_code: 'x', code_verifier: repeatA(257) }],
    [
      'a challenge',
      '/recover',
      { email: 'a@a.ke', code_challenge: repeatA(129), code_challenge_method: 's256' },
    ],
    ['a domain', '/sso', { domain: repeatA(3000) }],
  ];
  test.each(tooLong)('that is too long is rejected: %s at %s', async (_, path, body) => {
    expect((await answerOf(path, body)).slice(0, 2)).toEqual([400, 'validation_failed']);
  });

  test('of the maximum length is accepted', async () => {
    const email = `${repeatA(63)}@${`${repeatA(60)}.`.repeat(3)}${'a'.repeat(7)}`;
    expect(email.length).toBeLessThanOrEqual(254);
    expect((await post(service, '/signup', { email, password: 'x'.repeat(72) })).status).toBe(200);
    const signedIn = await post(service, '/token?grant_type=password', { email, password: 'x'.repeat(72) });
    expect(signedIn.status).toBe(200);
  });

  test('with a password longer than 72 bytes never matches by its first 72 bytes', async () => {
    const email = newEmail();
    await adminOf(service).createUser({ email, password: 'x'.repeat(72), email_confirm: true });
    for (const length of [73, 129, 2000]) {
      const body = { email, password: 'x'.repeat(length) };
      const [status, code] = await answerOf('/token?grant_type=password', body);
      expect([status, code]).toEqual([400, 'invalid_credentials']);
    }
  });
});

describe('a query', () => {
  test('with a NUL character is rejected as invalid', async () => {
    const statuses = [];
    for (const query of ['token=%00&type=recovery', `token=${repeatA(129)}&type=recovery`]) {
      statuses.push((await fetch(`${service.url}/verify?${query}`, { redirect: 'manual' })).status);
    }
    statuses.push((await fetch(`${service.url}/authorize?provider=%00`, { redirect: 'manual' })).status);
    expect(statuses).toEqual([400, 400, 400]);
  });
});

describe('metadata of a user', () => {
  const keys = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`key${index}`, true]));
  const tooMuch = [400, 'validation_failed', 'User metadata takes at most 100 keys and 16 KiB'];

  test.each([
    ['/signup', { password, email: 'data@example.com' }],
    ['/signup', {}],
    ['/otp', { email: 'data@example.com' }],
  ])('has at most 100 keys and 16 KiB at %s', async (path, body) => {
    expect(await answerOf(path, { ...body, data: keys(101) })).toEqual(tooMuch);
    expect(await answerOf(path, { ...body, data: { about: repeatA(17_000) } })).toEqual(tooMuch);
  });

  test('stays within its limit after many changes', async () => {
    const client = clientOf(service);
    await client.signUp({ email: newEmail(), password, options: { data: keys(90) } });
    const grow = (data: object) => client.updateUser({ data });
    expect((await grow({ one: repeatA(6000) })).error).toBeNull();
    expect((await grow({ two: repeatA(6000) })).error).toBeNull();
    expect((await grow({ three: repeatA(6000) })).error?.code).toBe('validation_failed');
    expect((await grow({ one: null, two: null, three: repeatA(6000) })).error).toBeNull();
  });
});
