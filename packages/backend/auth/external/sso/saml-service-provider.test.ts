// Our SAML metadata and requests, and how attributes are mapped.
import { createVerify, generateKeyPairSync } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { completeSettings } from '../../settings.ts';
import { mapAttributes, ownMetadata, requestUrl } from './saml-service-provider.ts';

const provider = {
  entityId: 'https://idp.example',
  entryPoint: 'https://idp.example/sign-in?tenant=1',
  certificates: ['AAAA'],
  nameIdFormat: null,
};
const contextWith = (privateKey: string | null, externalUrl: string | null = null) => ({
  settings: completeSettings({
    externalUrl: 'https://shop.example/auth/v1',
    siteUrl: 'https://shop.example',
    saml: { isEnabled: true, privateKey, externalUrl },
  }),
});
const { privateKey, publicKey } = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  publicKeyEncoding: { type: 'spki', format: 'pem' },
});

describe('our requests', () => {
  test('carry the relay state to the provider beside its own parameters', async () => {
    const url = new URL(await requestUrl(contextWith(null), provider, { id: '_1', relayState: 'state' }));
    expect([url.origin, url.searchParams.get('tenant'), url.searchParams.get('RelayState')]).toEqual([
      'https://idp.example',
      '1',
      'state',
    ]);
    expect(url.searchParams.has('Signature')).toBe(false);
  });

  test('are signed when there is a key', async () => {
    const url = await requestUrl(contextWith(privateKey), provider, { id: '_1', relayState: 'state' });
    const signed = /SAMLRequest=.*&SigAlg=[^&]*/.exec(url)?.[0] ?? '';
    const verify = createVerify('RSA-SHA256').update(signed);
    expect(verify.verify(publicKey, new URL(url).searchParams.get('Signature') ?? '', 'base64')).toBe(true);
  });
});

describe('our metadata', () => {
  test('names our URLs and requires signed assertions', async () => {
    const metadata = await ownMetadata(contextWith(privateKey));
    expect(metadata).toContain('entityID="https://shop.example/auth/v1/sso/saml/metadata"');
    expect(metadata).toContain('Location="https://shop.example/auth/v1/sso/saml/acs"');
    expect(metadata).toContain('WantAssertionsSigned="true"');
  });

  test('contains the certificate of the key, never the key, and the configured URL', async () => {
    const certificate = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n';
    const metadata = await ownMetadata(contextWith(privateKey + certificate, 'https://sso.example/'));
    expect(metadata).toMatch(/X509Certificate[^>]*>\s*AAAA/);
    expect(metadata).toContain('entityID="https://sso.example/sso/saml/metadata"');
    expect(metadata).not.toContain(privateKey.split('\n')[1]);
  });
});

test('maps attributes to metadata: one value, many, or the default', () => {
  const attributes = new Map([
    ['dept', ['sales', 'support']],
    ['urn:group', ['a', 'b']],
  ]);
  const keys = {
    department: { name: 'Dept' },
    groups: { names: ['none', 'URN:group'], array: true },
    level: { name: 'level', default: 1 },
    nothing: { name: 'nothing' },
  };
  expect(mapAttributes({ attributes }, { keys })).toEqual({
    department: 'sales',
    groups: ['a', 'b'],
    level: 1,
  });
});
