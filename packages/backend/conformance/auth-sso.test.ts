// Single sign-on with SAML 2.0, through the official client.
import { decodeJwt } from 'jose';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type OpenAuthService, openAuthService } from '../testing/open-auth-service.ts';
import { testDatabases } from '../testing/throwaway.ts';
import { adminOf, clientOf, password } from './auth-client.ts';
import { type Answer, type SamlIdentityProvider, samlIdentityProvider } from './saml-identity-provider.ts';
import { strangersKey } from './saml-test-keys.ts';

const site = 'https://shop.example';
const place = `${site}/welcome`;
const entityId = 'https://idp.company.example';

describe.each(testDatabases())('single sign-on on %s', (kind) => {
  let service: OpenAuthService;
  let company: SamlIdentityProvider;
  let stranger: SamlIdentityProvider;
  let providerId: string;

  beforeAll(async () => {
    service = await openAuthService(kind, {
      siteUrl: site,
      autoconfirmsEmail: false,
      saml: { isEnabled: true },
    });
    const metadata = await (await fetch(`${service.url}/sso/saml/metadata`)).text();
    company = samlIdentityProvider(entityId, metadata);
    stranger = samlIdentityProvider(entityId, metadata, strangersKey);
    const { status, body } = await administer('POST', '', {
      type: 'saml',
      metadata_xml: company.metadata,
      domains: ['company.example', 'Company.Test'],
      attribute_mapping: {
        keys: { department: { name: 'dept', default: 'none' }, groups: { names: ['group'], array: true } },
      },
    });
    expect(status).toBe(201);
    providerId = body.id;
  });
  afterEach(() => {
    expect(service.errors.splice(0)).toEqual([]);
  });
  afterAll(() => service.close());

  async function administer(method: string, path: string, body?: unknown, key = service.keys.secret) {
    const answer = await fetch(`${service.url}/admin/sso/providers${path}`, {
      method,
      headers: { apikey: key, authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: answer.status, body: await answer.json() };
  }

  const newClient = (flowType: 'pkce' | 'implicit' = 'pkce') => clientOf(service, flowType);

  async function requestUrl(client = newClient()) {
    const { data, error } = await client.signInWithSSO({
      domain: 'company.example',
      options: { redirectTo: place, skipBrowserRedirect: true },
    });
    expect(error).toBeNull();
    return data?.url ?? '';
  }

  async function post(form: Record<string, string>) {
    const answer = await fetch(`${service.url}/sso/saml/acs`, {
      method: 'POST',
      redirect: 'manual',
      body: new URLSearchParams(form),
    });
    const to = new URL(answer.headers.get('location') ?? 'none:');
    return { status: answer.status, to, params: Object.fromEntries(to.searchParams) };
  }

  const jo = { nameId: 'jo', attributes: { mail: 'jo@company.example' } };

  async function signIn(answer: Answer = jo) {
    const client = newClient();
    const { to } = await post(await company.answer(await requestUrl(client), answer));
    return { to, client, ...(await client.exchangeCodeForSession(to.searchParams.get('code') ?? '')) };
  }

  /** The error for a changed SAML response. */
  async function tampered(change: (xml: string) => string, answer: Answer = jo) {
    const form = await company.answer(await requestUrl(), answer);
    const xml = Buffer.from(form.SAMLResponse, 'base64').toString();
    const changed = change(xml);
    expect(changed).not.toBe(xml);
    return post({ ...form, SAMLResponse: Buffer.from(changed).toString('base64') });
  }

  const refused = {
    status: 303,
    to: expect.objectContaining({ origin: site, pathname: '/' }),
    params: {
      error: 'invalid_request',
      error_code: 'validation_failed',
      error_description: expect.stringMatching(/^SAML Assertion is not valid/),
    },
  };

  test('signs in a user of a configured provider', async () => {
    const sessionEnd = new Date(Date.now() + 3_600_000);
    const { to, data, error } = await signIn({
      ...jo,
      sessionEnd,
      attributes: { ...jo.attributes, group: 'sales', secret: 'not mapped' },
    });
    expect(error).toBeNull();
    expect(to.href.startsWith(`${place}?code=`)).toBe(true);
    expect(data.user).toMatchObject({
      email: 'jo@company.example',
      email_confirmed_at: expect.any(String),
      app_metadata: { provider: `sso:${providerId}`, providers: [`sso:${providerId}`] },
      user_metadata: { iss: entityId, sub: 'jo', custom_claims: { department: 'none', groups: ['sales'] } },
    });
    expect(JSON.stringify(data.user)).not.toContain('not mapped');
    expect(decodeJwt(data.session?.access_token ?? '')).toMatchObject({
      aal: 'aal1',
      amr: [{ method: 'sso/saml', provider: providerId }],
    });
    const { rows } = await service.database.query<{ not_after: string }>(
      'select not_after from auth.sessions where user_id = $1::uuid',
      [data.user?.id],
    );
    expect(rows.map((row) => new Date(row.not_after))).toEqual([sessionEnd]);
    const again = await signIn();
    expect(again.data.user?.id).toBe(data.user?.id);
  });

  test('returns tokens in the fragment in the implicit flow', async () => {
    const client = newClient('implicit');
    const { status, to } = await post(await company.answer(await requestUrl(client), jo));
    const params = new URLSearchParams(to.hash.slice(1));
    expect([status, params.get('token_type')]).toEqual([302, 'bearer']);
    const { data } = await client.getUser(params.get('access_token') ?? '');
    expect(data.user?.email).toBe('jo@company.example');
  });

  test('works by provider id, and redirects unless the client skips it', async () => {
    const { data } = await newClient().signInWithSSO({ providerId, options: { skipBrowserRedirect: true } });
    expect(data?.url).toMatch(/^https:\/\/idp\.company\.example\/sign-in\?SAMLRequest=/);
    const answer = await fetch(`${service.url}/sso`, {
      method: 'POST',
      redirect: 'manual',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ domain: 'company.test' }),
    });
    expect([answer.status, answer.headers.get('location')?.startsWith(`${entityId}/sign-in?`)]).toEqual([
      303,
      true,
    ]);
  });

  test('accepts a response that the provider initiated, once', async () => {
    const form = await company.answer(`${entityId}/start`, { ...jo, nameId: 'unasked' });
    const first = await post({ ...form, RelayState: `${site}/from-company` });
    expect(first.to.href.startsWith(`${site}/from-company#access_token=`)).toBe(true);
    expect(await post({ ...form, RelayState: `${site}/from-company` })).toMatchObject(refused);
    const elsewhere = await company.answer(`${entityId}/start`, { ...jo, nameId: 'unasked' });
    expect((await post({ ...elsewhere, RelayState: 'https://evil.example/' })).to.origin).toBe(site);
  });

  test('separates SSO users from users with the same e-mail address', async () => {
    const email = 'both@company.example';
    const { data: own } = await adminOf(service).createUser({ email, password, email_confirm: true });
    const { data } = await signIn({ nameId: 'both', attributes: { mail: email } });
    expect(data.user?.email).toBe(email);
    expect(data.user?.id).not.toBe(own.user?.id);
  });

  describe('rejects', () => {
    test('a replayed response', async () => {
      const form = await company.answer(await requestUrl(), jo);
      expect((await post(form)).status).toBe(302);
      expect(await post(form)).toMatchObject({
        status: 303,
        params: { error_code: 'saml_relay_state_not_found' },
      });
      const other = new URL(await requestUrl()).searchParams.get('RelayState') ?? '';
      expect(await post({ ...form, RelayState: other })).toMatchObject(refused);
    });

    test('an expired response', async () => {
      const form = await company.answer(await requestUrl(), jo);
      service.advance(601);
      expect(await post(form)).toMatchObject({
        status: 303,
        params: { error_code: 'saml_relay_state_expired' },
      });
      service.advance(-601);
    });

    test.each<[string, Answer]>([
      ['meant for another service', { audience: 'https://other.example' }],
      ['with another recipient', { recipient: 'https://other.example/acs' }],
      ['of another issuer', { issuer: 'https://evil.example' }],
      ['that has expired', { start: -20, end: -10 }],
      ['that is not valid yet', { start: 10, end: 20 }],
      ['to another request', { inResponseTo: '_another' }],
      ['to no request, under the state of one', { inResponseTo: null }],
      ['with a signature around the assertion only', { signed: 'response only' }],
    ])('an answer %s', async (_, change) => {
      const form = await company.answer(await requestUrl(), { ...jo, ...change });
      expect(await post(form)).toMatchObject(refused);
    });

    test('an unsigned response, or one with another key', async () => {
      const unsigned = (xml: string) => xml.replace(/<ds:Signature.*<\/ds:Signature>/s, '');
      expect(await tampered(unsigned)).toMatchObject(refused);
      const form = await stranger.answer(await requestUrl(), jo);
      expect(await post(form)).toMatchObject(refused);
    });

    test('a response that was changed after signing', async () => {
      expect(await tampered((xml) => xml.replace('jo@company', 'boss@company'))).toMatchObject(refused);
      expect(await tampered((xml) => xml.replace('>jo<', '>boss<'))).toMatchObject(refused);
    });

    describe('a forged assertion around a signed one:', () => {
      const assertion = (xml: string) => /<saml:Assertion.*<\/saml:Assertion>/s.exec(xml)?.[0] ?? '';
      const signature = (xml: string) => /<ds:Signature.*<\/ds:Signature>/s.exec(xml)?.[0] ?? '';
      const forge = (signed: string, id: string) =>
        signed
          .replace(/<ds:Signature.*<\/ds:Signature>/s, '')
          .replace(/(<saml:Assertion[^>]* ID=")[^"]+/, `$1${id}`)
          .replaceAll('jo@company', 'boss@company')
          .replace('>jo<', '>boss<');

      test.each<[string, (xml: string) => string]>([
        [
          'before it',
          (xml) => xml.replace(assertion(xml), forge(assertion(xml), '_forged') + assertion(xml)),
        ],
        ['after it', (xml) => xml.replace(assertion(xml), assertion(xml) + forge(assertion(xml), '_forged'))],
        [
          'with the signed one in an extension',
          (xml) =>
            xml
              .replace(assertion(xml), forge(assertion(xml), '_forged'))
              .replace(
                '<samlp:Status>',
                `<samlp:Extensions>${assertion(xml)}</samlp:Extensions><samlp:Status>`,
              ),
        ],
        [
          'with the signature of the signed one, which contains the signed one',
          (xml) => {
            const original = assertion(xml).replace(signature(xml), '');
            const carrying = signature(xml).replace(
              '</ds:Signature>',
              `<ds:Object>${original}</ds:Object></ds:Signature>`,
            );
            const forged = forge(assertion(xml), '_forged').replace(
              '</saml:Issuer>',
              `</saml:Issuer>${carrying}`,
            );
            return xml.replace(assertion(xml), forged);
          },
        ],
        [
          'under the same id',
          (xml) => {
            const id = / ID="([^"]+)"/.exec(assertion(xml))?.[1] ?? '';
            const forged = forge(assertion(xml), id).replace(
              '</saml:Issuer>',
              `</saml:Issuer>${signature(xml)}`,
            );
            return xml
              .replace(assertion(xml), forged)
              .replace(
                '<samlp:Status>',
                `<samlp:Extensions>${assertion(xml)}</samlp:Extensions><samlp:Status>`,
              );
          },
        ],
        [
          'as the response around the response',
          (xml) => {
            const outer = xml.replace(assertion(xml), forge(assertion(xml), '_forged'));
            return outer.replace('<samlp:Status>', `${xml}<samlp:Status>`);
          },
        ],
      ])('%s', async (_, change) => {
        expect(await tampered(change)).toMatchObject(refused);
      });
    });

    test('a name that is split by a comment', async () => {
      const split = (xml: string) =>
        xml.replace('boss.jo@company.example', 'boss<!-- -->.jo@company.example');
      const { to } = await tampered(split, {
        nameId: 'boss.jo@company.example',
        attributes: { mail: 'j@company.example' },
      });
      const { rows } = await service.database.query<{ provider_id: string }>(
        `select provider_id from auth.identities where provider_id like 'boss%'`,
      );
      expect(rows.map((row) => row.provider_id).filter((id) => id !== 'boss.jo@company.example')).toEqual([]);
      expect(to.origin).toBe(site);
    });

    test('entities, and malformed XML', async () => {
      const form = await company.answer(await requestUrl(), jo);
      const bomb = `<!DOCTYPE r [<!ENTITY a "aaaa">]><r>&a;</r>`;
      for (const xml of [bomb, 'hello', '']) {
        const RelayState = new URL(await requestUrl()).searchParams.get('RelayState') ?? '';
        const SAMLResponse = Buffer.from(xml).toString('base64');
        expect(await post({ ...form, RelayState, SAMLResponse })).toMatchObject({
          status: 303,
          params: { error_code: 'validation_failed' },
        });
      }
    });

    test('a document that is costly to parse', async () => {
      const issuer = `<a:Issuer>${entityId}</a:Issuer>`;
      const endless = [`<r>${issuer}${'<a>'.repeat(20_000)}`, `<r><a:Issuer>a${' '.repeat(300_000)}`];
      for (const xml of endless) {
        const form = { RelayState: '', SAMLResponse: Buffer.from(xml).toString('base64') };
        expect(await post(form)).toMatchObject({
          status: 303,
          params: { error_description: 'SAMLResponse is too large' },
        });
      }
      // A document of the maximum length, with an unterminated issuer.
      const form = {
        RelayState: '',
        SAMLResponse: Buffer.from(`<a:Issuer>a${' '.repeat(260_000)}`).toString('base64'),
      };
      expect(await post(form)).toMatchObject({ params: { error_code: 'validation_failed' } });
    });

    test('a user without a persistent NameID or an e-mail address', async () => {
      const transient = 'urn:oasis:names:tc:SAML:2.0:nameid-format:transient';
      const nameless = await company.answer(await requestUrl(), { ...jo, nameIdFormat: transient });
      expect(await post(nameless)).toMatchObject({ params: { error_code: 'saml_assertion_no_user_id' } });
      const withoutMail = await company.answer(await requestUrl(), { nameId: 'jo' });
      expect(await post(withoutMail)).toMatchObject({ params: { error_code: 'saml_assertion_no_email' } });
    });

    test('a malformed state, an unknown provider, and a request without a provider', async () => {
      const form = await company.answer(`${entityId}/start`, jo);
      expect(await post({ ...form, RelayState: 'odd' })).toMatchObject({
        params: { error_description: 'SAML RelayState is not a valid UUID or URL' },
      });
      const unknown = await company.answer(`${entityId}/start`, { ...jo, issuer: 'https://unknown.example' });
      expect(await post({ ...unknown, RelayState: '' })).toMatchObject({
        params: { error_code: 'saml_idp_not_found' },
      });
      const { error } = await newClient().signInWithSSO({ domain: 'unknown.example' });
      expect(error).toMatchObject({ status: 404, code: 'sso_provider_not_found' });
      for (const body of [{}, { domain: 'company.example', provider_id: providerId }]) {
        const answer = await fetch(`${service.url}/sso`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(body),
        });
        expect([answer.status, (await answer.json()).error_code]).toEqual([400, 'validation_failed']);
      }
    });
  });

  describe('is configured', () => {
    test('with the secret key only', async () => {
      expect(await administer('GET', '', undefined, service.keys.publishable)).toMatchObject({
        status: 403,
        body: { error_code: 'not_admin' },
      });
    });

    test('listed, read, changed, disabled and deleted', async () => {
      const metadata = company.metadata.replaceAll(entityId, 'https://second.example');
      const made = await administer('POST', '', {
        type: 'saml',
        metadata_xml: metadata,
        resource_id: 'second',
      });
      expect(made.body).toMatchObject({
        resource_id: 'second',
        disabled: false,
        saml: { entity_id: 'https://second.example' },
        domains: [],
      });
      const list = await administer('GET', '');
      expect(list.body.items.map(({ id }: { id: string }) => id)).toEqual([providerId, made.body.id]);
      expect(list.body.items[0].saml).not.toHaveProperty('metadata_xml');
      const changed = await administer('PUT', '/resource_second', {
        disabled: true,
        domains: ['second.example'],
      });
      expect(changed.body).toMatchObject({ disabled: true, domains: [{ domain: 'second.example' }] });
      expect((await newClient().signInWithSSO({ domain: 'second.example' })).error).toMatchObject({
        status: 404,
        code: 'sso_provider_disabled',
      });
      expect((await administer('DELETE', `/${made.body.id}`)).status).toBe(200);
      expect(await administer('GET', `/${made.body.id}`)).toMatchObject({
        status: 404,
        body: { error_code: 'sso_provider_not_found' },
      });
    });

    test.each<[string, (xml: string) => Record<string, unknown>, number, string]>([
      ['another type', () => ({ type: 'ldap' }), 400, 'validation_failed'],
      ['no metadata', () => ({ type: 'saml' }), 400, 'validation_failed'],
      [
        'metadata twice',
        (xml) => ({ metadata_xml: xml, metadata_url: 'https://a.example' }),
        400,
        'validation_failed',
      ],
      ['metadata by plain http', () => ({ metadata_url: 'http://a.example' }), 400, 'validation_failed'],
      ['XML that is not metadata', () => ({ metadata_xml: '<a/>' }), 400, 'validation_failed'],
      ['malformed XML', () => ({ metadata_xml: 'hello' }), 400, 'validation_failed'],
      ['entities', (xml) => ({ metadata_xml: `<!DOCTYPE a []>${xml}` }), 400, 'validation_failed'],
      ['a provider that exists', (xml) => ({ metadata_xml: xml }), 422, 'saml_idp_already_exists'],
      [
        'a domain of another',
        (xml) => ({
          metadata_xml: xml.replaceAll(entityId, 'https://third.example'),
          domains: ['COMPANY.example'],
        }),
        400,
        'sso_domain_already_exists',
      ],
    ])('not with %s', async (_, body, status, code) => {
      const answer = await administer('POST', '', { type: 'saml', ...body(company.metadata) });
      expect([answer.status, answer.body.error_code]).toEqual([status, code]);
    });

    test('not under another entity id', async () => {
      const metadata_xml = company.metadata.replaceAll(entityId, 'https://other.example');
      expect(await administer('PUT', `/${providerId}`, { metadata_xml })).toMatchObject({
        status: 400,
        body: { error_code: 'saml_entity_id_mismatch' },
      });
    });
  });
});

test('single sign-on is not found when disabled', async () => {
  const service = await openAuthService('pglite', { siteUrl: site });
  const off = { status: 404, code: 'saml_provider_disabled', message: 'SAML 2.0 is disabled' };
  expect((await clientOf(service).signInWithSSO({ domain: 'company.example' })).error).toMatchObject(off);
  expect((await fetch(`${service.url}/sso/saml/metadata`)).status).toBe(404);
  await service.close();
});
