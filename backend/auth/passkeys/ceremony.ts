// The two WebAuthn ceremonies, registration and authentication, as passkeys and factors share them.
import type {
  AuthenticationResponseJSON,
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
  RegistrationResponseJSON,
} from '@simplewebauthn/server';

// A third of what the whole server would load at its start: only who uses a passkey waits for it, once.
const webauthn = () => import('@simplewebauthn/server');

/** Who asks for credentials: WebAuthn's relying party. */
export interface RelyingParty {
  /** The host name credentials are bound to. */
  id: string;
  /** Shown by the authenticator. */
  name: string;
  /** The origins pages may be on. */
  origins: readonly string[];
}

/** A public key that an authenticator has made, with all that must be kept of it. */
export interface Credential {
  /** base64url. */
  id: string;
  /** COSE, base64url. */
  publicKey: string;
  /** How often the authenticator says that it was used; 0 when it does not count. */
  counter: number;
  transports: string[];
  aaguid: string;
  /** Whether it may be synced to other devices, and whether it is. */
  isBackupEligible: boolean;
  isBackedUp: boolean;
}

/** Signing in with nothing but the credential, or using it on top of a password. */
export type CredentialUse = 'passkey' | 'factor';

// A passkey replaces the password, so the authenticator must know its owner (by PIN, finger or face) and find the account
// without a name. On top of a password, holding it is enough.
const userVerification = { passkey: 'required', factor: 'preferred' } as const;
const millisecondsToAnswer = 300_000;

/**
 * What the browser needs to make a credential (navigator.credentials.create).
 * @param user `id` is the user's UUID; it becomes the user handle
 * @param existing credentials the user has already; their authenticators refuse to make another
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
 * Checks what the browser brings back from making a credential.
 * @param response the browser's answer, not yet known to have any shape
 * @param challenge the one of the options, base64url
 * @returns the credential to keep; null when anything about the answer is wrong
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
    // The library throws for each of the many ways in which an answer can be wrong; whoever sent it is told none.
    return null;
  }
}

/**
 * What the browser needs to use a credential (navigator.credentials.get).
 * @param allowed the credentials that may answer; none given means any passkey for this relying party
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
 * Checks what the browser brings back from using a credential.
 * @param response the browser's answer, not yet known to have any shape
 * @param challenge the one of the options, base64url
 * @param credential the kept one whose id the answer names
 * @returns the authenticator's new counter and backup state, to be kept; null when anything about the answer is wrong,
 *   also a counter that did not grow, the mark of a copied authenticator (WebAuthn, 6.1.1)
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
 * Which credential an answer of the browser is from.
 * @returns its id, base64url; null when the answer has not the shape of one
 */
export function answeringCredential(response: unknown): string | null {
  if (typeof response !== 'object' || response === null || !('id' in response)) return null;
  return typeof response.id === 'string' && /^[A-Za-z0-9_-]{1,1400}$/.test(response.id) ? response.id : null;
}

/**
 * The user an authenticator says its credential is for.
 * @returns the user handle as text (we hand out UUIDs); null when the answer has none
 */
export function userHandleOf(response: unknown): string | null {
  const handle = (response as { response?: { userHandle?: unknown } } | null)?.response?.userHandle;
  return typeof handle === 'string' ? Buffer.from(handle, 'base64url').toString() : null;
}
