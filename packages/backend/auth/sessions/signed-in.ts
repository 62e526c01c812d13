// Authenticates a bearer token: a user with a session, or an administrator.

import type { ApiKeys } from '../../api-keys.ts';
import { type AccessTokens, InvalidToken, roleOfKey } from '../../authenticate.ts';
import { AuthError } from '../auth-error.ts';
import type { AuthContext, AuthRequest, UserRequest } from '../context.ts';
import { isUuid } from '../requests/fields.ts';
import { bearerOf } from '../requests/read-request.ts';
import { findUser, isBanned } from '../users/users.ts';
import { findSession, isOver, sessionGone } from './sessions.ts';

/**
 * Finds the signed-in user and session.
 * @throws AuthError 401 no_authorization; 403 bad_jwt, user_not_found, session_not_found, session_expired, user_banned
 */
export async function signedIn(request: AuthRequest, context: AuthContext): Promise<UserRequest> {
  const claims = await claimsOf(request.bearer, context.accessTokens);
  if (typeof claims.sub !== 'string' || !claims.sub) throw badToken('invalid claim: missing sub claim');
  if (!isUuid(claims.sub)) {
    throw new AuthError(400, 'bad_jwt', 'invalid claim: sub claim must be a UUID');
  }
  const { session_id: sessionId } = claims;
  if (sessionId !== undefined && sessionId !== '' && !isUuid(sessionId)) {
    throw badToken('invalid claim: session_id claim must be a UUID');
  }
  const user = await findUser(context.database, { id: claims.sub });
  if (!user || user.deleted_at !== null) {
    throw new AuthError(403, 'user_not_found', 'User from sub claim in JWT does not exist');
  }
  const session = sessionId ? await findSession(context.database, String(sessionId)) : null;
  if (sessionId && session?.user_id !== user.id) throw sessionGone();
  if (session && isOver(session, context)) {
    throw new AuthError(403, 'session_expired', 'Session has expired');
  }
  if (isBanned(user, context)) throw new AuthError(403, 'user_banned', 'User is banned');
  return { ...request, user, session, claims };
}

/** @throws AuthError 401 no_authorization, 403 bad_jwt or not_admin */
export async function checkAdmin(
  headers: Headers,
  context: AuthContext,
  keys: Pick<ApiKeys, 'publishable' | 'secret'>,
): Promise<void> {
  // Gateways accept the secret key in either header.
  const bearer = bearerOf(headers);
  const key = bearer ?? headers.get('apikey');
  if (key && roleOfKey(keys, key) === 'service_role') return;
  const { role } =
    key && roleOfKey(keys, key) === 'anon' ? { role: 'anon' } : await claimsOf(bearer, context.accessTokens);
  if (typeof role !== 'string' || !context.settings.adminRoles.includes(role)) {
    throw new AuthError(403, 'not_admin', 'User not allowed');
  }
}

async function claimsOf(bearer: string | null, accessTokens: AccessTokens) {
  if (!bearer) {
    throw new AuthError(401, 'no_authorization', 'This endpoint requires a valid Bearer token');
  }
  try {
    return await accessTokens.verify(bearer);
  } catch (error) {
    if (!(error instanceof InvalidToken)) throw error;
    throw badToken(`invalid JWT: unable to parse or verify signature, ${error.message}`);
  }
}

const badToken = (message: string) => new AuthError(403, 'bad_jwt', message);
