// Verifies tokens of sockets, and words the errors for clients.
import { type Authenticate, InvalidToken } from '../../authenticate.ts';
import type { Claims } from '../../database/as-role.ts';
import { isRecord } from './protocol.ts';

/** A token that was refused. */
export class TokenRefused extends Error {
  override readonly name = 'TokenRefused';
  /** The realtime protocol's error code. */
  readonly code: 'InvalidJWTToken' | 'MalformedJWT' | 'JwtSignatureError';
  readonly isExpired: boolean;

  constructor(code: TokenRefused['code'], message: string, isExpired = false) {
    super(message);
    this.code = code;
    this.isExpired = isExpired;
  }
}

/** Maximum characters of a token; longer ones would not fit in an HTTP header either. */
const maxTokenLength = 16 * 1024;

/**
 * Verifies a token for use on a socket.
 * @throws TokenRefused; other errors of `authenticate` are internal and pass through
 */
export async function claimsOf(authenticate: Authenticate, token: string): Promise<Claims> {
  if (token.length > maxTokenLength) throw malformed();
  const claims = await authenticate(token).catch((error) => {
    throw error instanceof InvalidToken ? refusalOf(error, token) : error;
  });
  const isKey = token.split('.').length !== 3;
  if (!isKey && typeof claims.exp !== 'number') throw fieldsMissing();
  const secondsLeft = secondsUntilExpiry(claims);
  if (secondsLeft !== null && secondsLeft <= 0) throw expired(-secondsLeft);
  return claims;
}

/** Seconds until the claims expire, negative afterwards; null without expiry. */
export function secondsUntilExpiry(claims: Claims): number | null {
  return typeof claims.exp === 'number' ? claims.exp - Date.now() / 1000 : null;
}

/** Error message for expired claims. */
export function expired(secondsAgo: number): TokenRefused {
  return new TokenRefused(
    'InvalidJWTToken',
    `Token has expired ${Math.max(0, Math.floor(secondsAgo))} seconds ago`,
    true,
  );
}

function malformed(): TokenRefused {
  return new TokenRefused('MalformedJWT', 'The token provided is not a valid JWT');
}

function fieldsMissing(): TokenRefused {
  return new TokenRefused('InvalidJWTToken', 'Fields `role` and `exp` are required in JWT');
}

/** Chooses the error for a refused token; its content is used for nothing else. */
function refusalOf(error: InvalidToken, token: string): TokenRefused {
  const claims = unverifiedClaims(token);
  if (!claims) return malformed();
  if (error.code === 'PGRST301')
    return new TokenRefused('JwtSignatureError', 'Failed to validate JWT signature');
  const secondsAgo = typeof claims.exp === 'number' ? Date.now() / 1000 - claims.exp : 0;
  return secondsAgo > 0 ? expired(secondsAgo) : fieldsMissing();
}

function unverifiedClaims(token: string): Record<string, unknown> | null {
  try {
    const [header, payload] = token
      .split('.', 2)
      .map((part) => JSON.parse(Buffer.from(part, 'base64url').toString()));
    return isRecord(header) && isRecord(payload) ? payload : null;
  } catch {
    return null;
  }
}
