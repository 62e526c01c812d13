// Sign-in with an OpenID provider: the official client, a real provider and a browser's redirects.
import { createHash } from 'node:crypto';
import type { GoTrueClient } from '@supabase/auth-js';
import { decodeJwt } from 'jose';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type OpenAuthService, openAuthService } from '../testing/open-auth-service.ts';
import { testDatabases } from '../testing/throwaway.ts';
import { adminOf, clientOf, password } from './auth-client.ts';
import {
  clientId,
  clientSecret,
  type OpenIdProvider,
  openBrowser,
  openOpenIdProvider,
} from './openid-provider.ts';

const site = 'https://shop.example';
const place = `${site}/welcome?from=sign-in`;
let count = 0;

describe.each(testDatabases())('sign-in with a provider on %s', (kind) => {
  let provider: OpenIdProvider;
  let service: OpenAuthService;

  beforeAll(async () => {
    provider = await openOpenIdProvider();
    const ours = { clientId, secret: clientSecret, issuer: provider.issuer, allowsInsecureRequests: true };
    service = await openAuthService(kind, {
      siteUrl: site,
      autoconfirmsEmail: false,
      isManualLinkingEnabled: true,
      isAnonymousSignInEnabled: true,
      external: {
        keycloak: ours,
        // The same provider under another name, with fewer scopes.
        google: { ...ours, isEmailOptional: true, scopes: ['openid'] },
      },
    });
    provider.register(`${service.url}/callback`);
  });
  afterEach(() => {
    expect(service.errors.splice(0)).toEqual([]);
  });
  afterAll(async () => {
    await Promise.all([provider.close(), service.close()]);
  });

  const newClient = (flowType: 'pkce' | 'implicit' = 'pkce') => clientOf(service, flowType);

  /** A user of the provider. */
  function newPerson(claims: Record<string, unknown> = {}) {
    count += 1;
    const name = `person-${count}`;
    const email = `${name}@mail.example`;
    provider.people.set(name, { email, email_verified: true, name: `Person ${count}`, ...claims });
    return { name, email };
  }

  async function urlFor(client: GoTrueClient, loginHint: string, name: 'keycloak' | 'google' = 'keycloak') {
    const { data, error } = await client.signInWithOAuth({
      provider: name,
      options: { redirectTo: place, skipBrowserRedirect: true, queryParams: { login_hint: loginHint } },
    });
    expect(error).toBeNull();
    return data.url ?? '';
  }

  async function signIn(name: string, client = newClient(), as: 'keycloak' | 'google' = 'keycloak') {
    const back = await openBrowser().follow(await urlFor(client, name, as), site);
    const code = back.searchParams.get('code') ?? '';
    return { back, client, ...(await client.exchangeCodeForSession(code)) };
  }

  /** Follows the redirects of the provider and stops before our callback is called. */
  async function callbackFor(name: string, client = newClient()) {
    const back = await openBrowser().follow(await urlFor(client, name), `${service.url}/callback`);
    return { client, back };
  }

  const arrive = async (callback: URL | string, init: RequestInit = {}) => {
    const answer = await fetch(callback, { redirect: 'manual', ...init });
    const to = new URL(answer.headers.get('location') ?? 'none:');
    return { status: answer.status, to, params: Object.fromEntries(to.searchParams) };
  };

  describe('succeeds', () => {
    test('with PKCE: the client exchanges its code for tokens', async () => {
      const { name, email } = newPerson();
      const { back, data, error } = await signIn(name);
      expect(error).toBeNull();
      expect(back.href.startsWith(`${place}&code=`)).toBe(true);
      const { user, session } = data;
      expect(user).toMatchObject({
        email,
        email_confirmed_at: expect.any(String),
        app_metadata: { provider: 'keycloak', providers: ['keycloak'] },
        user_metadata: { email, email_verified: true, name: `Person ${count}`, sub: name },
        identities: [{ provider: 'keycloak', id: name, email, identity_data: { email, sub: name } }],
      });
      expect(session?.provider_token).toEqual(expect.any(String));
      expect(session?.provider_refresh_token).toEqual(expect.any(String));
      expect(decodeJwt(session?.access_token ?? '')).toMatchObject({
        aal: 'aal1',
        amr: [{ method: 'oauth' }],
      });
      const whoami = await fetch(`${provider.issuer}/me`, {
        headers: { authorization: `Bearer ${session?.provider_token}` },
      });
      expect(await whoami.json()).toMatchObject({ sub: name, email });
    });

    test('in the implicit flow: the client reads the tokens from the fragment', async () => {
      const { name, email } = newPerson();
      const client = newClient('implicit');
      const back = await openBrowser().follow(await urlFor(client, name), site);
      const params = Object.fromEntries(new URLSearchParams(back.hash.slice(1)));
      expect(Object.keys(params).sort()).toEqual([
        'access_token',
        'expires_at',
        'expires_in',
        'provider_refresh_token',
        'provider_token',
        'refresh_token',
        'sb',
        'token_type',
      ]);
      const { data } = await client.setSession({
        access_token: params.access_token ?? '',
        refresh_token: params.refresh_token ?? '',
      });
      expect(data.user?.email).toBe(email);
    });

    test('as the same user the next time, with updated claims', async () => {
      const { name } = newPerson();
      const first = await signIn(name);
      provider.people.set(name, { ...provider.people.get(name), name: 'Another name' });
      const second = await signIn(name);
      expect(second.data.user?.id).toBe(first.data.user?.id);
      expect(second.data.user?.user_metadata.name).toBe('Another name');
      expect(second.data.user?.identities).toHaveLength(1);
    });

    test('without an e-mail address where none is required', async () => {
      const { name } = newPerson({ email: undefined, email_verified: undefined });
      const { data, error } = await signIn(name, newClient(), 'google');
      expect(error).toBeNull();
      expect(data.user?.email).toBe('');
    });

    test('with a provider that answers by form_post', async () => {
      const { name } = newPerson();
      const { back } = await callbackFor(name);
      const { status, to } = await arrive(`${service.url}/callback`, {
        method: 'POST',
        body: new URLSearchParams(back.searchParams),
      });
      expect([status, to.searchParams.has('code')]).toEqual([302, true]);
    });
  });

  describe('requests the provider', () => {
    test('with the scopes of the service and of the client, and a PKCE challenge', async () => {
      const { name } = newPerson();
      const { data } = await newClient().signInWithOAuth({
        provider: 'keycloak',
        options: {
          skipBrowserRedirect: true,
          scopes: 'phone',
          queryParams: {
            login_hint: name,
            prompt: 'login',
            state: 'mine',
            client_id: 'mine',
            nonce: 'mine',
            redirect_uri: 'https://evil.example',
          },
        },
      });
      const answer = await fetch(data.url ?? '', { redirect: 'manual' });
      expect(answer.status).toBe(302);
      const url = new URL(answer.headers.get('location') ?? '');
      expect(Object.fromEntries(url.searchParams)).toEqual({
        client_id: clientId,
        redirect_uri: `${service.url}/callback`,
        response_type: 'code',
        scope: 'openid email profile phone',
        login_hint: name,
        prompt: 'login',
        code_challenge: expect.stringMatching(/^[\w-]{43}$/),
        code_challenge_method: 'S256',
        state: expect.stringMatching(/^[0-9a-f-]{36}$/),
        nonce: expect.stringMatching(/^[\w-]{43}$/),
      });
    });

    test.each([
      ['provider=unknown', 'Unsupported provider: Provider unknown could not be found'],
      ['provider=__proto__', 'Unsupported provider: Provider __proto__ could not be found'],
      ['provider=github', 'Unsupported provider: provider is not enabled'],
      ['provider=keycloak&code_challenge=abc', 'PKCE flow requires code_challenge_method and code_challenge'],
      [
        'provider=keycloak&code_challenge_method=s256&code_challenge=abc',
        'code challenge has to be between 43 and 128 characters',
      ],
    ])('not for %s', async (query, msg) => {
      const answer = await fetch(`${service.url}/authorize?${query}`, { redirect: 'manual' });
      expect(answer.status).toBe(400);
      expect(await answer.json()).toEqual({ code: 400, error_code: 'validation_failed', msg });
    });

    test('not for an unknown invitation', async () => {
      const query = 'provider=keycloak&invite_token=unknown';
      const answer = await fetch(`${service.url}/authorize?${query}`, { redirect: 'manual' });
      expect([answer.status, (await answer.json()).error_code]).toEqual([404, 'user_not_found']);
    });
  });

  describe('fails', () => {
    test('with a redirect URL that is not allowed', async () => {
      const { name } = newPerson();
      const { data } = await newClient().signInWithOAuth({
        provider: 'keycloak',
        options: {
          skipBrowserRedirect: true,
          redirectTo: 'https://evil.example/',
          queryParams: { login_hint: name },
        },
      });
      const back = await openBrowser().follow(data.url ?? '', site);
      expect(back.origin).toBe(site);
    });

    test('when the user denies access', async () => {
      const back = await openBrowser().follow(await urlFor(newClient(), 'cancel'), site);
      const params = { error: 'access_denied', error_description: 'The user cancelled' };
      expect(Object.fromEntries(back.searchParams)).toEqual({ from: 'sign-in', ...params });
      expect(Object.fromEntries(new URLSearchParams(back.hash.slice(1)))).toEqual({ ...params, sb: '' });
    });

    test('with a state that was used before', async () => {
      const { back } = await callbackFor(newPerson().name);
      expect((await arrive(back)).to.searchParams.has('code')).toBe(true);
      expect(await arrive(back)).toMatchObject({
        status: 303,
        to: { origin: site },
        params: {
          error: 'invalid_request',
          error_code: 'flow_state_already_used',
          error_description: 'State has already been used',
        },
      });
    });

    test('for the second of two concurrent callbacks with the same state', async () => {
      const { back } = await callbackFor(newPerson().name);
      const answers = await Promise.all([arrive(back), arrive(back), arrive(back)]);
      expect(answers.filter(({ to }) => to.searchParams.has('code'))).toHaveLength(1);
    });

    test('with an expired state', async () => {
      const { back } = await callbackFor(newPerson().name);
      service.advance(601);
      expect(await arrive(back)).toMatchObject({
        status: 303,
        params: { error_code: 'bad_oauth_state', error_description: 'OAuth state has expired' },
      });
      service.advance(-601);
    });

    test.each([
      ['no state', '', 'bad_oauth_callback', 'OAuth state parameter missing'],
      ['a malformed state', 'abc', 'bad_oauth_state', 'OAuth state parameter is invalid'],
      ['an unknown state', crypto.randomUUID(), 'bad_oauth_state', 'OAuth state not found or expired'],
    ])('with %s', async (_, state, code, description) => {
      const { status, to, params } = await arrive(`${service.url}/callback?code=x&state=${state}`);
      expect({ status, origin: to.origin, ...params }).toEqual({
        status: 303,
        origin: site,
        error: 'invalid_request',
        error_code: code,
        error_description: description,
      });
    });

    test('without a code, or with a code that the provider did not issue', async () => {
      const { back } = await callbackFor(newPerson().name);
      back.searchParams.delete('code');
      expect(await arrive(back)).toMatchObject({ status: 302, params: { error_code: 'bad_oauth_callback' } });
      const other = (await callbackFor(newPerson().name)).back;
      other.searchParams.set('code', 'stolen');
      expect(await arrive(other)).toMatchObject({
        status: 302,
        params: { error: 'server_error', error_description: 'Unable to exchange external code: stol' },
      });
      expect(service.errors.splice(0)).toHaveLength(1);
    });

    test('with the code of another flow', async () => {
      const [mine, other] = [await callbackFor(newPerson().name), await callbackFor(newPerson().name)];
      mine.back.searchParams.set('code', other.back.searchParams.get('code') ?? '');
      expect(await arrive(mine.back)).toMatchObject({
        params: { error_description: expect.stringMatching(/^Unable to exchange external code/) },
      });
      expect(service.errors.splice(0)).toHaveLength(1);
    });

    test('without an e-mail address where one is required', async () => {
      const { back } = await callbackFor(newPerson({ email: undefined }).name);
      expect(await arrive(back)).toMatchObject({
        params: { error_description: 'Error getting user email from external provider' },
      });
    });

    test('for a banned user', async () => {
      const { name } = newPerson();
      const { data } = await signIn(name);
      await adminOf(service).updateUserById(data.user?.id ?? '', { ban_duration: '1h' });
      const { back } = await callbackFor(name);
      expect(await arrive(back)).toMatchObject({
        status: 302,
        params: { error: 'access_denied', error_code: 'user_banned', error_description: 'User is banned' },
      });
    });
  });

  describe('issues a code', () => {
    const codeFor = async (client: GoTrueClient) =>
      (await openBrowser().follow(await urlFor(client, newPerson().name), site)).searchParams.get('code') ??
      '';
    const exchange = async (body: Record<string, string>) => {
      const answer = await fetch(`${service.url}/token?grant_type=pkce`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      return { status: answer.status, ...(await answer.json()) };
    };

    test('that works once', async () => {
      const client = newClient();
      const code = await codeFor(client);
      expect((await client.exchangeCodeForSession(code)).error).toBeNull();
      expect(await exchange({ auth_code: code, code_verifier: 'v'.repeat(43) })).toEqual({
        status: 404,
        code: 404,
        error_code: 'flow_state_not_found',
        msg: 'invalid flow state, no valid flow state found',
      });
    });

    test('that no other client can exchange', async () => {
      const code = await codeFor(newClient());
      const thief = newClient();
      await urlFor(thief, 'cancel');
      const { error } = await thief.exchangeCodeForSession(code);
      expect(error).toMatchObject({
        status: 400,
        code: 'bad_code_verifier',
        message: 'code challenge does not match previously saved code verifier',
      });
    });

    test('that expires after five minutes', async () => {
      const client = newClient();
      const code = await codeFor(client);
      service.advance(301);
      const { error } = await client.exchangeCodeForSession(code);
      service.advance(-301);
      expect(error).toMatchObject({
        status: 422,
        code: 'flow_state_expired',
        message: 'invalid flow state, flow state has expired',
      });
    });

    test('that is exchanged only with its verifier', async () => {
      for (const body of [{ auth_code: 'x' }, { code_verifier: 'x' }, {}] as Record<string, string>[]) {
        expect(await exchange(body)).toMatchObject({
          status: 400,
          error_code: 'validation_failed',
          msg: 'invalid request: both auth code and code verifier should be non-empty',
        });
      }
      expect(await exchange({ auth_code: 'made up', code_verifier: 'x' })).toMatchObject({
        status: 404,
        error_code: 'flow_state_not_found',
      });
    });
  });

  describe('with an e-mail address', () => {
    const userByAddress = (email: string) =>
      adminOf(service)
        .createUser({ email, password, email_confirm: true })
        .then(({ data }) => data.user?.id);

    test('that is confirmed here signs in the same user', async () => {
      const { name, email } = newPerson();
      const id = await userByAddress(email);
      const { data } = await signIn(name);
      expect(data.user?.id).toBe(id);
      expect(data.user?.app_metadata).toEqual({ provider: 'email', providers: ['email', 'keycloak'] });
      const again = await newClient().signInWithPassword({ email, password });
      expect(again.error).toBeNull();
    });

    test('that was never confirmed here removes the password of the sign-up', async () => {
      const { name, email } = newPerson();
      const claimed = await newClient().signUp({
        email,
        password,
        options: { data: { nickname: 'the other' } },
      });
      const { data } = await signIn(name);
      expect(data.user?.id).toBe(claimed.data.user?.id);
      expect(data.user?.identities?.map(({ provider: one }) => one)).toEqual(['keycloak']);
      expect(data.user?.user_metadata).not.toHaveProperty('nickname');
      const { error } = await newClient().signInWithPassword({ email, password });
      expect(error).toMatchObject({ code: 'invalid_credentials' });
    });

    test('does not confirm another address of the account', async () => {
      const { name, email } = newPerson();
      const claimed = `claimed-by-${name}@mail.example`;
      const { data: made } = await adminOf(service).createUser({ email: claimed, password });
      await service.database.query(
        `insert into auth.identities (provider, provider_id, user_id, identity_data)
         values ('keycloak', $1, $2::uuid, '{}')`,
        [name, made.user?.id],
      );
      const { data } = await signIn(name);
      expect(data.user).toMatchObject({ id: made.user?.id, email, email_confirmed_at: expect.any(String) });
      const { error } = await newClient().signInWithPassword({ email: claimed, password });
      expect(error).toMatchObject({ code: 'invalid_credentials' });
    });

    test('that the provider has not verified requires confirmation first', async () => {
      const { name, email } = newPerson({ email_verified: false });
      const { back } = await callbackFor(name);
      expect(await arrive(back)).toMatchObject({
        status: 302,
        params: {
          error: 'access_denied',
          error_code: 'provider_email_needs_verification',
          error_description:
            'Unverified email with keycloak. A confirmation email has been sent to your keycloak email',
        },
      });
      const mail = service.mails.find(({ to }) => to === email);
      const { error } = await newClient('implicit').verifyOtp({
        email,
        token: mail?.code ?? '',
        type: 'signup',
      });
      expect(error).toBeNull();
      const { data } = await signIn(name);
      expect(data.user?.email).toBe(email);
    });

    test('that the provider has not verified does not sign in its user here', async () => {
      const { name, email } = newPerson({ email_verified: false });
      const id = await userByAddress(email);
      const { back } = await callbackFor(name);
      expect(await arrive(back)).toMatchObject({
        params: { error_code: 'provider_email_needs_verification' },
      });
      const { data } = await adminOf(service).getUserById(id ?? '');
      expect(data.user?.identities?.map(({ provider: one }) => one)).toEqual(['email']);
    });
  });

  describe('with an id token', () => {
    const nonce = 'only this client knows it';
    const hashed = createHash('sha256').update(nonce).digest('hex');
    const oauth = async (body: Record<string, unknown>) => {
      const answer = await fetch(`${service.url}/token?grant_type=id_token`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      return { status: answer.status, ...(await answer.json()) };
    };

    test('signs the user in, by provider name or by issuer', async () => {
      const { name, email } = newPerson();
      const token = await provider.idToken({ sub: name, email, email_verified: true, nonce: hashed });
      const { data, error } = await newClient().signInWithIdToken({ provider: 'keycloak', token, nonce });
      expect(error).toBeNull();
      expect(data.user).toMatchObject({ email, identities: [{ provider: 'keycloak', id: name }] });
      const other = await oauth({ id_token: token, nonce, issuer: provider.issuer, client_id: clientId });
      expect(other).toMatchObject({ status: 200, user: { id: data.user?.id } });
      const { data: byPage } = await signIn(name);
      expect(byPage.user?.id).toBe(data.user?.id);
    });

    test('checks issuer, audience, expiry, access token hash and nonce', async () => {
      const refused = async (claims: Record<string, unknown>, given: Record<string, unknown> = {}) => {
        const token = await provider.idToken({ sub: 'x', email: 'x@mail.example', ...claims });
        return oauth({ provider: 'keycloak', id_token: token, ...given });
      };
      const bad = (description: string) => ({
        status: 400,
        error: 'invalid request',
        error_description: description,
      });
      const both = bad('Passed nonce and nonce in id_token should either both exist or not.');
      expect(await refused({ aud: 'another audience' })).toEqual(
        bad('Unacceptable audience in id_token: [another audience]'),
      );
      expect(await refused({ exp: 1000 })).toEqual(bad('Bad ID token'));
      expect(await refused({ iss: 'https://evil.example' })).toEqual(bad('Bad ID token'));
      expect(await refused({}, { id_token: 'a.b.c' })).toEqual(bad('Bad ID token'));
      expect(await refused({ at_hash: 'x' }, { access_token: 'y' })).toEqual(bad('Bad ID token'));
      expect(await refused({ nonce: hashed })).toEqual(both);
      expect(await refused({}, { nonce })).toEqual(both);
      expect(await refused({ nonce: hashed }, { nonce: 'another' })).toEqual({
        status: 400,
        error: 'invalid nonce',
        error_description: 'Nonces mismatch',
      });
      expect(await oauth({ provider: 'keycloak' })).toEqual(bad('id_token required'));
      expect(await oauth({ id_token: 'x' })).toEqual(bad('provider or client_id and issuer required'));
    });

    test('rejects a provider that is not configured', async () => {
      expect(await oauth({ id_token: 'x', provider: 'gitlab' })).toEqual({
        status: 400,
        code: 400,
        error_code: 'provider_disabled',
        msg: 'Provider (issuer "https://gitlab.com") is not enabled',
      });
      expect(await oauth({ id_token: 'x', provider: 'unknown' })).toMatchObject({
        status: 400,
        error_code: 'validation_failed',
        msg: 'Custom OIDC provider "unknown" not allowed',
      });
    });

    test('links the identity to the signed-in user', async () => {
      const [mine, linked] = [newPerson(), newPerson()];
      const { client, data: before } = await signIn(mine.name);
      const token = await provider.idToken({ sub: linked.name, email: linked.email, email_verified: true });
      const { data, error } = await client.linkIdentity({ provider: 'keycloak', token });
      expect(error).toBeNull();
      expect(data).toMatchObject({ user: { id: before.user?.id } });
      expect((await client.getUserIdentities()).data?.identities).toHaveLength(2);
      const anonymous = await oauth({ id_token: token, provider: 'keycloak', link_identity: true });
      expect(anonymous).toMatchObject({
        error_description: 'Linking requires a valid user access token in Authorization',
      });
    });
  });

  describe('links an identity', () => {
    let client: GoTrueClient;
    let email: string;

    beforeEach(async () => {
      count += 1;
      email = `linker-${count}@mail.example`;
      await adminOf(service).createUser({ email, password, email_confirm: true });
      client = newClient();
      await client.signInWithPassword({ email, password });
    });

    async function link(name: string) {
      const { data, error } = await client.linkIdentity({
        provider: 'keycloak',
        options: { redirectTo: place, skipBrowserRedirect: true, queryParams: { login_hint: name } },
      });
      expect(error).toBeNull();
      return openBrowser().follow(data.url ?? '', site);
    }
    const identities = async () => (await client.getUserIdentities()).data?.identities ?? [];

    test('to the signed-in user, who can unlink it again', async () => {
      const { name } = newPerson();
      const back = await link(name);
      const { error } = await client.exchangeCodeForSession(back.searchParams.get('code') ?? '');
      expect(error).toBeNull();
      const both = await identities();
      expect(both.map((one) => one.provider)).toEqual(['email', 'keycloak']);
      expect((await client.getUser()).data.user?.email).toBe(email);

      const [own, linked] = both;
      if (!own || !linked) throw new Error('there are not two');
      expect((await client.unlinkIdentity(linked)).error).toBeNull();
      expect((await identities()).map((one) => one.provider)).toEqual(['email']);
      expect((await client.getUser()).data.user?.app_metadata.providers).toEqual(['email']);
      expect((await client.unlinkIdentity(own)).error).toMatchObject({
        status: 422,
        code: 'single_identity_not_deletable',
        message: 'User must have at least 1 identity after unlinking',
      });
    });

    test('whose address becomes the account address when the other identity is unlinked', async () => {
      const person = newPerson();
      await link(person.name);
      const [own] = await identities();
      if (!own) throw new Error('there is none');
      expect((await client.unlinkIdentity(own)).error).toBeNull();
      expect((await client.getUser()).data.user).toMatchObject({
        email: person.email,
        email_confirmed_at: expect.any(String),
        app_metadata: { provider: 'keycloak', providers: ['keycloak'] },
      });
    });

    test('once, and to one user only', async () => {
      const { name } = newPerson();
      await signIn(name);
      const back = await link(name);
      expect(Object.fromEntries(back.searchParams)).toMatchObject({
        error_code: 'identity_already_exists',
        error_description: 'Identity is already linked to another user',
      });
      const own = newPerson();
      await link(own.name);
      expect(Object.fromEntries((await link(own.name)).searchParams)).toMatchObject({
        error_code: 'identity_already_exists',
        error_description: 'Identity is already linked',
      });
    });

    test('to an anonymous user, who becomes permanent', async () => {
      const anonymous = newClient();
      const { data: before } = await anonymous.signInAnonymously();
      client = anonymous;
      const person = newPerson();
      const back = await link(person.name);
      const { data } = await anonymous.exchangeCodeForSession(back.searchParams.get('code') ?? '');
      expect(data.user).toMatchObject({
        id: before.user?.id,
        is_anonymous: false,
        email: person.email,
        app_metadata: { provider: 'keycloak' },
      });
    });

    test('that no other user can unlink', async () => {
      await link(newPerson().name);
      const other = await signIn(newPerson().name);
      const [foreign] = other.data.user?.identities ?? [];
      if (!foreign) throw new Error('there is none');
      expect((await client.unlinkIdentity(foreign)).error).toMatchObject({
        status: 422,
        code: 'identity_not_found',
        message: "Identity doesn't exist",
      });
      expect((await client.unlinkIdentity({ ...foreign, identity_id: 'abc' })).error).toMatchObject({
        status: 404,
        code: 'validation_failed',
      });
    });
  });
});

describe('with minimal settings', () => {
  let service: OpenAuthService;
  let provider: OpenIdProvider;
  beforeAll(async () => {
    provider = await openOpenIdProvider();
    service = await openAuthService('pglite', {
      siteUrl: site,
      isSignupOpen: false,
      external: {
        keycloak: { clientId, secret: clientSecret, issuer: provider.issuer, allowsInsecureRequests: true },
      },
    });
    provider.register(`${service.url}/callback`);
  });
  afterAll(async () => {
    await Promise.all([provider.close(), service.close()]);
  });

  test('a provider signs up no new users', async () => {
    provider.people.set('new', { email: 'new@mail.example', email_verified: true });
    const { data } = await clientOf(service).signInWithOAuth({
      provider: 'keycloak',
      options: { skipBrowserRedirect: true, queryParams: { login_hint: 'new' } },
    });
    const back = await openBrowser().follow(data.url ?? '', site);
    expect(Object.fromEntries(back.searchParams)).toEqual({
      error: 'access_denied',
      error_code: 'signup_disabled',
      error_description: 'Signups not allowed for this instance',
    });
    const token = await provider.idToken({ sub: 'new', email: 'new@mail.example', email_verified: true });
    const { error } = await clientOf(service).signInWithIdToken({ provider: 'keycloak', token });
    expect(error).toMatchObject({ status: 422, code: 'signup_disabled' });
  });

  test('identities cannot be linked or unlinked', async () => {
    await adminOf(service).createUser({ email: 'me@mail.example', password, email_confirm: true });
    const client = clientOf(service);
    const { data } = await client.signInWithPassword({ email: 'me@mail.example', password });
    const off = { status: 404, code: 'manual_linking_disabled', message: 'Manual linking is disabled' };
    const [identity] = data.user?.identities ?? [];
    if (!identity) throw new Error('there is none');
    const linking = await client.linkIdentity({
      provider: 'keycloak',
      options: { skipBrowserRedirect: true },
    });
    expect(linking.error).toMatchObject(off);
    expect((await client.unlinkIdentity(identity)).error).toMatchObject(off);
  });

  test('wallets cannot sign in', async () => {
    const { error } = await clientOf(service).signInWithWeb3({
      chain: 'ethereum',
      message: 'x',
      signature: '0x',
    });
    expect(error).toMatchObject({ status: 422, message: 'Web3 provider is disabled' });
  });
});
