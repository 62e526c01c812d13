import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exportJWK, generateKeyPair, jwtVerify, SignJWT } from 'jose';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { publishedKeys } from './providers/id-token.ts';
import { createPublicFetch, isPublicAddress, PrivateAddress, publicFetch } from './public-fetch.ts';

let server: Server;
let port: number;
let ca: string;
let requests: string[] = [];
let respond: (request: IncomingMessage, response: ServerResponse) => void = (_, response) =>
  response.end('ok');

beforeAll(async () => {
  const folder = mkdtempSync(join(tmpdir(), 'jani-tls-'));
  const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')];
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'],
      ...['-keyout', key, '-out', certificate, '-subj', '/CN=provider.example'],
      ...['-addext', 'subjectAltName=DNS:provider.example,IP:127.0.0.1'],
    ],
    { stdio: 'ignore' },
  );
  ca = readFileSync(certificate, 'utf8');
  server = createServer({ key: readFileSync(key), cert: ca }, (request, response) => {
    requests.push(request.url ?? '');
    respond(request, response);
  });
  rmSync(folder, { recursive: true });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  port = (server.address() as AddressInfo).port;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  requests = [];
  respond = (_, response) => response.end('ok');
});

const isLoopback = (address: string) => address === '127.0.0.1';
const resolveTo =
  (...addresses: string[]) =>
  async () =>
    addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
const cause = (attempt: Promise<unknown>) =>
  attempt.then(
    () => 'no error',
    (error: Error) => error.cause,
  );

test.each(['8.8.8.8', '197.248.0.1', '2606:4700:4700::1111', '2c0f:fe38::1', '::ffff:8.8.8.8'])(
  '%s is public',
  (address) => expect(isPublicAddress(address)).toBe(true),
);

test.each([
  '127.0.0.1',
  '127.9.9.9',
  '0.0.0.0',
  '10.0.0.1',
  '172.16.0.1',
  '172.31.255.255',
  '192.168.1.1',
  '169.254.169.254',
  '100.64.0.1',
  '192.0.0.1',
  '198.18.0.1',
  '203.0.113.1',
  '224.0.0.1',
  '255.255.255.255',
  '::',
  '::1',
  '::127.0.0.1',
  '::ffff:127.0.0.1',
  '::ffff:7f00:1',
  '64:ff9b::7f00:1',
  '2002:7f00:1::',
  '2001::1',
  '2001:db8::1',
  'fe80::1',
  'fe80::1%eth0',
  'fc00::1',
  'fd00:ec2::254',
  'fec0::1',
  'ff02::1',
  'localhost',
  '',
])('%s is not', (address) => expect(isPublicAddress(address)).toBe(false));

test.each([
  'https://127.0.0.1',
  'https://[::1]',
  'https://[::ffff:127.0.0.1]',
  'https://2130706433',
  'https://0x7f.1',
  'https://localhost',
])('does not connect to %s', async (origin) => {
  expect(await cause(publicFetch(`${origin}:${port}/metadata`))).toBeInstanceOf(PrivateAddress);
  expect(requests).toEqual([]);
});

test('connects to a name whose addresses are all allowed', async () => {
  const fetchUrl = createPublicFetch({ isAllowed: isLoopback, resolve: resolveTo('127.0.0.1'), ca });
  const answer = await fetchUrl(`https://provider.example:${port}/metadata`);
  expect([answer.status, await answer.text(), requests]).toEqual([200, 'ok', ['/metadata']]);
});

test('rejects a name with one address that is not allowed', async () => {
  const fetchUrl = createPublicFetch({
    isAllowed: isLoopback,
    resolve: resolveTo('127.0.0.1', '10.0.0.1'),
    ca,
  });
  expect(await cause(fetchUrl(`https://provider.example:${port}/`))).toBeInstanceOf(PrivateAddress);
  expect(requests).toEqual([]);
});

test('resolves a name once per connection, so that it cannot change after the check', async () => {
  let lookups = 0;
  const fetchUrl = createPublicFetch({
    isAllowed: isLoopback,
    resolve: async () => {
      lookups += 1;
      return [{ address: lookups === 1 ? '127.0.0.1' : '10.0.0.1', family: 4 }];
    },
    ca,
  });
  expect((await fetchUrl(`https://provider.example:${port}/`)).status).toBe(200);
  expect(lookups).toBe(1);
});

test('follows redirects to allowed https addresses only', async () => {
  const fetchUrl = createPublicFetch({ isAllowed: isLoopback, resolve: resolveTo('127.0.0.1'), ca });
  let target = '';
  respond = (request, response) => {
    if (request.url !== '/start') return response.end('arrived');
    return response.writeHead(302, { location: target }).end();
  };
  target = `https://127.0.0.1:${port}/end`;
  expect(await (await fetchUrl(`https://provider.example:${port}/start`)).text()).toBe('arrived');
  for (target of [`https://127.0.0.2:${port}/end`, `https://[::1]:${port}/end`]) {
    expect(await cause(fetchUrl(`https://provider.example:${port}/start`))).toBeInstanceOf(PrivateAddress);
  }
  target = `http://127.0.0.1:${port}/end`;
  expect(String(await cause(fetchUrl(`https://provider.example:${port}/start`)))).toContain('is not https:');
  expect(requests).toEqual(['/start', '/end', '/start', '/start', '/start']);
});

test('rejects a response of more than 1 MiB', async () => {
  const fetchUrl = createPublicFetch({ isAllowed: isLoopback, resolve: resolveTo('127.0.0.1'), ca });
  respond = (_, response) => response.end(Buffer.alloc(1_100_000));
  const answer = await fetchUrl(`https://provider.example:${port}/`);
  await expect(answer.text()).rejects.toThrow();
});

test('works with the OpenID client and the key set client', async () => {
  const { privateKey, publicKey } = await generateKeyPair('ES256');
  const issuer = `https://provider.example:${port}`;
  const documents: Record<string, unknown> = {
    '/.well-known/openid-configuration': {
      issuer,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/token`,
      jwks_uri: `${issuer}/keys`,
    },
    '/keys': { keys: [{ ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256' }] },
    '/me': { sub: 'someone' },
  };
  respond = (request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(documents[request.url ?? '']));
  };
  const fetchUrl = createPublicFetch({ isAllowed: isLoopback, resolve: resolveTo('127.0.0.1'), ca });
  const client = await import('openid-client');
  const configuration = await client.discovery(new URL(issuer), 'shop', undefined, client.None(), {
    [client.customFetch]: fetchUrl,
  });
  expect(configuration.serverMetadata().token_endpoint).toBe(`${issuer}/token`);
  const answer = await client.fetchProtectedResource(configuration, 'token', new URL(`${issuer}/me`), 'GET');
  expect(await answer.json()).toEqual({ sub: 'someone' });
  const token = await new SignJWT({ sub: 'someone' })
    .setProtectedHeader({ alg: 'ES256', kid: 'one' })
    .sign(privateKey);
  const { payload } = await jwtVerify(token, publishedKeys(`${issuer}/keys`, fetchUrl));
  expect(payload.sub).toBe('someone');
});
