// Codes and links on request: POST /otp, /magiclink, /recover, /resend and GET /reauthenticate.
import { DatabaseError, type Session } from '../../database/database.ts';
import { audit } from '../audit.ts';
import { AuthError, invalid } from '../auth-error.ts';
import { delayAnswer } from '../constant-time.ts';
import { type AuthContext, type AuthRequest, at, type Route, type UserRequest } from '../context.ts';
import { enforceCooldown, limitNetwork } from '../limits.ts';
import { checkMetadata, flag, object, text } from '../requests/fields.ts';
import type { Json, UserRow } from '../rows.ts';
import { mailAddress, textChannel } from '../users/addresses.ts';
import {
  type Address,
  addUser,
  makeConfirmation,
  readAddress,
  sendConfirmation,
  sentTo,
  signupDisabled,
} from '../users/sign-up.ts';
import { findUser, updateUser } from '../users/users.ts';
import { type LinkType, sendCode, sendEmail } from './emails.ts';
import { type Pkce, readPkce, startFlow } from './flow-state.ts';
import { agreedStatus, dropTokens, makeToken, type SentToken, type TokenType } from './one-time-tokens.ts';

const done = () => Response.json({}, { headers: { 'cache-control': 'no-store' } });

interface OtpAsked {
  address: Address;
  mayCreate: boolean;
  data: Json;
  pkce: Pkce | null;
}

async function otp(request: AuthRequest, context: AuthContext): Promise<Response> {
  const { body } = request;
  const address = readAddress(
    request,
    'Only an email address or phone number should be provided',
    'One of email or phone must be set',
  );
  if ('email' in address && text(body, 'channel')) {
    throw invalid('Channel should only be specified with Phone OTP');
  }
  return sendOtp(request, context, address, flag(body, 'create_user', true));
}

async function magicLink(request: AuthRequest, context: AuthContext): Promise<Response> {
  if (!text(request.body, 'email')) throw invalid('Password recovery requires an email');
  return sendOtp(request, context, { email: mailAddress(text(request.body, 'email')) }, true);
}

async function sendOtp(
  request: AuthRequest,
  context: AuthContext,
  address: Address,
  mayCreate: boolean,
): Promise<Response> {
  const { settings } = context;
  const channel = textChannel(text(request.body, 'channel'));
  const otp = {
    address,
    mayCreate,
    data: checkMetadata(object(request.body, 'data') ?? {}),
    pkce: 'email' in address ? readPkce(request.body) : null,
  };
  if ('email' in address && !settings.isEmailEnabled) {
    throw new AuthError(422, 'email_provider_disabled', 'Email logins are disabled');
  }
  if ('phone' in address && !settings.isPhoneEnabled) {
    throw new AuthError(422, 'phone_provider_disabled', 'Phone logins are disabled');
  }
  await limitNetwork(context, 'otp', request.ip);
  delayAnswer(request, context);
  await enforceCooldown(context, { ...sentTo(address), purpose: 'otp', ip: request.ip });
  const prepare = () => context.database.transaction((tx) => prepareOtp(tx, context, request, otp));
  const prepared = await prepare().catch((error) => {
    // A concurrent request has just added a user with this address: this query finds it.
    if (error instanceof DatabaseError && error.code === '23505') return prepare();
    throw error;
  });
  if (!prepared) return done();
  if ('phone' in address) {
    await sendCode(context, { to: address.phone, code: prepared.token.code, kind: 'otp', channel });
  } else if (prepared.kind === 'signup') {
    await sendConfirmation(context, address.email, prepared.token, request.redirectTo);
  } else {
    const link = { type: 'magiclink', redirectTo: request.redirectTo } as const;
    await sendEmail(context, 'magiclink', { to: address.email, token: prepared.token, link });
  }
  return done();
}

async function prepareOtp(
  tx: Session,
  context: AuthContext,
  request: AuthRequest,
  { address, mayCreate, data, pkce }: OtpAsked,
): Promise<{ kind: 'signup' | 'magiclink'; token: SentToken } | null> {
  const { settings } = context;
  const existing = await findUser(tx, address, { lock: true });
  if (!existing) {
    const isHidden = settings.hidesUnknownAddresses ?? !settings.isSignupOpen;
    if (!mayCreate || !settings.isSignupOpen) {
      if (isHidden) return null;
      throw mayCreate ? signupDisabled() : new AuthError(422, 'otp_disabled', 'Signups not allowed for otp');
    }
  }
  const user = existing ?? (await addUser(tx, context, address, { data }));
  // Another person may have created an account whose password was never confirmed: it is opened as by recovery (see verify).
  const isConfirmed = 'email' in address ? user.email_confirmed_at : user.phone_confirmed_at;
  const isNew = !isConfirmed && user.encrypted_password === null;
  if (isNew) return { kind: 'signup', token: await makeConfirmation(tx, context, user, address, pkce) };
  await audit(tx, context, 'user_recovery_requested', user, request);
  return { kind: 'magiclink', token: await makeRecovery(tx, context, user, address, 'magiclink', pkce) };
}

/** Creates a sign-in code. */
export async function makeRecovery(
  tx: Session,
  context: AuthContext,
  user: UserRow,
  address: Address,
  method: Extract<LinkType, 'magiclink' | 'recovery'>,
  pkce: Pkce | null,
): Promise<SentToken> {
  const flowId =
    pkce && (await startFlow(tx, context, { providerType: 'email', method, pkce, userId: user.id }));
  await updateUser(tx, context, user.id, { recovery_sent_at: at(context) });
  return makeToken(tx, context, {
    userId: user.id,
    type: 'recovery_token',
    address: sentTo(address).address,
    flowId,
  });
}

async function recover(request: AuthRequest, context: AuthContext): Promise<Response> {
  if (!text(request.body, 'email')) throw invalid('Password recovery requires an email');
  const email = mailAddress(text(request.body, 'email'));
  const pkce = readPkce(request.body);
  await limitNetwork(context, 'otp', request.ip);
  delayAnswer(request, context);
  await enforceCooldown(context, { ...sentTo({ email }), purpose: 'recovery', ip: request.ip });
  const token = await context.database.transaction(async (tx) => {
    const user = await findUser(tx, { email }, { lock: true });
    if (!user) return null;
    await audit(tx, context, 'user_recovery_requested', user, request);
    return makeRecovery(tx, context, user, { email }, 'recovery', pkce);
  });
  if (token) {
    const link = { type: 'recovery', redirectTo: request.redirectTo } as const;
    await sendEmail(context, 'recovery', { to: email, token, link });
  }
  return done();
}

const byMail = ['signup', 'email_change'];
const byText = ['sms', 'phone_change'];

async function resend(request: AuthRequest, context: AuthContext): Promise<Response> {
  const { body } = request;
  const type = text(body, 'type');
  if (!byMail.includes(type) && !byText.includes(type)) {
    throw invalid('Missing one of these types: signup, email_change, sms, phone_change');
  }
  const isMail = byMail.includes(type);
  if (isMail && !text(body, 'email')) throw invalid('Type provided requires an email address');
  if (!isMail && !text(body, 'phone')) throw invalid('Type provided requires a phone number');
  const address = readAddress(request, 'Only an email address or phone number should be provided.');
  await limitNetwork(context, 'otp', request.ip);
  delayAnswer(request, context);
  const purpose = type === 'signup' || type === 'sms' ? 'signup' : 'resend';
  await enforceCooldown(context, { ...sentTo(address), purpose, ip: request.ip });
  const pendingMessages = await context.database.transaction(async (tx) => {
    const user = await findUser(tx, address, { lock: true });
    if (!user) return [];
    if (type === 'email_change') return resendEmailChange(tx, context, user, request.redirectTo);
    if (type === 'phone_change') return preparePhoneChange(tx, context, user, 'sms');
    const isDone = 'email' in address ? user.email_confirmed_at : user.phone_confirmed_at;
    if (isDone) return [];
    const token = await makeConfirmation(tx, context, user, address, null);
    return [
      'email' in address
        ? () => sendConfirmation(context, address.email, token, request.redirectTo)
        : () => sendCode(context, { to: address.phone, code: token.code, kind: 'otp' }),
    ];
  });
  for (const send of pendingMessages) await send();
  return done();
}

/** A message to send after its transaction is committed. */
export type PendingMessage = () => Promise<void>;

/**
 * Starts a change of e-mail address: both addresses must agree when changes are secure. Links of a change that was requested
 * before are void.
 */
export async function prepareEmailChange(
  tx: Session,
  context: AuthContext,
  user: UserRow,
  redirectTo: string,
  pkce: Pkce | null,
): Promise<PendingMessage[]> {
  await dropTokens(tx, user.id, ['email_change_token_new', 'email_change_token_current']);
  const started = await updateUser(tx, context, user.id, { email_change_confirm_status: 0 });
  const flowId =
    pkce &&
    (await startFlow(tx, context, { providerType: 'email', method: 'email_change', pkce, userId: user.id }));
  return askAddresses(tx, context, started, redirectTo, flowId);
}

/** Sends the links of a pending change again, to the addresses that have not agreed. Anyone may request it. */
const resendEmailChange = (tx: Session, context: AuthContext, user: UserRow, redirectTo: string) =>
  askAddresses(tx, context, user, redirectTo, null);

async function askAddresses(
  tx: Session,
  context: AuthContext,
  user: UserRow,
  redirectTo: string,
  flowId: string | null,
): Promise<PendingMessage[]> {
  if (!user.email_change) return [];
  const needsBoth = context.settings.isEmailChangeSecure && user.email;
  const tokens: { type: TokenType; to: string }[] = [
    { type: 'email_change_token_new', to: user.email_change },
    ...(needsBoth ? [{ type: 'email_change_token_current' as const, to: user.email ?? '' }] : []),
  ];
  await updateUser(tx, context, user.id, { email_change_sent_at: at(context) });
  const pendingMessages: PendingMessage[] = [];
  for (const { type, to } of tokens) {
    if (agreedStatus[type] === user.email_change_confirm_status) continue;
    const token = await makeToken(tx, context, { userId: user.id, type, address: to, flowId });
    const link = { type: 'email_change', redirectTo } as const;
    pendingMessages.push(() => sendEmail(context, 'email_change', { to, token, link }));
  }
  return pendingMessages;
}

/** Creates the code for a pending change of phone. */
export async function preparePhoneChange(
  tx: Session,
  context: AuthContext,
  user: UserRow,
  channel: 'sms' | 'whatsapp',
): Promise<PendingMessage[]> {
  const to = user.phone_change;
  if (!to) return [];
  await updateUser(tx, context, user.id, { phone_change_sent_at: at(context) });
  const { code } = await makeToken(tx, context, { userId: user.id, type: 'phone_change_token', address: to });
  return [() => sendCode(context, { to, code, kind: 'phone_change', channel })];
}

async function reauthenticate(request: UserRequest, context: AuthContext): Promise<Response> {
  const { user } = request;
  if (!user.email && !user.phone) {
    throw invalid('Reauthentication requires the user to have an email or a phone number');
  }
  if (user.email && !user.email_confirmed_at) {
    throw new AuthError(422, 'email_not_confirmed', 'Please verify your email first.');
  }
  if (!user.email && !user.phone_confirmed_at) {
    throw new AuthError(422, 'phone_not_confirmed', 'Please verify your phone first.');
  }
  const address = user.email ?? user.phone ?? '';
  await enforceCooldown(context, {
    channel: user.email ? 'email' : 'sms',
    purpose: 'reauthentication',
    address: user.id,
    ip: request.ip,
  });
  const token = await context.database.transaction(async (tx) => {
    await updateUser(tx, context, user.id, { reauthentication_sent_at: at(context) });
    await audit(tx, context, 'user_reauthenticate_requested', user, request);
    return makeToken(tx, context, { userId: user.id, type: 'reauthentication_token', address });
  });
  if (user.email) await sendEmail(context, 'reauthentication', { to: user.email, token });
  else await sendCode(context, { to: address, code: token.code, kind: 'reauthentication' });
  return done();
}

export const passwordlessRoutes: readonly Route[] = [
  { method: 'POST', pattern: '/otp', needs: 'nothing', handle: otp },
  { method: 'POST', pattern: '/magiclink', needs: 'nothing', handle: magicLink },
  { method: 'POST', pattern: '/recover', needs: 'nothing', handle: recover },
  { method: 'POST', pattern: '/resend', needs: 'nothing', handle: resend },
  { method: 'GET', pattern: '/reauthenticate', needs: 'user', handle: reauthenticate },
];
