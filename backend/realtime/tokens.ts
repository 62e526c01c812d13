// Who holds a token, and how a client is told what is wrong with one.
import type { Claims } from '../database/as-role.ts';
import { DatabaseError } from '../database/database.ts';

/**
 * Resolves an API key or a JWT to verified claims.
 * Rejects with the errors of `jose` (their `code` tells what is wrong); any other error means "not a valid token".
 */
export type Authenticate = (token: string) => Promise<Claims>;

/** A token that does not let its holder in. */
export class TokenRefused extends Error {
  override readonly name = 'TokenRefused';
  /** The realtime protocol's name of the problem. */
  readonly code: 'InvalidJWTToken' | 'MalformedJWT' | 'JwtSignatureError';
  readonly isExpired: boolean;

  constructor(code: TokenRefused['code'], message: string, isExpired = false) {
    super(message);
    this.code = code;
    this.isExpired = isExpired;
  }
}

/**
 * Verifies a token for use on a socket.
 * @throws TokenRefused; DatabaseError when the database was needed and could not be asked
 */
export async function claimsOf(authenticate: Authenticate, token: string): Promise<Claims> {
  let claims: Claims;
  try {
    claims = await authenticate(token);
  } catch (error) {
    throw error instanceof DatabaseError ? error : refusalOf(error);
  }
  const isKey = token.split('.').length !== 3;
  if (!isKey && (typeof claims.exp !== 'number' || typeof claims.role !== 'string')) throw fieldsMissing();
  const secondsLeft = secondsUntilExpiry(claims);
  if (secondsLeft !== null && secondsLeft <= 0) throw expired(-secondsLeft);
  return claims;
}

/** Seconds until the claims expire, negative afterwards; null when they do not. */
export function secondsUntilExpiry(claims: Claims): number | null {
  return typeof claims.exp === 'number' ? claims.exp - Date.now() / 1000 : null;
}

/** What a client is told of claims that ran out. */
export function expired(secondsAgo: number): TokenRefused {
  return new TokenRefused(
    'InvalidJWTToken',
    `Token has expired ${Math.max(0, Math.floor(secondsAgo))} seconds ago`,
    true,
  );
}

function fieldsMissing(): TokenRefused {
  return new TokenRefused('InvalidJWTToken', 'Fields `role` and `exp` are required in JWT');
}

function refusalOf(error: unknown): TokenRefused {
  const { code, payload } = (error ?? {}) as { code?: unknown; payload?: { exp?: unknown } };
  switch (code) {
    case 'ERR_JWT_EXPIRED':
      return expired(Date.now() / 1000 - (typeof payload?.exp === 'number' ? payload.exp : Infinity));
    case 'ERR_JWT_CLAIM_VALIDATION_FAILED':
      return fieldsMissing();
    case 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED':
    case 'ERR_JWKS_NO_MATCHING_KEY':
      return new TokenRefused('JwtSignatureError', 'Failed to validate JWT signature');
    default:
      return new TokenRefused('MalformedJWT', 'The token provided is not a valid JWT');
  }
}
