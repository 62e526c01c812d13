// Verifies a provider's id token: signature, audience, subject and nonce.
import { createHash } from 'node:crypto';
import {
  createRemoteJWKSet,
  customFetch,
  decodeProtectedHeader,
  type JWTVerifyGetKey,
  jwtVerify,
} from 'jose';
import { OAuthError } from '../../auth-error.ts';
import type { Json } from '../../rows.ts';
import type { Fetch } from '../public-fetch.ts';

/** Asymmetric keys only: a shared secret has no place in a published key set. */
const algorithms = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
];

export interface IdTokenExpectation {
  issuer: string;
  /** Accepted audiences. */
  clientIds: readonly string[];
  keys: JWTVerifyGetKey;
  /** As the client sends it, not hashed. */
  nonce: string;
  skipsNonceCheck: boolean;
  /** Sent with the token; must match its `at_hash` if it has one. */
  accessToken: string;
  now: Date;
}

/**
 * The published keys of a provider, fetched when needed and cached by the library.
 * @param fetchUrl `publicFetch`, or `fetch` where private addresses are allowed
 */
export function publishedKeys(jwksUrl: string, fetchUrl: Fetch): JWTVerifyGetKey {
  return createRemoteJWKSet(new URL(jwksUrl), { timeoutDuration: 10_000, [customFetch]: fetchUrl });
}

/**
 * Verifies an id token.
 * @returns its claims
 * @throws OAuthError `invalid request`, `invalid nonce`: GoTrue's codes
 */
export async function verifyIdToken(token: string, expected: IdTokenExpectation): Promise<Json> {
  const { payload } = await jwtVerify(token, expected.keys, {
    issuer: expected.issuer,
    algorithms,
    requiredClaims: ['exp'],
    currentDate: expected.now,
    clockTolerance: 10,
  }).catch(() => {
    throw bad('Bad ID token');
  });
  if (typeof payload.sub !== 'string' || payload.sub === '') throw bad('Missing sub claim in id_token');
  const audience = [payload.aud ?? []].flat();
  if (!expected.clientIds.some((id) => id !== '' && audience.includes(id))) {
    throw bad(`Unacceptable audience in id_token: [${audience.join(' ')}]`);
  }
  if (!expected.skipsNonceCheck) checkNonce(payload.nonce, expected.nonce);
  if (expected.accessToken && payload.at_hash !== undefined) {
    const { alg = '' } = decodeProtectedHeader(token);
    if (payload.at_hash !== halfHash(expected.accessToken, alg)) throw bad('Bad ID token');
  }
  return payload;
}

function checkNonce(claimed: unknown, nonce: string): void {
  const isClaimed = typeof claimed === 'string' && claimed !== '';
  if (isClaimed !== (nonce !== '')) {
    throw bad('Passed nonce and nonce in id_token should either both exist or not.');
  }
  if (isClaimed && createHash('sha256').update(nonce).digest('hex') !== claimed) {
    throw new OAuthError('invalid nonce', 'Nonces mismatch');
  }
}

/** The left half of the token's hash, by the hash of the signature (OpenID Connect Core, section 3.1.3.6). */
function halfHash(accessToken: string, algorithm: string): string {
  const size = /(?:256|384|512)$/.exec(algorithm)?.[0];
  const isEdwards = algorithm === 'EdDSA' || algorithm === 'Ed25519';
  const digest = createHash(`sha${isEdwards ? '512' : (size ?? '256')}`)
    .update(accessToken)
    .digest();
  return digest.subarray(0, digest.length / 2).toString('base64url');
}

const bad = (description: string) => new OAuthError('invalid request', description);
