// The two WebAuthn ceremonies, registration and authentication, shared by passkeys and factors.
import type {
  AuthenticationResponseJSON,
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
  RegistrationResponseJSON,
} from '@simplewebauthn/server';

// Loaded on first use: otherwise it would be a third of the code that the server loads at its start.
const webauthn = () => import('@simplewebauthn/server');

/** WebAuthn's relying party. */
export interface RelyingParty {
  /** The host name credentials are bound to. */
  id: string;
  /** Shown by the authenticator. */
  name: string;
  /** The origins pages may be on. */
  origins: readonly string[];
}

/** A credential as stored. */
export interface Credential {
  /** base64url. */
  id: string;
  /** COSE, base64url. */
  publicKey: string;
  /** The authenticator's use counter; 0 when it does not count. */
  counter: number;
  transports: string[];
  aaguid: string;
  /** Whether it may be synced to other devices, and whether it is. */
  isBackupEligible: boolean;
  isBackedUp: boolean;
}

/** Whether the credential is the only factor, or the second one after a password. */
export type CredentialUse = 'passkey' | 'factor';

// A passkey replaces the password, so the authenticator must verify its owner (by PIN, finger or face) and find the account
// without a name. As a second factor, possession is enough.
const userVerification = { passkey: 'required', factor: 'preferred' } as const;
const millisecondsToAnswer = 300_000;

/**
 * Options for navigator.credentials.create.
 * @param user `id` is the user's UUID; it becomes the user handle
 * @param existing the user's credentials; their authenticators refuse to create another
 */
export async function registrationOptions(
  relyingParty: RelyingParty,
  user: { id: string; name: string; displayName: string },
  existing: readonly Pick<Credential, 'id' | 'transports'>[],
  use: CredentialUse,
): Promise<PublicKeyCredentialCreationOptionsJSON> {
  const { generateRegistrationOptions } = await webauthn();
  return generateRegistrationOptions({
    rpID: relyingParty.id,
    rpName: relyingParty.name,
    userID: new TextEncoder().encode(user.id),
    userName: user.name,
    userDisplayName: user.displayName,
    timeout: millisecondsToAnswer,
    attestationType: 'none',
    excludeCredentials: existing.map(({ id, transports }) => ({ id, transports })),
    authenticatorSelection: {
      residentKey: use === 'passkey' ? 'required' : 'discouraged',
      userVerification: userVerification[use],
    },
  });
}

/**
 * Verifies a registration response.
 * @param response the browser's answer, unchecked
 * @param challenge from the options, base64url
 * @returns the credential to store; null for an invalid answer
 */
export async function verifiedRegistration(
  relyingParty: RelyingParty,
  response: unknown,
  challenge: string,
  use: CredentialUse,
): Promise<Credential | null> {
  const { verifyRegistrationResponse } = await webauthn();
  try {
    const { verified, registrationInfo } = await verifyRegistrationResponse({
      response: response as RegistrationResponseJSON,
      expectedChallenge: challenge,
      expectedOrigin: [...relyingParty.origins],
      expectedRPID: relyingParty.id,
      requireUserVerification: use === 'passkey',
    });
    if (!verified) return null;
    const { credential, aaguid, credentialDeviceType, credentialBackedUp } = registrationInfo;
    return {
      id: credential.id,
      publicKey: Buffer.from(credential.publicKey).toString('base64url'),
      counter: credential.counter,
      transports: (credential.transports ?? []).filter((transport) => typeof transport === 'string'),
      aaguid,
      isBackupEligible: credentialDeviceType === 'multiDevice',
      isBackedUp: credentialBackedUp,
    };
  } catch {
    // The library throws for each kind of invalid answer; the caller learns none of the reasons.
    return null;
  }
}

/**
 * Options for navigator.credentials.get.
 * @param allowed the accepted credentials; none means any passkey of this relying party
 */
export async function authenticationOptions(
  relyingParty: RelyingParty,
  allowed: readonly Pick<Credential, 'id' | 'transports'>[],
  use: CredentialUse,
): Promise<PublicKeyCredentialRequestOptionsJSON> {
  const { generateAuthenticationOptions } = await webauthn();
  return generateAuthenticationOptions({
    rpID: relyingParty.id,
    timeout: millisecondsToAnswer,
    userVerification: userVerification[use],
    allowCredentials: allowed.map(({ id, transports }) => ({ id, transports })),
  });
}

/**
 * Verifies an authentication response.
 * @param response the browser's answer, unchecked
 * @param challenge the one of the options, base64url
 * @param credential the stored one with the answer's id
 * @returns the authenticator's new counter and backup state, to store; null for an invalid answer, including a counter that did
 *   not grow, the sign of a copied authenticator (WebAuthn, 6.1.1)
 */
export async function verifiedAuthentication(
  relyingParty: RelyingParty,
  response: unknown,
  challenge: string,
  credential: Pick<Credential, 'id' | 'publicKey' | 'counter'>,
  use: CredentialUse,
): Promise<Pick<Credential, 'counter' | 'isBackedUp'> | null> {
  if (answeringCredential(response) !== credential.id) return null;
  const { verifyAuthenticationResponse } = await webauthn();
  try {
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response: response as AuthenticationResponseJSON,
      expectedChallenge: challenge,
      expectedOrigin: [...relyingParty.origins],
      expectedRPID: relyingParty.id,
      credential: {
        id: credential.id,
        publicKey: new Uint8Array(Buffer.from(credential.publicKey, 'base64url')),
        counter: credential.counter,
      },
      requireUserVerification: use === 'passkey',
    });
    if (!verified) return null;
    return { counter: authenticationInfo.newCounter, isBackedUp: authenticationInfo.credentialBackedUp };
  } catch {
    return null;
  }
}

/**
 * The credential of an answer.
 * @returns its id, base64url; null for an answer of another shape
 */
export function answeringCredential(response: unknown): string | null {
  if (typeof response !== 'object' || response === null || !('id' in response)) return null;
  return typeof response.id === 'string' && /^[A-Za-z0-9_-]{1,1400}$/.test(response.id) ? response.id : null;
}

/**
 * The user handle of an answer.
 * @returns the user handle as text (a UUID); null without one
 */
export function userHandleOf(response: unknown): string | null {
  const handle = (response as { response?: { userHandle?: unknown } } | null)?.response?.userHandle;
  return typeof handle === 'string' ? Buffer.from(handle, 'base64url').toString() : null;
}
