// Who calls the data service by itself: the Authorization header becomes claims, with PostgREST's answers otherwise.
import { createLocalJWKSet, errors, type JWTPayload, jwtVerify } from 'jose';
import type { Claims } from '../backend/database/as-role.ts';

export interface TokenSettings {
  /** The role of who brings no token; null when everyone must. */
  anonymousRole: string | null;
  /** A shared secret, or a JSON Web Key or key set as JSON; null when no token can be checked. */
  secret: string | null;
  isSecretBase64: boolean;
  /** Whom tokens must be for, where they say it; null when that is not looked at. */
  audience: string | null;
  /** Where in a token the role is, from the outside in. */
  roleClaim: readonly string[];
}

/** A request that is answered before the service is asked. */
export class RefusedToken extends Error {
  override readonly name = 'RefusedToken';
  readonly code: string;
  readonly status: number;

  constructor(code: string, message: string, status = 401) {
    super(message);
    this.code = code;
    this.status = status;
  }

  /** The answer, in the form of PostgREST's errors. */
  response(method: string): Response {
    const challenge =
      this.code === 'PGRST302'
        ? 'Bearer'
        : `Bearer error="invalid_token", error_description="${this.message}"`;
    const body = JSON.stringify({ code: this.code, message: this.message, details: null, hint: null });
    return new Response(method === 'HEAD' ? null : body, {
      status: this.status,
      headers: {
        'content-type': 'application/json; charset=utf-8',
        'proxy-status': `PostgREST; error=${this.code}`,
        ...(this.status === 401 ? { 'www-authenticate': challenge } : {}),
      },
    });
  }
}

/**
 * Makes the check of Authorization headers.
 * @returns a function from a header's value, null for none, to claims; it throws RefusedToken
 */
export function createTokenCheck(settings: TokenSettings): (header: string | null) => Promise<Claims> {
  const { anonymousRole, secret, audience, roleClaim } = settings;
  const verify = secret === null ? null : verifierOf(secret, settings.isSecretBase64);
  return async (header) => {
    const token = /^bearer(?: (.*))?$/i.exec(header?.trim() ?? '');
    const claims = token ? await verified((token[1] ?? '').trim()) : {};
    const role = valueAt(claims, roleClaim) ?? anonymousRole;
    if (typeof role !== 'string') throw new RefusedToken('PGRST302', 'Anonymous access is disabled');
    return { ...claims, role };
  };

  async function verified(token: string): Promise<JWTPayload> {
    if (!verify) throw new RefusedToken('PGRST300', 'Server lacks JWT secret', 500);
    if (token === '') throw new RefusedToken('PGRST301', 'Empty JWT is sent in Authorization header');
    const parts = token.split('.').length;
    if (parts !== 3) throw new RefusedToken('PGRST301', `Expected 3 parts in JWT; got ${parts}`);
    const claims = await verify(token).catch((error) => {
      const isAlgorithm =
        error instanceof errors.JOSEAlgNotAllowed || error instanceof errors.JOSENotSupported;
      throw new RefusedToken(
        'PGRST301',
        isAlgorithm ? 'Wrong or unsupported encoding algorithm' : 'No suitable key or wrong key type',
      );
    });
    checkClaims(claims, audience);
    return claims;
  }
}

function verifierOf(secret: string, isBase64: boolean): (token: string) => Promise<JWTPayload> {
  const text = isBase64 ? null : secret.trim();
  // Times are looked at afterwards, in words of ours.
  const currentDate = new Date(0);
  const claimsOf = (token: string) =>
    JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
  const readClaims = async (token: string, check: Promise<unknown>) => {
    await check.catch((error) => {
      if (!(error instanceof errors.JWTClaimValidationFailed) && !(error instanceof errors.JWTExpired)) {
        throw error;
      }
    });
    return claimsOf(token) as JWTPayload;
  };
  if (text?.startsWith('{')) {
    const parsed = JSON.parse(text);
    const keys = createLocalJWKSet(parsed.keys ? parsed : { keys: [parsed] });
    return (token) => readClaims(token, jwtVerify(token, keys, { currentDate }));
  }
  const key = isBase64
    ? Buffer.from(secret.replaceAll('_', '/').replaceAll('-', '+').replaceAll('.', '='), 'base64')
    : new TextEncoder().encode(secret);
  return (token) => readClaims(token, jwtVerify(token, key, { algorithms: ['HS256'], currentDate }));
}

/** Seconds clocks may differ by. */
const skew = 30;

function checkClaims(claims: JWTPayload, audience: string | null): void {
  const refuse = (message: string) => new RefusedToken('PGRST303', message);
  const values: Record<string, unknown> = { ...claims };
  for (const name of ['exp', 'nbf', 'iat']) {
    const value = values[name] ?? null;
    if (value !== null && typeof value !== 'number') {
      throw refuse(`The JWT '${name}' claim must be a number`);
    }
  }
  const audiences: unknown[] = [values.aud ?? []].flat();
  if (!audiences.every((each) => typeof each === 'string')) {
    throw refuse("The JWT 'aud' claim must be a string or an array of strings");
  }
  const now = Date.now() / 1000;
  const { exp, nbf, iat } = claims;
  if (exp && exp < now - skew) throw refuse('JWT expired');
  if (nbf && nbf > now + skew) throw refuse('JWT not yet valid');
  if (iat && iat > now + skew) throw refuse('JWT issued at future');
  if (audience !== null && audiences.length > 0 && !audiences.includes(audience)) {
    throw refuse('JWT not in audience');
  }
}

function valueAt(claims: JWTPayload, path: readonly string[]): unknown {
  let value: unknown = claims;
  for (const step of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return null;
    value = (value as Record<string, unknown>)[step];
  }
  return value;
}
