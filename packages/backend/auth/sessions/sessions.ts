// Sessions and their tokens: start, refresh, raise to a second factor, end.
import { createHash, createHmac, randomBytes } from 'node:crypto';
import type { Session } from '../../database/database.ts';
import { AuthError } from '../auth-error.ts';
import { type AuthContext, type AuthRequest, at } from '../context.ts';
import type { SessionRow, UserRow } from '../rows.ts';
import { readUserJson, type UserJson } from '../users/user-json.ts';
import { updateUser } from '../users/users.ts';

/** Authentication method, as in the claim `amr` (RFC 8176, section 2), with GoTrue's values. */
export type AuthenticationMethod =
  | 'password'
  | 'otp'
  | 'totp'
  | 'oauth'
  | 'recovery'
  | 'invite'
  | 'magiclink'
  | 'email/signup'
  | 'email_change'
  | 'anonymous'
  | 'sso/saml'
  | 'web3'
  | 'mfa/phone'
  | 'mfa/webauthn'
  | 'passkey';

/** The response of a sign-in or refresh. */
export interface TokenResponse {
  access_token: string;
  token_type: 'bearer';
  expires_in: number;
  /** Seconds since 1970. */
  expires_at: number;
  refresh_token: string;
  user: UserJson;
  provider_token?: string;
  provider_refresh_token?: string;
  weak_password?: { message: string; reasons: string[] };
}

const sessionColumns = `id, user_id, created_at, updated_at, factor_id, aal, not_after, refreshed_at, user_agent,
  host(ip) as ip, tag, refresh_token_hmac_key`;

/**
 * Starts a session in an open transaction and returns its tokens. The caller has checked that the user may sign in (ban,
 * confirmation).
 */
export async function startSession(
  tx: Session,
  context: AuthContext,
  start: {
    user: Pick<UserRow, 'id'>;
    method: AuthenticationMethod;
    provider?: string | undefined;
    request: Pick<AuthRequest, 'ip' | 'userAgent'>;
    /** `aal2`, for example, after a passkey that verified its user. Default: `aal1`. */
    aal?: 'aal1' | 'aal2';
  },
): Promise<TokenResponse> {
  const { user, method, request } = start;
  const aal = start.aal ?? 'aal1';
  if (context.settings.isSingleSession) {
    // A sign-in with the password alone must not end sessions that passed a second factor.
    await tx.query(`delete from auth.sessions where user_id = $1::uuid and aal <= $2::auth.aal_level`, [
      user.id,
      aal,
    ]);
  }
  await endOverSessions(tx, context, user.id);
  const { rows } = await tx.query<SessionRow>(
    `insert into auth.sessions (user_id, aal, user_agent, ip, refresh_token_hmac_key, created_at, updated_at)
     values ($1::uuid, $2::auth.aal_level, $3, $4::inet, $5, $6::timestamptz, $6::timestamptz)
     returning ${sessionColumns}`,
    [
      user.id,
      aal,
      request.userAgent?.slice(0, 1000) ?? null,
      request.ip,
      randomBytes(32).toString('base64url'),
      at(context),
    ],
  );
  const [session] = rows;
  if (!session) throw new Error('the session was not created');
  await addMethod(tx, context, session.id, method, start.provider);
  await updateUser(tx, context, user.id, { last_sign_in_at: at(context) });
  return tokenResponse(tx, context, session, await mintRefreshToken(tx, context, session, null));
}

/**
 * Raises a session to `aal2` in an open transaction: adds the method to its `amr`, replaces its refresh token, and ends the
 * user's sessions below.
 */
export async function upgradeSession(
  tx: Session,
  context: AuthContext,
  upgrade: { session: Pick<SessionRow, 'id'>; method: AuthenticationMethod; factorId: string },
): Promise<TokenResponse> {
  const { rows } = await tx.query<SessionRow>(
    `update auth.sessions set aal = 'aal2', factor_id = $2::uuid, updated_at = $3::timestamptz
     where id = $1::uuid returning ${sessionColumns}`,
    [upgrade.session.id, upgrade.factorId, at(context)],
  );
  const [session] = rows;
  if (!session) throw sessionGone();
  await addMethod(tx, context, session.id, upgrade.method);
  await tx.query(
    `delete from auth.sessions
     where user_id = $1::uuid and id <> $2::uuid and (aal < 'aal2'::auth.aal_level or $3::boolean)`,
    [session.user_id, session.id, context.settings.isSingleSession],
  );
  const active = await activeToken(tx, session.id);
  return tokenResponse(
    tx,
    context,
    session,
    await mintRefreshToken(tx, context, session, active?.token ?? null),
  );
}

/** Adds an authentication method to a session; one that exists gets the current time. */
async function addMethod(
  tx: Session,
  context: AuthContext,
  sessionId: string,
  method: AuthenticationMethod,
  provider?: string,
): Promise<void> {
  await tx.query(
    `insert into auth.mfa_amr_claims (session_id, authentication_method, provider, created_at, updated_at)
     values ($1::uuid, $2, $3, $4::timestamptz, $4::timestamptz)
     on conflict (session_id, authentication_method) do update set updated_at = excluded.updated_at`,
    [sessionId, method, provider ?? null, at(context)],
  );
}

/** Writes the tokens of a session. */
export async function tokenResponse(
  tx: Session,
  context: AuthContext,
  session: SessionRow,
  refreshToken: string,
): Promise<TokenResponse> {
  const { settings, accessTokens } = context;
  const user = await readUserJson(tx, session.user_id);
  const { rows: methods } = await tx.query<{ method: string; provider: string | null; timestamp: number }>(
    `select authentication_method as method, provider, extract(epoch from updated_at)::bigint as timestamp
     from auth.mfa_amr_claims where session_id = $1::uuid order by updated_at desc, id`,
    [session.id],
  );
  const issuedAt = Math.floor(context.now().getTime() / 1000);
  const expiresAt = issuedAt + settings.jwtLifetime;
  const accessToken = await accessTokens.sign({
    iss: settings.externalUrl,
    sub: user.id,
    aud: String(user.aud),
    exp: expiresAt,
    iat: issuedAt,
    email: user.email,
    phone: user.phone,
    app_metadata: user.app_metadata,
    user_metadata: user.user_metadata,
    role: user.role,
    aal: session.aal,
    amr: methods.map(({ method, provider, timestamp }) => ({
      method,
      timestamp,
      ...(provider ? { provider } : {}),
    })),
    session_id: session.id,
    is_anonymous: user.is_anonymous,
  });
  return {
    access_token: accessToken,
    token_type: 'bearer',
    expires_in: settings.jwtLifetime,
    expires_at: expiresAt,
    refresh_token: refreshToken,
    user,
  };
}

/** Responds with tokens. They must not be cached. */
export function answerTokens(tokens: TokenResponse): Response {
  const [, payload = ''] = tokens.access_token.split('.');
  const { session_id: sessionId } = JSON.parse(Buffer.from(payload, 'base64url').toString());
  return Response.json(tokens, {
    headers: {
      'cache-control': 'no-store',
      'sb-auth-user-id': tokens.user.id,
      'sb-auth-session-id': sessionId,
    },
  });
}

/** The authentication methods that an access token lists (`amr`), newest first. */
export function methodsIn(claims: Readonly<Record<string, unknown>>): string[] {
  const { amr } = claims;
  return Array.isArray(amr) ? amr.map((entry) => String(entry?.method ?? '')) : [];
}

/** Finds a session. */
export async function findSession(
  tx: Session,
  id: string,
  options: { lock?: boolean } = {},
): Promise<SessionRow | null> {
  const { rows } = await tx.query<SessionRow>(
    `select ${sessionColumns} from auth.sessions where id = $1::uuid ${options.lock ? 'for update' : ''}`,
    [id],
  );
  return rows[0] ?? null;
}

/** Whether a session has ended: by its own expiry, the time box, or inactivity. */
export function isOver(session: SessionRow, context: Pick<AuthContext, 'settings' | 'now'>): boolean {
  const { sessionTimeBox, sessionInactivity } = context.settings;
  const now = context.now().getTime();
  const since = (timestamp: string) => (now - new Date(timestamp).getTime()) / 1000;
  if (session.not_after !== null && since(session.not_after) >= 0) return true;
  if (sessionTimeBox !== null && since(session.created_at) > sessionTimeBox) return true;
  return sessionInactivity !== null && since(session.refreshed_at ?? session.created_at) > sessionInactivity;
}

/** Deletes the sessions of a user that `isOver` has ended, so that lists of sessions do not show them. */
async function endOverSessions(tx: Session, context: AuthContext, userId: string): Promise<void> {
  const { sessionTimeBox, sessionInactivity } = context.settings;
  if (sessionTimeBox === null && sessionInactivity === null) return;
  await tx.query(
    `delete from auth.sessions where user_id = $1::uuid
       and (created_at < $2::timestamptz or coalesce(refreshed_at, created_at) < $3::timestamptz)`,
    [
      userId,
      sessionTimeBox === null ? null : at(context, -sessionTimeBox),
      sessionInactivity === null ? null : at(context, -sessionInactivity),
    ],
  );
}

/** Ends sessions of a user: all, one, or all but one. */
export async function endSessions(
  tx: Session,
  userId: string,
  which: { only?: string; except?: string } = {},
): Promise<void> {
  await tx.query(
    `delete from auth.sessions where user_id = $1::uuid
       and ($2::uuid is null or id = $2::uuid) and ($3::uuid is null or id <> $3::uuid)`,
    [userId, which.only ?? null, which.except ?? null],
  );
}

/** session_not_found. @param status Default: 403 */
export const sessionGone = (status = 403) =>
  new AuthError(status, 'session_not_found', 'Session from session_id claim in JWT does not exist');

export interface RefreshTokenRow {
  token: string;
  user_id: string;
  revoked: boolean;
  updated_at: string;
  parent: string | null;
  session_id: string;
}

/** The stored part of a refresh token. */
export const hashRefreshToken = (token: string) => createHash('sha256').update(token).digest('hex');

/** The one unused token of a session. */
export async function activeToken(tx: Session, sessionId: string): Promise<RefreshTokenRow | null> {
  const { rows } = await tx.query<RefreshTokenRow>(
    `select token, user_id, revoked, updated_at, parent, session_id from auth.refresh_tokens
     where session_id = $1::uuid and not revoked order by id desc limit 1`,
    [sessionId],
  );
  return rows[0] ?? null;
}

/**
 * Creates a session's next refresh token; earlier ones are used. The session's row must be locked or new.
 * @param parent hash of its predecessor
 */
export async function mintRefreshToken(
  tx: Session,
  context: AuthContext,
  session: SessionRow,
  parent: string | null,
): Promise<string> {
  await tx.query(
    `update auth.refresh_tokens set revoked = true, updated_at = $2::timestamptz
     where session_id = $1::uuid and not revoked`,
    [session.id, at(context)],
  );
  const { rows } = await tx.query<{ counter: number }>(
    `update auth.sessions set refresh_token_counter = refresh_token_counter + 1
     where id = $1::uuid returning refresh_token_counter as counter`,
    [session.id],
  );
  const token = refreshTokenAt(context, session, rows[0]?.counter ?? 0);
  await tx.query(
    `insert into auth.refresh_tokens (token, user_id, parent, session_id, created_at, updated_at)
     values ($1, $2, $3, $4::uuid, $5::timestamptz, $5::timestamptz)`,
    [hashRefreshToken(token), session.user_id, parent, session.id, at(context)],
  );
  return token;
}

/** The active refresh token, derived again; null when the service's secret has changed since. */
export async function currentRefreshToken(
  tx: Session,
  context: AuthContext,
  session: SessionRow,
  active: RefreshTokenRow,
): Promise<string | null> {
  const { rows } = await tx.query<{ counter: number }>(
    'select refresh_token_counter as counter from auth.sessions where id = $1::uuid',
    [session.id],
  );
  const token = refreshTokenAt(context, session, rows[0]?.counter ?? 0);
  return hashRefreshToken(token) === active.token ? token : null;
}

// A leaked database reveals no tokens: half of their input is elsewhere.
function refreshTokenAt(context: AuthContext, session: SessionRow, counter: number): string {
  return createHmac('sha256', context.secret)
    .update(`${session.id}.${session.refresh_token_hmac_key}.${counter}`)
    .digest('base64url');
}
