import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import {
  answeringCredential,
  authenticationOptions,
  type Credential,
  registrationOptions,
  userHandleOf,
  verifiedAuthentication,
  verifiedRegistration,
} from './ceremony.ts';
import { createSoftwareAuthenticator } from './software-authenticator.ts';

const origin = 'https://shop.example';
const relyingParty = { id: 'shop.example', name: 'Shop', origins: [origin, 'https://www.shop.example'] };
const user = { id: randomUUID(), name: 'amina@jani.example', displayName: 'Amina' };

async function registered() {
  const authenticator = createSoftwareAuthenticator(origin);
  const options = await registrationOptions(relyingParty, user, [], 'passkey');
  const response = authenticator.create(options);
  const credential = await verifiedRegistration(relyingParty, response, options.challenge, 'passkey');
  if (!credential) throw new Error('the registration was refused');
  return { authenticator, credential };
}

async function signedIn(
  { authenticator, credential }: Awaited<ReturnType<typeof registered>>,
  deviations: Parameters<typeof authenticator.get>[1] = {},
) {
  const options = await authenticationOptions(relyingParty, [], 'passkey');
  const response = authenticator.get(options, deviations);
  return verifiedAuthentication(relyingParty, response, options.challenge, credential, 'passkey');
}

describe('registration', () => {
  test('of a passkey requires a discoverable credential and a verified user; of a factor it does not', async () => {
    const passkey = await registrationOptions(
      relyingParty,
      user,
      [{ id: 'AQID', transports: ['usb'] }],
      'passkey',
    );
    expect(passkey).toMatchObject({
      rp: { id: 'shop.example', name: 'Shop' },
      user: { name: 'amina@jani.example', displayName: 'Amina' },
      attestation: 'none',
      timeout: 300_000,
      excludeCredentials: [{ id: 'AQID', type: 'public-key', transports: ['usb'] }],
      authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
    });
    expect(Buffer.from(passkey.user.id, 'base64url').toString()).toBe(user.id);
    expect(Buffer.from(passkey.challenge, 'base64url').length).toBeGreaterThanOrEqual(16);
    const factor = await registrationOptions(relyingParty, user, [], 'factor');
    expect(factor.authenticatorSelection).toMatchObject({ userVerification: 'preferred' });
  });

  test('returns the credential to store', async () => {
    const { credential } = await registered();
    expect(credential).toMatchObject({
      counter: 1,
      transports: ['internal'],
      aaguid: '00000000-0000-0000-0000-000000000000',
      isBackupEligible: false,
      isBackedUp: false,
    } satisfies Partial<Credential>);
    expect(credential.publicKey).toMatch(/^[A-Za-z0-9_-]{90,}$/);
  });

  test.each([
    ['another origin', { origin: 'https://shop.example.evil.example' }],
    ['another challenge', { challenge: 'AAAAAAAAAAAAAAAAAAAAAA' }],
    ['a user who is not verified', { isUserVerified: false }],
  ])('of a passkey with %s is refused', async (_what, deviations) => {
    const options = await registrationOptions(relyingParty, user, [], 'passkey');
    const response = createSoftwareAuthenticator(origin).create(options, deviations);
    expect(await verifiedRegistration(relyingParty, response, options.challenge, 'passkey')).toBeNull();
  });

  test('of a factor does not need a verified user', async () => {
    const options = await registrationOptions(relyingParty, user, [], 'factor');
    const response = createSoftwareAuthenticator(origin).create(options, { isUserVerified: false });
    expect(await verifiedRegistration(relyingParty, response, options.challenge, 'factor')).not.toBeNull();
  });

  test('for another relying party is refused', async () => {
    const options = await registrationOptions({ ...relyingParty, id: 'evil.example' }, user, [], 'passkey');
    const response = createSoftwareAuthenticator(origin).create(options);
    expect(await verifiedRegistration(relyingParty, response, options.challenge, 'passkey')).toBeNull();
  });

  test.each([null, 1, 'x', [], {}, { id: 'a', rawId: 'a', type: 'public-key' }, { id: 'a', response: null }])(
    'with the answer %j is refused',
    async (response) => {
      expect(await verifiedRegistration(relyingParty, response, 'AQID', 'passkey')).toBeNull();
    },
  );
});

describe('authentication', () => {
  test('returns the new counter and the credential id', async () => {
    const holder = await registered();
    expect(await signedIn(holder)).toEqual({ counter: 2, isBackedUp: false });
    const options = await authenticationOptions(relyingParty, [], 'passkey');
    expect(options).toMatchObject({ rpId: 'shop.example', userVerification: 'required', timeout: 300_000 });
    const response = holder.authenticator.get(options);
    expect(answeringCredential(response)).toBe(holder.credential.id);
    expect(userHandleOf(response)).toBe(user.id);
  });

  test('is accepted from each configured origin', async () => {
    expect(await signedIn(await registered(), { origin: 'https://www.shop.example' })).not.toBeNull();
  });

  test.each([
    ['another origin', { origin: 'http://shop.example' }],
    ['another challenge', { challenge: 'AAAAAAAAAAAAAAAAAAAAAA' }],
    ['a user who is not verified', { isUserVerified: false }],
  ])('with %s is refused', async (_what, deviations) => {
    expect(await signedIn(await registered(), deviations)).toBeNull();
  });

  test('with a counter that did not grow is refused', async () => {
    const holder = await registered();
    const { counter } = (await signedIn(holder)) ?? { counter: 0 };
    holder.authenticator.forgetCounts();
    expect(await signedIn({ ...holder, credential: { ...holder.credential, counter } })).toBeNull();
  });

  test('signed by the key of another credential is refused', async () => {
    const holder = await registered();
    const other = await registered();
    expect(await signedIn({ ...holder, authenticator: other.authenticator })).toBeNull();
    const options = await authenticationOptions(relyingParty, [], 'passkey');
    const response = {
      ...other.authenticator.get(options),
      id: holder.credential.id,
      rawId: holder.credential.id,
    };
    expect(
      await verifiedAuthentication(relyingParty, response, options.challenge, holder.credential, 'passkey'),
    ).toBeNull();
  });

  test.each([null, 1, 'x', [], {}, { id: 5 }, { id: 'not base64url!' }])(
    'with the answer %j is refused',
    async (response) => {
      const { credential } = await registered();
      expect(answeringCredential(response)).toBeNull();
      expect(userHandleOf(response)).toBeNull();
      expect(await verifiedAuthentication(relyingParty, response, 'AQID', credential, 'passkey')).toBeNull();
    },
  );
});
