// Authenticates the Authorization header for the standalone data service, with PostgREST's errors.
import { type CryptoKey, compactVerify, importJWK, type JWK } from 'jose';
import type { Claims } from '../database/as-role.ts';
import { PlainResponse } from '../http/plain-response.ts';

/** The first of an array's texts that is, is not, begins with, ends with or contains a text. */
interface ClaimSearch {
  operator: '==' | '!=' | '^==' | '==^' | '*==';
  text: string;
}
/** A step of the path to the role claim; a search is the last one. */
export type ClaimStep = { key: string } | { index: number } | ClaimSearch;

/** A key that verifies tokens: a shared secret, or a JSON Web Key. */
export type VerifyingKey = Uint8Array | JWK;

export interface TokenSettings {
  /** Role for requests without a token; null when one is required. */
  anonymousRole: string | null;
  /** Null when no token can be checked. */
  keys: readonly VerifyingKey[] | null;
  /** Accepted audiences of tokens with one; null for any. */
  audience: string | null;
  /** Where in a token the role is, from the outside in. */
  roleClaim: readonly ClaimStep[];
  /** Maximum number of cached verified tokens. */
  maxCachedTokens: number;
}

/** The error of a request that is rejected before it reaches the service. */
export class RefusedToken extends Error {
  override readonly name = 'RefusedToken';
  readonly code: string;
  readonly status: number;
  readonly details: string | null;

  constructor(code: string, message: string, details: string | null = null) {
    super(message);
    this.code = code;
    this.status = code === 'PGRST300' ? 500 : 401;
    this.details = details;
  }

  /** The answer, in the form of PostgREST's errors. */
  response(): PlainResponse {
    const challenge =
      this.code === 'PGRST302'
        ? 'Bearer'
        : `Bearer error="invalid_token", error_description="${this.message}"`;
    const { code, message, details } = this;
    const body = JSON.stringify({ code, message, details, hint: null });
    const headers = {
      'content-type': 'application/json; charset=utf-8',
      'proxy-status': `PostgREST; error=${this.code}`,
      ...(this.status === 401 ? { 'www-authenticate': challenge } : {}),
    };
    return new PlainResponse(this.status, headers, body);
  }
}

type TokenClaims = Record<string, unknown>;

/**
 * Creates the check of Authorization headers.
 * @returns a function from a header's value, null for none, to claims; it throws RefusedToken
 */
export function createTokenCheck(settings: TokenSettings): (header: string | null) => Promise<Claims> {
  const { anonymousRole, keys, audience, roleClaim, maxCachedTokens } = settings;
  const verify = keys && verifierOf(keys);
  // Signatures are cached; times and audience are checked each time.
  const remembered = new Map<string, TokenClaims>();
  return async (header) => {
    const token = /^bearer(?:\s(.*))?$/i.exec(header?.trim() ?? '');
    const claims = token ? await verified(token[1]?.trimStart() ?? '') : {};
    if (token) checkClaims(claims, audience);
    const claimed = valueAt(claims, roleClaim);
    if (claimed !== undefined) {
      return { ...claims, role: typeof claimed === 'string' ? claimed : JSON.stringify(claimed) };
    }
    if (anonymousRole === null) throw new RefusedToken('PGRST302', 'Anonymous access is disabled');
    return { ...claims, role: anonymousRole };
  };

  async function verified(token: string): Promise<TokenClaims> {
    if (!verify) throw new RefusedToken('PGRST300', 'Server lacks JWT secret');
    const cached = remembered.get(token);
    if (cached) return cached;
    const claims = claimsIn(await verify(token));
    remembered.set(token, claims);
    const [oldest] = remembered.keys();
    if (remembered.size > maxCachedTokens && oldest !== undefined) remembered.delete(oldest);
    return claims;
  }
}

function claimsIn(payload: Uint8Array): TokenClaims {
  try {
    const claims: unknown = JSON.parse(new TextDecoder().decode(payload));
    if (typeof claims === 'object' && claims !== null && !Array.isArray(claims)) return claims as TokenClaims;
  } catch {
    // Answered below.
  }
  throw new RefusedToken('PGRST303', 'Parsing claims failed');
}

// ── Signatures ───────────────────────────────────────────────────────────────────────────────────────────────────────

const keyTypes: Readonly<Record<string, string>> = { HS: 'oct', RS: 'RSA', PS: 'RSA', ES: 'EC', Ed: 'OKP' };

/** A function from a token to its payload. */
function verifierOf(keys: readonly VerifyingKey[]): (token: string) => Promise<Uint8Array> {
  const imported = new Map<JWK, Promise<CryptoKey | Uint8Array>>();
  const ready = (key: VerifyingKey, algorithm: string) => {
    if (key instanceof Uint8Array) return key;
    const importedKey = imported.get(key) ?? importJWK(publicPart(key), algorithm);
    imported.set(key, importedKey);
    return importedKey;
  };
  return async (token) => {
    const { algorithm, id } = headerOf(token);
    if (algorithm === 'none') {
      throw new RefusedToken(
        'PGRST301',
        'Wrong or unsupported encoding algorithm',
        "JWT is unsecured but expected 'alg' was not 'none'",
      );
    }
    const suitable = keys.filter((key) => isSuitable(key, algorithm, id));
    for (const key of suitable) {
      try {
        const { payload } = await compactVerify(token, await ready(key, algorithm), {
          algorithms: [algorithm],
        });
        return payload;
      } catch {
        // Another key may fit.
      }
    }
    throw new RefusedToken(
      'PGRST301',
      'No suitable key or wrong key type',
      suitable.length > 0
        ? 'None of the keys was able to decode the JWT'
        : 'No suitable key was found to decode the JWT',
    );
  };
}

function headerOf(token: string): { algorithm: string; id: string | null } {
  if (token === '') throw new RefusedToken('PGRST301', 'Empty JWT is sent in Authorization header');
  const parts = token.split('.');
  if (parts.length !== 3) {
    throw new RefusedToken('PGRST301', `Expected 3 parts in JWT; got ${parts.length}`);
  }
  try {
    const { alg, kid } = JSON.parse(Buffer.from(parts[0] ?? '', 'base64url').toString());
    if (typeof alg === 'string') return { algorithm: alg, id: typeof kid === 'string' ? kid : null };
  } catch {
    // Answered below.
  }
  throw new RefusedToken('PGRST301', 'JWT cryptographic operation failed');
}

/** A token with a `kid` is verified by that key or by the shared secret, which has none. */
function isSuitable(key: VerifyingKey, algorithm: string, id: string | null): boolean {
  if (key instanceof Uint8Array) return algorithm === 'HS256';
  return (
    keyTypes[algorithm.slice(0, 2)] === key.kty &&
    (key.alg === undefined || key.alg === algorithm) &&
    key.use !== 'enc' &&
    (id === null || key.kid === id)
  );
}

/** Verification needs no more, and a private key would be used for signing. */
function publicPart({ kty, crv, x, y, n, e, k }: JWK): JWK {
  const all = { kty, crv, x, y, n, e, k };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as unknown as JWK;
}

// ── Claims ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Tolerated clock skew in seconds. */
const skew = 30;

function checkClaims(claims: TokenClaims, audience: string | null): void {
  const refuse = (message: string) => new RefusedToken('PGRST303', message);
  const now = Math.floor(Date.now() / 1000);
  const times: Array<[name: string, isWrong: (value: number) => boolean, message: string]> = [
    ['exp', (value) => value < now - skew, 'JWT expired'],
    ['nbf', (value) => value > now + skew, 'JWT not yet valid'],
    ['iat', (value) => value > now + skew, 'JWT issued at future'],
  ];
  for (const [name, isWrong, message] of times) {
    const value = claims[name] ?? null;
    if (value === null) continue;
    if (typeof value !== 'number') throw refuse(`The JWT '${name}' claim must be a number`);
    if (isWrong(value)) throw refuse(message);
  }
  const audiences: unknown[] = [claims.aud ?? []].flat();
  if (!audiences.every((each) => typeof each === 'string')) {
    throw refuse("The JWT 'aud' claim must be a string or an array of strings");
  }
  if (audience !== null && audiences.length > 0 && !audiences.includes(audience)) {
    throw refuse('JWT not in audience');
  }
}

const matches: Readonly<Record<ClaimSearch['operator'], (value: string, text: string) => boolean>> = {
  '==': (value, text) => value === text,
  '!=': (value, text) => value !== text,
  '^==': (value, text) => value.startsWith(text),
  '==^': (value, text) => value.endsWith(text),
  '*==': (value, text) => value.includes(text),
};

/** The value at the end of the path; undefined without one. */
function valueAt(claims: TokenClaims, path: readonly ClaimStep[]): unknown {
  let value: unknown = claims;
  for (const step of path) {
    if ('key' in step) {
      const isHolder = typeof value === 'object' && value !== null && !Array.isArray(value);
      if (!isHolder || !Object.hasOwn(value as object, step.key)) return undefined;
      value = (value as TokenClaims)[step.key];
      continue;
    }
    if (!Array.isArray(value)) return undefined;
    if ('index' in step) value = value[step.index];
    else {
      const { operator, text } = step;
      value = value.find((each) => typeof each === 'string' && matches[operator](each, text));
    }
  }
  return value;
}
