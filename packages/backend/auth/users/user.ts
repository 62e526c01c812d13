// GET and PUT /user: the signed-in user, and changes by that user.
import { DatabaseError, type Session } from '../../database/database.ts';
import { audit } from '../audit.ts';
import { AuthError, invalid } from '../auth-error.ts';
import { type Pkce, readPkce } from '../codes/flow-state.ts';
import { dropTokens, findTokenByCode } from '../codes/one-time-tokens.ts';
import { type PendingMessage, prepareEmailChange, preparePhoneChange } from '../codes/passwordless.ts';
import { emailExists, phoneExists } from '../codes/verify.ts';
import { type AuthContext, at, type Route, type UserRequest } from '../context.ts';
import { enforceCooldown, limitSubject } from '../limits.ts';
import { checkMetadata, object, optionalText, text } from '../requests/fields.ts';
import type { Json, UserRow } from '../rows.ts';
import { endSessions, methodsIn } from '../sessions/sessions.ts';
import { mailAddress, phoneNumber, textChannel } from './addresses.ts';
import { confirmAddress } from './sign-up.ts';
import { readUserJson, type UserJson, userJson } from './user-json.ts';
import { factorsOf, findUser, identitiesOf, updateUser } from './users.ts';

interface UserChanges {
  email: string | null;
  phone: string | null;
  password: string | null;
  data: Json | null;
  nonce: string;
  currentPassword: string | null;
  channel: 'sms' | 'whatsapp';
  pkce: Pkce | null;
}

async function getUser({ user }: UserRequest, { database }: AuthContext): Promise<Response> {
  const [identities, factors] = await Promise.all([
    identitiesOf(database, user.id),
    factorsOf(database, user.id),
  ]);
  return Response.json(userJson(user, identities, factors), { headers: { 'cache-control': 'no-store' } });
}

async function putUser(request: UserRequest, context: AuthContext): Promise<Response> {
  const { body, user } = request;
  if (object(body, 'app_metadata')) {
    throw new AuthError(403, 'not_admin', 'Updating app_metadata requires admin privileges');
  }
  const changes = readChanges(request);
  const isContactChange = changes.email !== null || changes.phone !== null || changes.password !== null;
  if (user.is_sso_user && isContactChange) {
    throw new AuthError(
      422,
      'user_sso_managed',
      'Updating email, phone, password of a SSO account only possible via SSO',
    );
  }
  if (isContactChange && (await lacksSecondFactor(context.database, request))) {
    throw new AuthError(
      401,
      'insufficient_aal',
      'AAL2 session is required to update email or password when MFA is enabled.',
    );
  }
  const hashed = changes.password === null ? null : await checkNewPassword(request, context, changes);
  await limitContactChanges(request, context, changes);
  const outcome = await context.database
    .transaction((tx) => change(tx, request, context, changes, hashed))
    .catch((error) => {
      if (!(error instanceof DatabaseError) || error.code !== '23505') throw error;
      throw error.constraint === 'users_phone_key' ? phoneExists() : emailExists();
    });
  // A wrong nonce counts, so it is thrown after the commit.
  if (outcome instanceof AuthError) throw outcome;
  for (const send of outcome.pendingMessages) await send();
  return Response.json(outcome.user, { headers: { 'cache-control': 'no-store' } });
}

/** Reads the requested changes; a value equal to the current one is no change. */
function readChanges({ body, user }: UserRequest): UserChanges {
  const [email, phone] = [text(body, 'email'), text(body, 'phone')];
  const newEmail = email ? mailAddress(email) : null;
  const newPhone = phone ? phoneNumber(phone) : null;
  const password = optionalText(body, 'password') ?? null;
  return {
    email: newEmail === user.email ? null : newEmail,
    phone: newPhone === user.phone ? null : newPhone,
    password,
    data: object(body, 'data'),
    nonce: text(body, 'nonce'),
    currentPassword: optionalText(body, 'current_password') ?? null,
    channel: textChannel(text(body, 'channel')),
    pkce: readPkce(body),
  };
}

/** @returns the new password's hash */
async function checkNewPassword(
  { user, session, claims }: UserRequest,
  context: AuthContext,
  { password, nonce, currentPassword, email, phone }: UserChanges,
): Promise<string> {
  const { passwords, settings, now } = context;
  if (password === null) throw new Error('the account has no password');
  if (user.is_anonymous && !user.email && !user.phone && !email && !phone) {
    throw new AuthError(
      422,
      'validation_failed',
      'Updating password of an anonymous user without an email or phone is not allowed',
    );
  }
  await passwords.check(password, [user.email ?? '', user.phone ?? '', email ?? '', phone ?? '']);
  const hasPassword = user.encrypted_password !== null;
  // Users who recover their account do not know the old password.
  const isRecovering = methodsIn(claims).some((method) => ['recovery', 'invite'].includes(method));
  if (settings.password.needsCurrentPassword && hasPassword && !isRecovering && !currentPassword) {
    throw new AuthError(
      400,
      'current_password_required',
      'Current password required when setting new password.',
    );
  }
  // A stolen session must not find out its password, nor exhaust the attempts of the owner's sessions.
  await limitSubject(context, 'passwordChange', session?.id ?? user.id, settings.limits.wrongPassword);
  if (currentPassword && !(await passwords.matches(currentPassword, user.encrypted_password))) {
    throw new AuthError(400, 'current_password_invalid', 'Current password is incorrect.');
  }
  const age = session ? now().getTime() - new Date(session.created_at).getTime() : Number.POSITIVE_INFINITY;
  if (settings.password.needsReauthentication && hasPassword && !nonce && age > 24 * 60 * 60 * 1000) {
    throw new AuthError(400, 'reauthentication_needed', 'Password update requires reauthentication');
  }
  if (hasPassword && (await passwords.matches(password, user.encrypted_password))) {
    throw new AuthError(422, 'same_password', 'New password should be different from the old password.');
  }
  return passwords.hash(password);
}

/** Messages to new addresses that one session can request. */
const contactChanges = { count: 20, window: 3600 };

async function limitContactChanges(
  { user, session, ip }: UserRequest,
  context: AuthContext,
  { email, phone }: UserChanges,
): Promise<void> {
  if (email || phone) {
    await limitSubject(context, 'contactChange', session?.id ?? user.id, contactChanges);
  }
  const { autoconfirmsEmail, autoconfirmsPhone } = context.settings;
  if (email && !autoconfirmsEmail) {
    const address = `${user.id} ${email}`;
    await enforceCooldown(context, { channel: 'email', purpose: 'email_change', address, ip });
  }
  if (phone && !autoconfirmsPhone) {
    const address = `${user.id} ${phone}`;
    await enforceCooldown(context, { channel: 'sms', purpose: 'phone_change', address, ip });
  }
}

async function change(
  tx: Session,
  request: UserRequest,
  context: AuthContext,
  changes: UserChanges,
  hashed: string | null,
): Promise<{ user: UserJson; pendingMessages: PendingMessage[] } | AuthError> {
  const pendingMessages: PendingMessage[] = [];
  let user = await findUser(tx, { id: request.user.id }, { lock: true });
  if (!user) throw new AuthError(403, 'user_not_found', 'User from sub claim in JWT does not exist');
  if (hashed !== null) {
    if (changes.nonce && !(await takeNonce(tx, context, user, changes.nonce))) {
      return new AuthError(422, 'reauthentication_not_valid', 'Nonce has expired or is invalid');
    }
    user = await updateUser(tx, context, user.id, { encrypted_password: hashed });
    await dropTokens(tx, user.id, ['recovery_token', 'reauthentication_token']);
    await endSessions(tx, user.id, request.session ? { except: request.session.id } : {});
    await audit(tx, context, 'user_updated_password', user, request);
  }
  if (changes.data) {
    user = await updateUser(tx, context, user.id, {
      raw_user_meta_data: checkMetadata(merged(user.raw_user_meta_data, changes.data)),
    });
  }
  if (changes.email) {
    user = await changeEmail(tx, context, user, changes.email);
    pendingMessages.push(...(await prepareEmailChange(tx, context, user, request.redirectTo, changes.pkce)));
  }
  if (changes.phone) {
    user = await changePhone(tx, context, user, changes.phone);
    pendingMessages.push(...(await preparePhoneChange(tx, context, user, changes.channel)));
  }
  await audit(tx, context, 'user_modified', user, request);
  return { user: await readUserJson(tx, user.id), pendingMessages };
}

async function changeEmail(
  tx: Session,
  context: AuthContext,
  user: UserRow,
  email: string,
): Promise<UserRow> {
  if (await findUser(tx, { email })) throw emailExists();
  if (!context.settings.autoconfirmsEmail) {
    return updateUser(tx, context, user.id, { email_change: email });
  }
  const changed = await updateUser(tx, context, user.id, {
    email,
    email_change: '',
    email_confirmed_at: at(context),
    raw_user_meta_data: { ...user.raw_user_meta_data, email },
  });
  await dropTokens(tx, user.id, [
    'recovery_token',
    'confirmation_token',
    'email_change_token_current',
    'email_change_token_new',
  ]);
  return confirmAddress(tx, context, changed, { email });
}

async function changePhone(
  tx: Session,
  context: AuthContext,
  user: UserRow,
  phone: string,
): Promise<UserRow> {
  if (await findUser(tx, { phone })) throw phoneExists();
  if (!context.settings.autoconfirmsPhone) {
    return updateUser(tx, context, user.id, { phone_change: phone });
  }
  const changed = await updateUser(tx, context, user.id, {
    phone,
    phone_change: '',
    phone_confirmed_at: at(context),
  });
  return confirmAddress(tx, context, changed, { phone });
}

async function takeNonce(tx: Session, context: AuthContext, user: UserRow, nonce: string): Promise<boolean> {
  const token = await findTokenByCode(tx, context, {
    address: user.email ?? user.phone ?? '',
    code: nonce,
    types: ['reauthentication_token'],
    userId: user.id,
  });
  return token !== null;
}

/** Merges fields; null deletes one. */
export function merged(before: Json, change: Json): Json {
  return Object.fromEntries(Object.entries({ ...before, ...change }).filter(([, value]) => value !== null));
}

/**
 * Ends sessions. Someone who knows only the password must not sign the owner out, so other sessions than the caller's own
 * need a passed second factor, if the user has one. GoTrue asks for none.
 */
async function logout(request: UserRequest, context: AuthContext): Promise<Response> {
  const scope = request.url.searchParams.get('scope') || 'global';
  const { user, session } = request;
  if (!['global', 'local', 'others'].includes(scope)) throw invalid(`Unsupported logout scope "${scope}"`);
  // A token without a session can only mean all of them.
  const isOwnOnly = scope === 'local' && session !== null;
  const isRefused = !isOwnOnly && (await lacksSecondFactor(context.database, request));
  await context.database.transaction(async (tx) => {
    await audit(tx, context, 'logout', user, request, { scope: isRefused ? 'local' : scope });
    if (session && (isOwnOnly || (isRefused && scope === 'global')))
      await endSessions(tx, user.id, { only: session.id });
    else if (!isRefused)
      await endSessions(tx, user.id, session && scope === 'others' ? { except: session.id } : {});
  });
  if (isRefused) {
    // The official client takes 403 as "signed out" and forgets its session, which has ended; it reports 422 as an error.
    throw new AuthError(
      scope === 'global' ? 403 : 422,
      'insufficient_aal',
      'AAL2 session is required to end other sessions when MFA is enabled.',
    );
  }
  return new Response(null, { status: 204 });
}

/** Whether a user has a second factor that this session has not passed. */
async function lacksSecondFactor(database: Session, { user, session }: UserRequest): Promise<boolean> {
  if (session?.aal === 'aal2') return false;
  const factors = await factorsOf(database, user.id);
  return factors.some(({ status }) => status === 'verified');
}

export const userRoutes: readonly Route[] = [
  { method: 'GET', pattern: '/user', needs: 'user', handle: getUser },
  { method: 'PUT', pattern: '/user', needs: 'user', handle: putUser },
  { method: 'POST', pattern: '/logout', needs: 'user', handle: logout },
];
