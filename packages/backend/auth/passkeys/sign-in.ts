// POST /passkeys/authentication/options and /verify: signs in with a passkey alone, without a name.
import { audit } from '../audit.ts';
import { AuthError } from '../auth-error.ts';
import type { AuthContext, AuthRequest } from '../context.ts';
import { limitNetwork } from '../limits.ts';
import { text } from '../requests/fields.ts';
import type { UserRow } from '../rows.ts';
import { answerTokens, startSession } from '../sessions/sessions.ts';
import { findUser, isBanned } from '../users/users.ts';
import {
  answeringCredential,
  authenticationOptions,
  userHandleOf,
  verifiedAuthentication,
} from './ceremony.ts';
import { lockCredential, noteUse, storeChallenge, takeChallenge, verificationFailed } from './credentials.ts';
import { credentialIn } from './registration.ts';
import { relyingPartyOf } from './relying-party.ts';

/**
 * Returns the browser's options for any user's passkey.
 * @returns 200 {challenge_id, options, expires_at (seconds since 1970)}
 * @throws AuthError 429 over_request_rate_limit
 */
export async function offerSignIn(request: AuthRequest, context: AuthContext): Promise<Response> {
  await limitNetwork(context, 'passkey', request.ip);
  const options = await authenticationOptions(relyingPartyOf(context.settings), [], 'passkey');
  const { id, expiresAt } = await storeChallenge(
    context.database,
    context,
    'authentication',
    null,
    options.challenge,
  );
  return Response.json(
    { challenge_id: id, options, expires_at: expiresAt },
    { headers: { 'cache-control': 'no-store' } },
  );
}

/**
 * Signs in.
 * @returns 200 with tokens
 * @throws AuthError as takeChallenge; webauthn_verification_failed (400), also for an unknown credential; 403
 *   email_not_confirmed, phone_not_confirmed, user_banned; 429 over_request_rate_limit
 */
export async function verifySignIn(request: AuthRequest, context: AuthContext): Promise<Response> {
  const { database, settings } = context;
  await limitNetwork(context, 'passkey', request.ip);
  const response = credentialIn(request);
  const challengeId = text(request.body, 'challenge_id');
  const challenge = await takeChallenge(database, context, 'authentication', null, challengeId);
  const credentialId = answeringCredential(response);
  if (!credentialId) throw verificationFailed();
  const tokens = await database.transaction(async (tx) => {
    const credential = await lockCredential(tx, credentialId);
    if (!credential || userHandleOf(response) !== credential.userId) throw verificationFailed();
    const used = await verifiedAuthentication(
      relyingPartyOf(settings),
      response,
      challenge,
      credential,
      'passkey',
    );
    if (!used) throw verificationFailed();
    const user = await findUser(tx, { id: credential.userId });
    if (!user || user.deleted_at !== null) throw verificationFailed();
    checkMaySignIn(user, context);
    await noteUse(tx, context, credential.id, used);
    await audit(tx, context, 'login', user, request, { provider: 'passkey' });
    return startSession(tx, context, { user, method: 'passkey', request });
  });
  return answerTokens(tokens);
}

function checkMaySignIn(user: UserRow, context: AuthContext): void {
  if (user.email && !user.email_confirmed_at) {
    throw new AuthError(403, 'email_not_confirmed', 'Email not confirmed');
  }
  if (user.phone && !user.phone_confirmed_at) {
    throw new AuthError(403, 'phone_not_confirmed', 'Phone not confirmed');
  }
  if (isBanned(user, context)) throw new AuthError(403, 'user_banned', 'User is banned');
}
