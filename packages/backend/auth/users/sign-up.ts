// POST /signup: a new user with a password, or an anonymous one.
import { randomUUID } from 'node:crypto';
import { DatabaseError, type Session } from '../../database/database.ts';
import { audit } from '../audit.ts';
import { AuthError, invalid } from '../auth-error.ts';
import { sendCode, sendEmail } from '../codes/emails.ts';
import { type Pkce, readPkce, startFlow } from '../codes/flow-state.ts';
import { dropTokens, makeToken, type SentToken } from '../codes/one-time-tokens.ts';
import { delayAnswer } from '../constant-time.ts';
import { type AuthContext, type AuthRequest, at, type Route } from '../context.ts';
import { enforceCooldown, limitNetwork } from '../limits.ts';
import { checkMetadata, object, text } from '../requests/fields.ts';
import type { Json, UserRow } from '../rows.ts';
import { answerTokens, startSession, type TokenResponse } from '../sessions/sessions.ts';
import { mailAddress, phoneNumber, textChannel } from './addresses.ts';
import { readUserJson, type UserJson } from './user-json.ts';
import { createUser, findUser, putIdentity, updateUser } from './users.ts';

/** The requested address, of one kind. */
export type Address = { email: string } | { phone: string };

type Outcome =
  | { tokens: TokenResponse }
  | { user: UserJson; sent: SentToken }
  /** The address is taken. */
  | { taken: true };

async function signUp(request: AuthRequest, context: AuthContext): Promise<Response> {
  const { settings } = context;
  const { body } = request;
  const data = checkMetadata(object(body, 'data') ?? {});
  if (!text(body, 'email') && !text(body, 'phone')) return signUpAnonymously(request, context, data);
  await limitNetwork(context, 'signUp', request.ip);
  if (!settings.isSignupOpen) throw signupDisabled();
  const password = text(body, 'password');
  if (!password) throw invalid('Signup requires a valid password');
  const address = readAddress(request, 'Only an email address or phone number should be provided on signup.');
  const pkce = readPkce(body);
  const channel = textChannel(text(body, 'channel'));
  if ('email' in address && !settings.isEmailEnabled) {
    throw new AuthError(400, 'email_provider_disabled', 'Email signups are disabled');
  }
  if ('phone' in address && !settings.isPhoneEnabled) {
    throw new AuthError(400, 'phone_provider_disabled', 'Phone signups are disabled');
  }
  if ('phone' in address && pkce) throw invalid('PKCE not supported for phone signups');
  await context.passwords.check(password, [sentTo(address).address]);

  delayAnswer(request, context);
  const isConfirmed = 'email' in address ? settings.autoconfirmsEmail : settings.autoconfirmsPhone;
  if (!isConfirmed) await enforceCooldown(context, { ...sentTo(address), purpose: 'signup', ip: request.ip });
  const hashed = await context.passwords.hash(password);
  const outcome = await context.database
    .transaction((tx) => addOrFind(tx, context, request, { address, hashed, data, pkce, isConfirmed }))
    .catch((error): Outcome => {
      // A concurrent request has just signed up with the address.
      if (error instanceof DatabaseError && error.code === '23505') return { taken: true };
      throw error;
    });
  if ('tokens' in outcome) return answerTokens(outcome.tokens);
  if ('taken' in outcome) {
    if (isConfirmed) throw new AuthError(422, 'user_already_exists', 'User already registered');
    return Response.json(lookAlike(context, address, data));
  }
  if ('email' in address) await sendConfirmation(context, address.email, outcome.sent, request.redirectTo);
  else await sendCode(context, { to: address.phone, code: outcome.sent.code, kind: 'otp', channel });
  return Response.json(outcome.user);
}

async function addOrFind(
  tx: Session,
  context: AuthContext,
  request: AuthRequest,
  signUp: { address: Address; hashed: string; data: Json; pkce: Pkce | null; isConfirmed: boolean },
): Promise<Outcome> {
  const { address, hashed, data, pkce, isConfirmed } = signUp;
  const existing = await findUser(tx, address, { lock: true });
  if (existing && ('email' in address ? existing.email_confirmed_at : existing.phone_confirmed_at))
    return { taken: true };
  // The address is not confirmed yet: the last password counts, and only a code sent after it confirms it.
  if (existing) await dropTokens(tx, existing.id, ['confirmation_token']);
  const user = existing
    ? await updateUser(tx, context, existing.id, {
        encrypted_password: hashed,
        raw_user_meta_data: checkMetadata({ ...existing.raw_user_meta_data, ...data }),
      })
    : await addUser(tx, context, address, { hashed, data });
  if (isConfirmed) {
    await confirmAddress(tx, context, user, address);
    await audit(tx, context, 'user_signedup', user, request);
    return { tokens: await startSession(tx, context, { user, method: 'password', request }) };
  }
  await audit(tx, context, 'user_confirmation_requested', user, request);
  const sent = await makeConfirmation(tx, context, user, address, pkce);
  return { user: await readUserJson(tx, user.id), sent };
}

/**
 * Creates a user with one unconfirmed address, and its identity.
 * @param details `includesAddress: false` limits the user's metadata to the given data, as for links made with the secret key
 */
export async function addUser(
  tx: Session,
  context: AuthContext,
  address: Address,
  details: { hashed?: string | null; data?: Json; includesAddress?: boolean },
): Promise<UserRow> {
  const provider = 'email' in address ? 'email' : 'phone';
  const id = randomUUID();
  const about = { ...details.data, ...address, sub: id, email_verified: false, phone_verified: false };
  const user = await createUser(tx, context, {
    id,
    ...address,
    encrypted_password: details.hashed ?? null,
    raw_app_meta_data: { provider, providers: [provider] },
    raw_user_meta_data: details.includesAddress === false ? (details.data ?? {}) : about,
  });
  await putIdentity(tx, context, { userId: user.id, provider, providerId: user.id, data: about });
  return user;
}

/** Marks an address as confirmed, in the row and in the identity. */
export async function confirmAddress(
  tx: Session,
  context: AuthContext,
  user: UserRow,
  address: Address,
): Promise<UserRow> {
  const isEmail = 'email' in address;
  await putIdentity(tx, context, {
    userId: user.id,
    provider: isEmail ? 'email' : 'phone',
    providerId: user.id,
    data: { sub: user.id, ...address, [isEmail ? 'email_verified' : 'phone_verified']: true },
    isSignIn: false,
  });
  const metadata = isEmail
    ? { ...user.raw_user_meta_data, email_verified: true }
    : { ...user.raw_user_meta_data, phone_verified: true };
  return updateUser(tx, context, user.id, {
    raw_user_meta_data: metadata,
    is_anonymous: false,
    ...(isEmail
      ? { email_confirmed_at: user.email_confirmed_at ?? at(context) }
      : { phone_confirmed_at: user.phone_confirmed_at ?? at(context) }),
  });
}

/** Creates the code that confirms a new user's address. */
export async function makeConfirmation(
  tx: Session,
  context: AuthContext,
  user: UserRow,
  address: Address,
  pkce: Pkce | null,
): Promise<SentToken> {
  const flowId =
    pkce &&
    (await startFlow(tx, context, { providerType: 'email', method: 'email/signup', pkce, userId: user.id }));
  await updateUser(tx, context, user.id, { confirmation_sent_at: at(context) });
  return makeToken(tx, context, {
    userId: user.id,
    type: 'confirmation_token',
    address: sentTo(address).address,
    flowId,
  });
}

/** Sends the confirmation email of a new user. */
export async function sendConfirmation(
  context: AuthContext,
  to: string,
  token: SentToken,
  redirectTo: string,
): Promise<void> {
  await sendEmail(context, 'confirmation', { to, token, link: { type: 'signup', redirectTo } });
}

/** Channel and recipient of messages to an address. */
export const sentTo = (address: Address): { channel: 'email' | 'sms'; address: string } =>
  'email' in address
    ? { channel: 'email', address: address.email }
    : { channel: 'sms', address: address.phone };

/** Reads the one address a body has. @throws AuthError validation_failed when it has both or none */
export function readAddress(request: AuthRequest, whenBoth: string, whenNone = whenBoth): Address {
  const [email, phone] = [text(request.body, 'email'), text(request.body, 'phone')];
  if (email && phone) throw invalid(whenBoth);
  if (!email && !phone) throw invalid(whenNone);
  return email ? { email: mailAddress(email) } : { phone: phoneNumber(phone) };
}

/** 422 signup_disabled. */
export const signupDisabled = () =>
  new AuthError(422, 'signup_disabled', 'Signups not allowed for this instance');

/** Response to a sign-up with another user's address: as if it had been free. */
function lookAlike(context: AuthContext, address: Address, data: Json): Json {
  const id = randomUUID();
  const now = at(context);
  const provider = 'email' in address ? 'email' : 'phone';
  return {
    id,
    aud: context.settings.audience,
    role: '',
    email: '',
    phone: '',
    ...address,
    confirmation_sent_at: now,
    app_metadata: { provider, providers: [provider] },
    user_metadata: { ...data, ...address, sub: id, email_verified: false, phone_verified: false },
    identities: [],
    created_at: now,
    updated_at: now,
    is_anonymous: false,
  };
}

async function signUpAnonymously(request: AuthRequest, context: AuthContext, data: Json): Promise<Response> {
  const { settings } = context;
  if (!settings.isAnonymousSignInEnabled) {
    throw new AuthError(422, 'anonymous_provider_disabled', 'Anonymous sign-ins are disabled');
  }
  if (!settings.isSignupOpen) throw signupDisabled();
  await limitNetwork(context, 'anonymous', request.ip);
  const tokens = await context.database.transaction(async (tx) => {
    const user = await createUser(tx, context, { raw_user_meta_data: data, is_anonymous: true });
    await audit(tx, context, 'user_signedup', user, request);
    return startSession(tx, context, { user, method: 'anonymous', request });
  });
  return answerTokens(tokens);
}

export const signUpRoutes: readonly Route[] = [
  { method: 'POST', pattern: '/signup', needs: 'nothing', handle: signUp },
];
