// Verifies API keys and access tokens, and returns their claims. All services use it; none parses tokens itself.
import {
  type CryptoKey,
  decodeProtectedHeader,
  errors,
  importJWK,
  type JWK,
  type JWTPayload,
  jwtVerify,
  SignJWT,
} from 'jose';
import { type ApiKeys, isSameSecret } from './api-keys.ts';
import { type Claims, requestRoles } from './database/as-role.ts';

/** The token cannot be accepted; `code` and `message` are those of PostgREST (its error reference, group 3). */
export class InvalidToken extends Error {
  override readonly name = 'InvalidToken';
  readonly code: 'PGRST301' | 'PGRST303';
  /** Whether signature, times and origin are right, and only the role is not one of this API. */
  readonly isSigned: boolean;
  constructor(code: 'PGRST301' | 'PGRST303', message: string, isSigned = false) {
    super(message);
    this.code = code;
    this.isSigned = isSigned;
  }
}

export type Authenticate = (token: string) => Promise<Claims>;

/** Required issuer and audience of a token. Without it neither is checked. */
export interface TokenOrigin {
  issuer: string;
  audience: string;
}

/** Signs access tokens and verifies them. */
export interface AccessTokens {
  /** @param claims all of them, times included */
  sign(claims: JWTPayload): Promise<string>;
  /**
   * Verifies signature, times, issuer and audience, but not the role.
   * @throws InvalidToken
   */
  verify(token: string): Promise<JWTPayload>;
  /** Public JWKs for verification elsewhere, never the shared secret. */
  publicKeys: readonly JWK[];
}

// Hosted projects' legacy keys are tokens of these issuers.
const legacyIssuers = ['supabase', 'supabase-demo'];

/**
 * Creates the signer and verifier for a set of keys. Each key has exactly one algorithm, so that no token can choose it:
 * a private key the one in its `alg`, the shared secret HS256.
 * @param keys the first signing key signs, or the shared secret when there is none
 */
export function createAccessTokens(
  keys: Pick<ApiKeys, 'signingKeys' | 'sharedSecret'>,
  origin?: TokenOrigin,
  now: () => Date = () => new Date(),
): AccessTokens {
  const secret = keys.sharedSecret ? new TextEncoder().encode(keys.sharedSecret) : null;
  const publicKeys = keys.signingKeys.map(publicPart);
  const verifiers = new Map<string, Promise<CryptoKey | Uint8Array>>();
  const [signing] = keys.signingKeys;
  let signer: Promise<CryptoKey | Uint8Array> | null = null;

  const keyFor = async (token: string): Promise<{ key: CryptoKey | Uint8Array; algorithm: string }> => {
    const { alg, kid } = headerOf(token);
    const jwk = publicKeys.find((known) => kid !== undefined && known.kid === kid);
    if (jwk?.alg && jwk.kid) {
      const key = verifiers.get(jwk.kid) ?? importJWK(jwk, jwk.alg);
      verifiers.set(jwk.kid, key);
      return { key: await key, algorithm: jwk.alg };
    }
    if (secret && alg === 'HS256') return { key: secret, algorithm: 'HS256' };
    throw new InvalidToken('PGRST301', 'No suitable key or wrong key type');
  };

  return {
    publicKeys,
    async sign(claims) {
      if (signing?.alg) {
        // Foreign keys may list uses ("verify" beside "sign") that importing a private key refuses.
        const { key_ops: _uses, ...unrestricted } = signing;
        signer ??= importJWK(unrestricted as JWK, signing.alg);
        const header = { alg: signing.alg, typ: 'JWT', ...(signing.kid ? { kid: signing.kid } : {}) };
        return new SignJWT(claims).setProtectedHeader(header).sign(await signer);
      }
      if (!secret) throw new Error('no key to sign access tokens');
      return new SignJWT(claims).setProtectedHeader({ alg: 'HS256', typ: 'JWT' }).sign(secret);
    },
    async verify(token) {
      const { key, algorithm } = await keyFor(token);
      const options = { algorithms: [algorithm], clockTolerance: 30, currentDate: now() };
      const { payload } = await jwtVerify(token, key, options).catch((error) => {
        if (error instanceof errors.JWTExpired) throw new InvalidToken('PGRST303', 'JWT expired');
        if (error instanceof errors.JWTClaimValidationFailed)
          throw new InvalidToken('PGRST303', 'JWT not yet valid');
        throw new InvalidToken('PGRST301', 'No suitable key or wrong key type');
      });
      if (origin) checkOrigin(payload, origin);
      return payload;
    },
  };
}

/**
 * Creates the token check for a set of keys.
 * @param origin required issuer and audience
 * @returns a function from a key or token to its claims; it throws InvalidToken for anything else
 */
export function createAuthenticate(keys: ApiKeys, origin?: TokenOrigin): Authenticate {
  const accessTokens = createAccessTokens(keys, origin);
  return async (token) => {
    const keyRole = roleOfKey(keys, token);
    if (keyRole) return { role: keyRole };
    const payload = await accessTokens.verify(token);
    const { role } = payload;
    if (typeof role !== 'string' || !requestRoles.has(role)) {
      throw new InvalidToken('PGRST303', 'The role claim names no role of this API', true);
    }
    return { ...payload, role };
  };
}

/** The role an API key names; null for anything else. */
export function roleOfKey(
  keys: Pick<ApiKeys, 'publishable' | 'secret'>,
  token: string,
): 'anon' | 'service_role' | null {
  if (isSameSecret(token, keys.publishable)) return 'anon';
  return isSameSecret(token, keys.secret) ? 'service_role' : null;
}

function checkOrigin({ iss, aud }: JWTPayload, { issuer, audience }: TokenOrigin): void {
  // Tokens signed by hand with a key (the role keys of an application) may have neither.
  const isFromHere = iss === issuer || iss === undefined || legacyIssuers.includes(iss);
  if (!isFromHere) throw new InvalidToken('PGRST303', 'JWT not from this issuer');
  if (aud !== undefined && ![aud].flat().includes(audience)) {
    throw new InvalidToken('PGRST303', 'JWT not in audience');
  }
}

function headerOf(token: string): { alg: string | undefined; kid: string | undefined } {
  const parts = token.split('.').length;
  if (parts !== 3) throw new InvalidToken('PGRST301', `Expected 3 parts in JWT; got ${parts}`);
  try {
    const { alg, kid } = decodeProtectedHeader(token);
    return { alg, kid };
  } catch {
    throw new InvalidToken('PGRST301', 'JWT cryptographic operation failed');
  }
}

/** An allow list, so that private members of any kind of key are left out. */
function publicPart({ kty, crv, x, y, n, e, alg, kid, use }: JWK): JWK {
  const all = { kty, crv, x, y, n, e, alg, kid, use: use ?? 'sig', key_ops: ['verify'] };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as unknown as JWK;
}
