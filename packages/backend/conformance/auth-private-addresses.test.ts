// Identity providers at private IP addresses: the service connects to them only if a setting allows it.
import { type AddressInfo, createServer, type Server } from 'node:net';
import { generateKeyPair, SignJWT } from 'jose';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import type { ExternalProvider } from '../auth/settings.ts';
import { type OpenAuthService, openAuthService } from '../testing/open-auth-service.ts';
import { post } from './auth-client.ts';

let listener: Server;
let connections = 0;
let origin: string;
let careful: OpenAuthService;
let trusting: OpenAuthService;

beforeAll(async () => {
  listener = createServer((socket) => {
    connections += 1;
    socket.destroy();
  });
  await new Promise<void>((done) => listener.listen(0, '127.0.0.1', done));
  origin = `https://127.0.0.1:${(listener.address() as AddressInfo).port}`;
  const withKeys: ExternalProvider = {
    clientId: 'shop',
    issuer: origin,
    authorizationUrl: `${origin}/authorize`,
    tokenUrl: `${origin}/token`,
    jwksUrl: `${origin}/keys`,
  };
  const providers = (allowed: object) => ({
    keycloak: { clientId: 'shop', issuer: origin, ...allowed },
    google: { ...withKeys, ...allowed },
  });
  careful = await openAuthService('pglite', { saml: { isEnabled: true }, external: providers({}) });
  trusting = await careful.alongside({
    saml: { isEnabled: true, allowsPrivateAddresses: true },
    external: providers({ allowsInsecureRequests: true }),
  });
});
beforeEach(() => {
  connections = 0;
});
afterEach(() => {
  for (const { errors } of [careful, trusting]) errors.length = 0;
});
afterAll(async () => {
  await trusting.close();
  await careful.close();
  listener.close();
});

const addCompany = async (service: OpenAuthService, metadataUrl: string) => {
  const headers = { authorization: `Bearer ${service.keys.secret}` };
  const body = { type: 'saml', metadata_url: metadataUrl };
  return (await (await post(service, '/admin/sso/providers', body, headers)).json()).error_code;
};
const authorize = async (service: OpenAuthService) =>
  (await fetch(`${service.url}/authorize?provider=keycloak`, { redirect: 'manual' })).status;
const handInIdToken = async (service: OpenAuthService) => {
  const { privateKey } = await generateKeyPair('ES256');
  const token = await new SignJWT({ sub: 'someone' })
    .setProtectedHeader({ alg: 'ES256', kid: 'one' })
    .setIssuer(origin)
    .setAudience('shop')
    .setExpirationTime('1h')
    .sign(privateKey);
  const body = { provider: 'google', id_token: token };
  return (await post(service, '/token?grant_type=id_token', body)).status;
};

test('SAML metadata is not fetched from a private IP address', async () => {
  const { port } = new URL(origin);
  for (const host of ['127.0.0.1', 'localhost', '[::ffff:127.0.0.1]', '2130706433']) {
    expect(await addCompany(careful, `https://${host}:${port}/metadata`)).toBe('saml_metadata_fetch_failed');
  }
  expect(connections).toBe(0);
  await addCompany(trusting, `${origin}/metadata`);
  expect(connections, 'where the setting allows it').toBe(1);
});

test('OpenID discovery is not fetched from a private IP address', async () => {
  expect([await authorize(careful), connections]).toEqual([500, 0]);
  await authorize(trusting);
  expect(connections, 'where the setting allows it').toBe(1);
});

test('JWKS are not fetched from a private IP address', async () => {
  expect([await handInIdToken(careful), connections]).toEqual([400, 0]);
  await handInIdToken(trusting);
  expect(connections, 'where the setting allows it').toBe(1);
});
