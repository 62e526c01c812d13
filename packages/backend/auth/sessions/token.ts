// POST /token: grants by password and refresh token; other grants are in their own folders.
import { audit } from '../audit.ts';
import { AuthError, invalid } from '../auth-error.ts';
import { type AuthContext, type AuthRequest, at, type Grants } from '../context.ts';
import { forgetGuesses, limitGuesses, limitNetwork, limitSubject } from '../limits.ts';
import { text } from '../requests/fields.ts';
import { phoneNumber } from '../users/addresses.ts';
import { findUser, isBanned } from '../users/users.ts';
import {
  activeToken,
  answerTokens,
  currentRefreshToken,
  findSession,
  hashRefreshToken,
  isOver,
  mintRefreshToken,
  type RefreshTokenRow,
  sessionGone,
  startSession,
  type TokenResponse,
  tokenResponse,
} from './sessions.ts';

async function passwordGrant(request: AuthRequest, context: AuthContext): Promise<Response> {
  const { body } = request;
  const { settings } = context;
  const [email, phone] = [text(body, 'email').trim().toLowerCase(), text(body, 'phone')];
  const password = text(body, 'password');
  if (email && phone) throw invalid('Only an email address or phone number should be provided on login.');
  if (!email && !phone) throw invalid('missing email or phone');
  if (email && !settings.isEmailEnabled) {
    throw new AuthError(422, 'email_provider_disabled', 'Email logins are disabled');
  }
  if (phone && !settings.isPhoneEnabled) {
    throw new AuthError(422, 'phone_provider_disabled', 'Phone logins are disabled');
  }
  const by = email ? { email } : { phone: phoneNumber(phone) };
  const subject = email || phone;
  // Before any work, and for unknown accounts too, so that neither the answer nor its time shows which accounts exist.
  await limitNetwork(context, 'signIn', request.ip);
  await limitGuesses(context, 'wrongPassword', subject, request.ip);
  const found = await findUser(context.database, by);
  const isRight = await context.passwords.matches(password, found?.encrypted_password ?? null);
  if (!found || !isRight || found.deleted_at !== null) throw wrongCredentials();
  if (isBanned(found, context)) throw banned();
  if (email && !found.email_confirmed_at) {
    throw new AuthError(400, 'email_not_confirmed', 'Email not confirmed');
  }
  if (!email && !found.phone_confirmed_at) {
    throw new AuthError(400, 'phone_not_confirmed', 'Phone not confirmed');
  }
  const tokens = await context.database.transaction(async (tx) => {
    const user = await findUser(tx, { id: found.id }, { lock: true });
    // The user may have been changed, banned or deleted during the comparison.
    if (user?.encrypted_password !== found.encrypted_password) throw wrongCredentials();
    if (isBanned(user, context)) throw banned();
    await forgetGuesses(tx, ['wrongPassword'], subject, request.ip);
    await audit(tx, context, 'login', user, request, { provider: email ? 'email' : 'phone' });
    return startSession(tx, context, { user, method: 'password', request });
  });
  const weakness = await context.passwords.weakness(password, [subject]);
  return answerTokens(weakness ? { ...tokens, weak_password: weakness } : tokens);
}

async function refreshGrant(request: AuthRequest, context: AuthContext): Promise<Response> {
  const refreshToken = text(request.body, 'refresh_token');
  // Tokens of twelve characters are of a retired format.
  if (!/^(?:[a-z0-9]{12}|[A-Za-z0-9_-]{43})$/.test(refreshToken)) throw invalid('Refresh token is not valid');
  const sessionId = await sessionOf(context, refreshToken);
  // An existing token cannot be guessed: attempts of others in the network do not refuse it.
  if (sessionId === null) {
    await limitNetwork(context, 'tokenRefresh', request.ip);
    throw tokenNotFound();
  }
  await limitSubject(context, 'tokenRefresh', sessionId, context.settings.limits.tokenRefresh);
  const outcome = await context.database.transaction((tx) => refresh(tx, request, context, refreshToken));
  // Thrown after the commit, so that a session ended by the refusal stays ended.
  if (outcome instanceof AuthError) throw outcome;
  return answerTokens(outcome);
}

async function sessionOf(context: AuthContext, refreshToken: string): Promise<string | null> {
  const { rows } = await context.database.query<{ session_id: string }>(
    'select session_id from auth.refresh_tokens where token = $1',
    [hashRefreshToken(refreshToken)],
  );
  return rows[0]?.session_id ?? null;
}

/**
 * Refreshes a session. Refreshes of one session wait for each other on its row: of several tabs with the same token one rotates
 * it, and the others get the same result.
 */
async function refresh(
  tx: Parameters<typeof findSession>[0],
  request: AuthRequest,
  context: AuthContext,
  refreshToken: string,
): Promise<TokenResponse | AuthError> {
  const { settings } = context;
  const hash = hashRefreshToken(refreshToken);
  const read = async (): Promise<RefreshTokenRow | null> => {
    const { rows } = await tx.query<RefreshTokenRow>(
      `select token, user_id, revoked, updated_at, parent, session_id from auth.refresh_tokens where token = $1`,
      [hash],
    );
    return rows[0] ?? null;
  };
  const first = await read();
  if (!first) return tokenNotFound();
  const session = await findSession(tx, first.session_id, { lock: true });
  if (!session) return sessionGone(400);
  // It may have been used while this request waited for the session.
  const token = await read();
  if (!token) return tokenNotFound();
  const user = await findUser(tx, { id: session.user_id });
  if (!user || user.deleted_at !== null) return tokenNotFound();
  if (isBanned(user, context)) return banned();
  const active = token.revoked ? await activeToken(tx, session.id) : token;
  if (!active) return alreadyUsed();
  if (isOver(session, context)) {
    return new AuthError(400, 'session_expired', 'Invalid Refresh Token: Session Expired');
  }

  const answer = async (refreshToken: string): Promise<TokenResponse> => {
    await tx.query(
      `update auth.sessions set refreshed_at = $2::timestamptz, updated_at = $2::timestamptz,
         user_agent = coalesce($3, user_agent), ip = coalesce($4::inet, ip) where id = $1::uuid`,
      [session.id, at(context), request.userAgent?.slice(0, 1000) ?? null, request.ip],
    );
    return tokenResponse(tx, context, session, refreshToken);
  };
  if (!token.revoked) return answer(await mintRefreshToken(tx, context, session, token.token));

  const age = (context.now().getTime() - new Date(token.updated_at).getTime()) / 1000;
  const isForgiven = active.parent === token.token || age <= settings.refreshReuseInterval;
  if (isForgiven) {
    const again = await currentRefreshToken(tx, context, session, active);
    return answer(again ?? (await mintRefreshToken(tx, context, session, active.token)));
  }
  if (settings.endsStolenSessions) {
    await tx.query(
      `update auth.refresh_tokens set revoked = true, updated_at = $2::timestamptz
       where session_id = $1::uuid and not revoked`,
      [session.id, at(context)],
    );
    await tx.query('update auth.sessions set not_after = $2::timestamptz where id = $1::uuid', [
      session.id,
      at(context),
    ]);
    await audit(tx, context, 'token_revoked', user, request, { session_id: session.id });
  }
  return alreadyUsed();
}

const wrongCredentials = () => new AuthError(400, 'invalid_credentials', 'Invalid login credentials');

const banned = () => new AuthError(400, 'user_banned', 'User is banned');

const tokenNotFound = () =>
  new AuthError(400, 'refresh_token_not_found', 'Invalid Refresh Token: Refresh Token Not Found');

const alreadyUsed = () =>
  new AuthError(400, 'refresh_token_already_used', 'Invalid Refresh Token: Already Used');

export const ownGrants: Grants = { password: passwordGrant, refresh_token: refreshGrant };

/** Combines the handlers of `grant_type` into POST /token. */
export function createTokenHandler(grants: Grants) {
  return async (request: AuthRequest, context: AuthContext): Promise<Response> => {
    const type = request.url.searchParams.get('grant_type') ?? '';
    const grant = Object.hasOwn(grants, type) ? grants[type] : undefined;
    if (!grant) throw new AuthError(400, 'invalid_credentials', 'unsupported_grant_type');
    return grant(request, context);
  };
}
