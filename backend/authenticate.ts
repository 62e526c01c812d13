// From an API key or an access token to verified claims. Every service asks here, none looks into a token itself.
import { createLocalJWKSet, errors, jwtVerify } from 'jose';
import { type ApiKeys, isSameSecret } from './api-keys.ts';
import { type Claims, requestRoles } from './database/as-role.ts';

/** The token cannot be accepted; `code` and `message` are those of PostgREST (its error reference, group 3). */
export class InvalidToken extends Error {
  override readonly name = 'InvalidToken';
  readonly code: 'PGRST301' | 'PGRST303';
  constructor(code: 'PGRST301' | 'PGRST303', message: string) {
    super(message);
    this.code = code;
  }
}

export type Authenticate = (token: string) => Promise<Claims>;

/**
 * Makes the check for a set of keys.
 * @returns a function from a key or token to its claims; it throws InvalidToken for anything else
 */
export function createAuthenticate(keys: ApiKeys): Authenticate {
  const publicKeys = createLocalJWKSet({ keys: keys.signingKeys.map(({ d: _private, ...key }) => key) });
  return async (token) => {
    if (isSameSecret(token, keys.publishable)) return { role: 'anon' };
    if (isSameSecret(token, keys.secret)) return { role: 'service_role' };
    const parts = token.split('.').length;
    if (parts !== 3) throw new InvalidToken('PGRST301', `Expected 3 parts in JWT; got ${parts}`);
    try {
      const { payload } = await jwtVerify(token, publicKeys, { algorithms: ['ES256'], clockTolerance: 30 });
      const { role } = payload;
      if (typeof role !== 'string' || !requestRoles.has(role)) {
        throw new InvalidToken('PGRST303', 'The role claim names no role of this API');
      }
      return { ...payload, role };
    } catch (error) {
      if (error instanceof InvalidToken) throw error;
      if (error instanceof errors.JWTExpired) throw new InvalidToken('PGRST303', 'JWT expired');
      if (error instanceof errors.JWTClaimValidationFailed)
        throw new InvalidToken('PGRST303', 'JWT not yet valid');
      throw new InvalidToken('PGRST301', 'No suitable key or wrong key type');
    }
  };
}
