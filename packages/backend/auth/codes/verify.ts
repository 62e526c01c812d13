// GET and POST /verify: uses a typed code or an opened link. Links of the service's own emails lead to
// confirm-page.ts instead.
import type { Session } from '../../database/database.ts';
import { audit } from '../audit.ts';
import { AuthError, invalid } from '../auth-error.ts';
import { type AuthContext, type AuthRequest, at, type Route } from '../context.ts';
import { endSignInCooldown, forgetGuesses, limitGuesses, limitNetwork, limitSubject } from '../limits.ts';
import { text } from '../requests/fields.ts';
import type { UserRow } from '../rows.ts';
import {
  type AuthenticationMethod,
  answerTokens,
  endSessions,
  startSession,
  type TokenResponse,
} from '../sessions/sessions.ts';
import { mailAddress, phoneNumber } from '../users/addresses.ts';
import { confirmAddress } from '../users/sign-up.ts';
import { findUser, isBanned, putIdentity, updateUser } from '../users/users.ts';
import { findFlow, issueAuthCode } from './flow-state.ts';
import {
  agreedStatus,
  dropTokens,
  findTokenByCode,
  findTokenByHash,
  isPkceHash,
  type OneTimeTokenRow,
  type TokenType,
  testCode,
} from './one-time-tokens.ts';

const emailTypes: Record<string, { tokens: readonly TokenType[]; method: AuthenticationMethod }> = {
  signup: { tokens: ['confirmation_token'], method: 'otp' },
  invite: { tokens: ['confirmation_token'], method: 'invite' },
  magiclink: { tokens: ['recovery_token', 'confirmation_token'], method: 'otp' },
  recovery: { tokens: ['recovery_token'], method: 'recovery' },
  email: { tokens: ['confirmation_token', 'recovery_token'], method: 'otp' },
  email_change: {
    tokens: ['email_change_token_new', 'email_change_token_current'],
    method: 'email_change',
  },
};
const phoneTypes: typeof emailTypes = {
  sms: { tokens: ['confirmation_token', 'recovery_token'], method: 'otp' },
  phone_change: { tokens: ['phone_change_token'], method: 'otp' },
};

const halfWay = 'Confirmation link accepted. Please proceed to confirm link sent to the other email';

type Outcome =
  | { tokens: TokenResponse }
  | { code: string }
  /** The first of two addresses has confirmed. */
  | { isHalfWay: true }
  | { error: AuthError };

/** Submitted proof: a code with its address, or a link's hash. */
type Proof = { hash: string } | { address: string; code: string };

async function verifyPost(request: AuthRequest, context: AuthContext): Promise<Response> {
  const { body } = request;
  const type = text(body, 'type');
  const [token, hash] = [text(body, 'token', 128), text(body, 'token_hash', 128)];
  const [email, phone] = [text(body, 'email'), text(body, 'phone')];
  if (!type) throw invalid('Verify requires a verification type');
  if (!token && !hash) throw invalid('Verify requires either a token or a token hash');
  if (hash && (token || email || phone)) throw invalid('Only the token_hash and type should be provided');
  const otpType = typeNamed(type);
  if (!hash && (email !== '') === (phone !== '')) {
    throw invalid('Only an email address or phone number should be provided on verify');
  }
  if (!hash && (email !== '') !== type in emailTypes) {
    throw invalid(`Verification type ${type} does not go with the address provided`);
  }
  const proof: Proof = hash
    ? { hash }
    : { address: email ? mailAddress(email) : phoneNumber(phone), code: token.trim() };
  if ('code' in proof) {
    await limitNetwork(context, 'verify', request.ip);
    await limitGuesses(context, 'wrongCode', proof.address, request.ip);
    const { wrongCodeOverall } = context.settings.limits;
    await limitSubject(context, 'wrongCodeOverall', proof.address, wrongCodeOverall);
  }
  const outcome = await settle(request, context, type, otpType, proof, false);
  if ('error' in outcome) throw await refusal(outcome.error, proof, request, context);
  if ('code' in proof) {
    const names = ['wrongCode', 'wrongCodeOverall'];
    await forgetGuesses(context.database, names, proof.address, request.ip);
  }
  if ('tokens' in outcome) return answerTokens(outcome.tokens);
  return Response.json({ msg: halfWay, code: '200' });
}

async function verifyGet(request: AuthRequest, context: AuthContext): Promise<Response> {
  const query = Object.fromEntries(request.url.searchParams);
  const [hash, type] = [text(query, 'token', 128), text(query, 'type')];
  if (!hash) throw invalid('Verify requires a token or a token hash');
  if (!type) throw invalid('Verify requires a verification type');
  typeNamed(type);
  try {
    return goTo(whereTo(await useLink(request, context, { hash, type }), request.redirectTo));
  } catch (error) {
    if (!(error instanceof AuthError)) throw error;
    return goTo(withLinkError(request.redirectTo, error, isPkceHash(hash)));
  }
}

/** The effect of a used link. */
export type UsedLink =
  | { type: string; tokens: TokenResponse }
  /** A code that the client of a PKCE flow exchanges for tokens. */
  | { code: string }
  /** The first of two addresses has confirmed. */
  | { isHalfWay: true; isPkce: boolean };

/**
 * Uses a link, once.
 * @throws AuthError otp_expired for an unknown, used or expired link, and others for what the link cannot do
 */
export async function useLink(
  request: AuthRequest,
  context: AuthContext,
  { hash, type }: { hash: string; type: string },
): Promise<UsedLink> {
  const isPkce = isPkceHash(hash);
  const outcome = await settle(request, context, type, typeNamed(type), { hash }, isPkce);
  if ('error' in outcome) throw await refusal(outcome.error, { hash }, request, context);
  if ('tokens' in outcome) return { type, tokens: outcome.tokens };
  return 'code' in outcome ? outcome : { isHalfWay: true, isPkce };
}

/**
 * The response to an unknown or void link. Only such links count: a valid one cannot be guessed, and is never refused because
 * of others in the same network.
 */
async function refusal(
  error: AuthError,
  proof: Proof,
  request: AuthRequest,
  context: AuthContext,
): Promise<AuthError> {
  if ('hash' in proof) await limitNetwork(context, 'verify', request.ip);
  return error;
}

/** The redirect URL after a link, with its result in the fragment (not sent to servers) or, for a PKCE flow, in the query. */
export function whereTo(used: UsedLink, target: string): string {
  if ('code' in used) return withResult(target, {}, { code: used.code });
  if ('isHalfWay' in used) {
    return withResult(target, { message: halfWay, sb: '' }, used.isPkce ? { message: halfWay } : {});
  }
  const { tokens, type } = used;
  return withResult(target, {
    access_token: tokens.access_token,
    expires_at: String(tokens.expires_at),
    expires_in: String(tokens.expires_in),
    refresh_token: tokens.refresh_token,
    sb: '',
    token_type: tokens.token_type,
    type,
  });
}

/** The redirect URL after a link that could not be used. */
export function withLinkError(target: string, error: AuthError, isPkce: boolean): string {
  const result = {
    error: error.status >= 500 ? 'server_error' : 'access_denied',
    error_code: error.code,
    error_description: error.message,
  };
  return withResult(target, { ...result, sb: '' }, isPkce ? result : {});
}

function withResult(
  target: string,
  fragment: Record<string, string>,
  query: Record<string, string> = {},
): string {
  const url = new URL(target);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  if (Object.keys(fragment).length > 0) url.hash = new URLSearchParams(fragment).toString();
  return url.href;
}

/** Redirects a browser with the result of a link. */
export const goTo = (location: string): Response =>
  new Response(null, {
    status: 303,
    headers: { location, 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' },
  });

/** @throws AuthError validation_failed for a type that does not exist */
function typeNamed(type: string): { tokens: readonly TokenType[]; method: AuthenticationMethod } {
  const allTypes = { ...emailTypes, ...phoneTypes };
  const found = Object.hasOwn(allTypes, type) ? allTypes[type] : undefined;
  if (!found) throw invalid('Unsupported verification type');
  return found;
}

/** Uses a proof, once; wrong codes count in any case. */
async function settle(
  request: AuthRequest,
  context: AuthContext,
  type: string,
  { tokens, method }: { tokens: readonly TokenType[]; method: AuthenticationMethod },
  proof: Proof,
  forCode: boolean,
): Promise<Outcome> {
  return context.database.transaction(async (tx): Promise<Outcome> => {
    const token = await findToken(tx, context, type, tokens, proof);
    const user = token && (await findUser(tx, { id: token.user_id }, { lock: true }));
    if (!token || !user || user.deleted_at !== null) return { error: notFound(proof) };
    if (isBanned(user, context)) return { error: new AuthError(403, 'user_banned', 'User is banned') };
    const flowId = forCode ? token.flow_state_id : null;
    const flow = flowId && (await findFlow(tx, { id: flowId }));
    // Before anything changes: the code of the same email still works.
    if (forCode && (!flow || flow.used_at !== null)) {
      return { error: new AuthError(404, 'flow_state_not_found', 'No valid flow state found for user.') };
    }
    const changed = await apply(tx, context, type, user, token);
    if (changed === null) return { isHalfWay: true };
    if (changed instanceof AuthError) return { error: changed };
    await audit(tx, context, 'login', changed, request, { verification_type: type });
    await endSignInCooldown(tx, token.relates_to);
    if (flow) return { code: await issueAuthCode(tx, context, flow.id, { userId: user.id }) };
    return { tokens: await startSession(tx, context, { user: changed, method, request }) };
  });
}

async function findToken(
  tx: Session,
  context: AuthContext,
  type: string,
  types: readonly TokenType[],
  proof: Proof,
): Promise<OneTimeTokenRow | null> {
  if ('hash' in proof) return findTokenByHash(tx, context, proof.hash, types);
  const fixed = testCode(context, proof.address);
  if (fixed !== null && fixed === proof.code && type === 'sms') {
    // A test phone needs no sent code, only a user with that phone.
    const user = await findUser(tx, { phone: proof.address });
    return (
      user && {
        id: '',
        user_id: user.id,
        token_type: 'recovery_token',
        token_hash: '',
        relates_to: proof.address,
        flow_state_id: null,
        created_at: at(context),
      }
    );
  }
  return findTokenByCode(tx, context, { ...proof, types });
}

/** @returns the user afterwards; null when another address must confirm too; an error when it cannot be done */
async function apply(
  tx: Session,
  context: AuthContext,
  type: string,
  user: UserRow,
  token: OneTimeTokenRow,
): Promise<UserRow | AuthError | null> {
  if (type === 'email_change') return changeEmail(tx, context, user, token);
  if (type === 'phone_change') return changePhone(tx, context, user);
  await dropTokens(tx, user.id, ['confirmation_token', 'recovery_token']);
  const isPhone = type === 'sms';
  const isConfirmed = isPhone ? user.phone_confirmed_at : user.email_confirmed_at;
  if (isConfirmed) return user;
  // The password was set before the address was proven, so it is not the owner's.
  const isNewlyProven = token.token_type === 'recovery_token' && user.encrypted_password !== null;
  if (isNewlyProven) {
    await updateUser(tx, context, user.id, { encrypted_password: null });
    await endSessions(tx, user.id);
  }
  const address = isPhone ? { phone: user.phone ?? '' } : { email: user.email ?? '' };
  return confirmAddress(tx, context, user, address);
}

async function changeEmail(
  tx: Session,
  context: AuthContext,
  user: UserRow,
  token: OneTimeTokenRow,
): Promise<UserRow | AuthError | null> {
  const newEmail = user.email_change;
  if (!newEmail) return notFound({ hash: '' });
  await dropTokens(tx, user.id, [token.token_type]);
  const needsBoth = context.settings.isEmailChangeSecure && user.email !== null;
  const agreed = agreedStatus[token.token_type] ?? 0;
  if (needsBoth && [0, agreed].includes(user.email_change_confirm_status)) {
    await updateUser(tx, context, user.id, { email_change_confirm_status: agreed });
    return null;
  }
  const other = await findUser(tx, { email: newEmail });
  if (other && other.id !== user.id) return emailExists();
  await dropTokens(tx, user.id);
  const changed = await updateUser(tx, context, user.id, {
    email: newEmail,
    email_change: '',
    email_change_confirm_status: 0,
    email_confirmed_at: at(context),
    is_anonymous: false,
    raw_user_meta_data: { ...user.raw_user_meta_data, email: newEmail, email_verified: true },
  });
  await putIdentity(tx, context, {
    userId: user.id,
    provider: 'email',
    providerId: user.id,
    data: { sub: user.id, email: newEmail, email_verified: true, phone_verified: false },
    isSignIn: false,
  });
  return changed;
}

async function changePhone(tx: Session, context: AuthContext, user: UserRow): Promise<UserRow | AuthError> {
  const newPhone = user.phone_change;
  if (!newPhone) return notFound({ address: '', code: '' });
  const other = await findUser(tx, { phone: newPhone });
  if (other && other.id !== user.id) return phoneExists();
  await dropTokens(tx, user.id, ['phone_change_token']);
  const changed = await updateUser(tx, context, user.id, {
    phone: newPhone,
    phone_change: '',
    phone_confirmed_at: at(context),
    is_anonymous: false,
  });
  await putIdentity(tx, context, {
    userId: user.id,
    provider: 'phone',
    providerId: user.id,
    data: { sub: user.id, phone: newPhone, phone_verified: true },
    isSignIn: false,
  });
  return changed;
}

/** 422 email_exists. */
export const emailExists = () =>
  new AuthError(422, 'email_exists', 'A user with this email address has already been registered');

/** 422 phone_exists. */
export const phoneExists = () =>
  new AuthError(422, 'phone_exists', 'A user with this phone number has already been registered');

const notFound = (proof: Proof) =>
  new AuthError(
    403,
    'otp_expired',
    'hash' in proof ? 'Email link is invalid or has expired' : 'Token has expired or is invalid',
  );

export const verifyRoutes: readonly Route[] = [
  { method: 'POST', pattern: '/verify', needs: 'nothing', handle: verifyPost },
  { method: 'GET', pattern: '/verify', needs: 'nothing', handle: verifyGet },
];
