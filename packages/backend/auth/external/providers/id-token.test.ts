// Verification of id tokens: valid ones, and each kind of invalid one.
import { createHash } from 'node:crypto';
import { createLocalJWKSet, exportJWK, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import { beforeAll, describe, expect, test } from 'vitest';
import { type IdTokenExpectation, verifyIdToken } from './id-token.ts';

const issuer = 'https://provider.example';
const nonce = 'a nonce';
const hashed = createHash('sha256').update(nonce).digest('hex');
const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true });
const stranger = await generateKeyPair('ES256');
let expected: IdTokenExpectation;

beforeAll(async () => {
  const keys = createLocalJWKSet({ keys: [{ ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256' }] });
  expected = {
    issuer,
    clientIds: ['our client'],
    keys,
    nonce: '',
    skipsNonceCheck: false,
    accessToken: '',
    now: new Date(),
  };
});

const claims = (more: JWTPayload = {}): JWTPayload => {
  const now = Math.floor(Date.now() / 1000);
  return { iss: issuer, sub: 'jo', aud: 'our client', iat: now, exp: now + 60, ...more };
};
const signed = (payload: JWTPayload, key = privateKey) =>
  new SignJWT(payload).setProtectedHeader({ alg: 'ES256', kid: 'one' }).sign(key);

describe('an id token', () => {
  test('of the provider for our client is accepted', async () => {
    expect(await verifyIdToken(await signed(claims()), expected)).toMatchObject({ sub: 'jo' });
    const forMany = await signed(claims({ aud: ['another', 'our client'] }));
    expect(await verifyIdToken(forMany, expected)).toMatchObject({ sub: 'jo' });
  });

  test('with a nonce is accepted with the unhashed nonce', async () => {
    const token = await signed(claims({ nonce: hashed }));
    expect(await verifyIdToken(token, { ...expected, nonce })).toMatchObject({ sub: 'jo' });
    expect(await verifyIdToken(token, { ...expected, skipsNonceCheck: true })).toMatchObject({ sub: 'jo' });
  });

  test('covers the access token that came with it', async () => {
    const accessToken = 'an access token';
    const half = createHash('sha256').update(accessToken).digest().subarray(0, 16).toString('base64url');
    const token = await signed(claims({ at_hash: half }));
    expect(await verifyIdToken(token, { ...expected, accessToken })).toMatchObject({ sub: 'jo' });
    await expect(verifyIdToken(token, { ...expected, accessToken: 'another' })).rejects.toMatchObject({
      message: 'Bad ID token',
    });
  });

  test.each<[string, () => Promise<string> | string, Partial<IdTokenExpectation>, string]>([
    ['signed with another key', () => signed(claims(), stranger.privateKey), {}, 'Bad ID token'],
    ['not signed', () => new UnsecuredJWT(claims()).encode(), {}, 'Bad ID token'],
    [
      'signed with the public key as a secret',
      async () =>
        new SignJWT(claims())
          .setProtectedHeader({ alg: 'HS256', kid: 'one' })
          .sign(Buffer.from(JSON.stringify(await exportJWK(publicKey)))),
      {},
      'Bad ID token',
    ],
    ['of another issuer', () => signed(claims({ iss: 'https://evil.example' })), {}, 'Bad ID token'],
    [
      'that has expired',
      () => signed(claims({ exp: Math.floor(Date.now() / 1000) - 60 })),
      {},
      'Bad ID token',
    ],
    ['without an expiry', () => signed({ iss: issuer, sub: 'jo', aud: 'our client' }), {}, 'Bad ID token'],
    ['that is not a JWT', () => 'abc', {}, 'Bad ID token'],
    ['without a subject', () => signed(claims({ sub: '' })), {}, 'Missing sub claim in id_token'],
    [
      'for another audience',
      () => signed(claims({ aud: ['a', 'b'] })),
      {},
      'Unacceptable audience in id_token: [a b]',
    ],
    [
      'with an unexpected nonce',
      () => signed(claims({ nonce: hashed })),
      {},
      'Passed nonce and nonce in id_token should either both exist or not.',
    ],
    [
      'without the expected nonce',
      () => signed(claims()),
      { nonce },
      'Passed nonce and nonce in id_token should either both exist or not.',
    ],
    ['with another nonce', () => signed(claims({ nonce: hashed })), { nonce: 'x' }, 'Nonces mismatch'],
    ['with the unhashed nonce', () => signed(claims({ nonce })), { nonce }, 'Nonces mismatch'],
  ])('%s is rejected', async (_, token, changed, message) => {
    const error = message === 'Nonces mismatch' ? 'invalid nonce' : 'invalid request';
    await expect(verifyIdToken(await token(), { ...expected, ...changed })).rejects.toMatchObject({
      status: 400,
      error,
      message,
    });
  });
});
