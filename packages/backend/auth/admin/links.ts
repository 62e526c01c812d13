// POST /invite and /admin/generate_link: links created with the secret key.
import type { Session } from '../../database/database.ts';
import { audit } from '../audit.ts';
import { AuthError, invalid } from '../auth-error.ts';
import { actionLink, type LinkType, sendEmail } from '../codes/emails.ts';
import { dropTokens, makeToken, type SentToken, type TokenType } from '../codes/one-time-tokens.ts';
import { makeRecovery } from '../codes/passwordless.ts';
import { emailExists } from '../codes/verify.ts';
import { type AuthContext, type AuthRequest, at, type Route } from '../context.ts';
import { object, text } from '../requests/fields.ts';
import type { Json } from '../rows.ts';
import { mailAddress } from '../users/addresses.ts';
import { addUser, makeConfirmation } from '../users/sign-up.ts';
import { readUserJson } from '../users/user-json.ts';
import { findUser, updateUser } from '../users/users.ts';

async function invite(request: AuthRequest, context: AuthContext): Promise<Response> {
  const email = mailAddress(text(request.body, 'email'));
  const data = object(request.body, 'data') ?? {};
  const { user, token } = await context.database.transaction(async (tx) => {
    const token = await makeInvitation(tx, context, request, email, data);
    const existing = await findUser(tx, { email });
    return { user: await readUserJson(tx, existing?.id ?? ''), token };
  });
  const link = { type: 'invite', redirectTo: request.redirectTo } as const;
  await sendEmail(context, 'invite', { to: email, token, link, data });
  return Response.json(user);
}

async function makeInvitation(
  tx: Session,
  context: AuthContext,
  request: AuthRequest,
  email: string,
  data: Json,
): Promise<SentToken> {
  const existing = await findUser(tx, { email }, { lock: true });
  if (existing?.email_confirmed_at) throw emailExists();
  const user = existing ?? (await addUser(tx, context, { email }, { data }));
  await audit(tx, context, 'user_invited', null, request, { user_id: user.id });
  const token = await makeConfirmation(tx, context, user, { email }, null);
  await updateUser(tx, context, user.id, { invited_at: at(context) });
  return token;
}

const linkTypes = ['signup', 'invite', 'magiclink', 'recovery', 'email_change_current', 'email_change_new'];

interface Made {
  userId: string;
  token: SentToken;
  type: LinkType;
  verificationType: string;
}

async function generateLink(request: AuthRequest, context: AuthContext): Promise<Response> {
  const { body } = request;
  const type = text(body, 'type');
  if (!linkTypes.includes(type)) throw invalid('Unsupported link type');
  const email = mailAddress(text(body, 'email'));
  const password = text(body, 'password');
  if (password) await context.passwords.check(password, [email]);
  if (type === 'signup' && !password) throw invalid('Signup requires a valid password');
  const linkRequest = {
    type,
    email,
    newEmail: type.startsWith('email_change') ? mailAddress(text(body, 'new_email')) : '',
    hashed: password ? await context.passwords.hash(password) : null,
    data: object(body, 'data') ?? {},
  };
  const { link, user } = await context.database.transaction(async (tx) => {
    const link = await makeLink(tx, context, request, linkRequest);
    return { link, user: await readUserJson(tx, link.userId) };
  });
  return Response.json({
    ...user,
    action_link: actionLink(context, link.token.hash, link.type, request.redirectTo),
    email_otp: link.token.code,
    hashed_token: link.token.hash,
    verification_type: link.verificationType,
    redirect_to: request.redirectTo,
  });
}

async function makeLink(
  tx: Session,
  context: AuthContext,
  request: AuthRequest,
  {
    type,
    email,
    newEmail,
    hashed,
    data,
  }: { type: string; email: string; newEmail: string; hashed: string | null; data: Json },
): Promise<Made> {
  const existing = await findUser(tx, { email }, { lock: true });
  if (type === 'invite') {
    const token = await makeInvitation(tx, context, request, email, data);
    const user = await findUser(tx, { email });
    return { userId: user?.id ?? '', token, type: 'invite', verificationType: 'invite' };
  }
  if (type === 'signup' || (type === 'magiclink' && !existing)) {
    if (existing?.email_confirmed_at) throw emailExists();
    if (existing && hashed) await dropTokens(tx, existing.id, ['confirmation_token']);
    const user = existing
      ? await updateUser(tx, context, existing.id, {
          raw_user_meta_data: { ...existing.raw_user_meta_data, ...data },
          ...(hashed ? { encrypted_password: hashed } : {}),
        })
      : await addUser(tx, context, { email }, { hashed, data, includesAddress: false });
    const token = await makeConfirmation(tx, context, user, { email }, null);
    return { userId: user.id, token, type: 'signup', verificationType: 'signup' };
  }
  if (!existing) throw new AuthError(404, 'user_not_found', 'User with this email not found');
  if (type === 'magiclink' || type === 'recovery') {
    const token = await makeRecovery(tx, context, existing, { email }, type, null);
    return { userId: existing.id, token, type, verificationType: type };
  }
  const owner = await findUser(tx, { email: newEmail });
  if (owner && owner.id !== existing.id) throw emailExists();
  await updateUser(tx, context, existing.id, {
    email_change: newEmail,
    email_change_sent_at: at(context),
    email_change_confirm_status: 0,
  });
  const [tokenType, address]: [TokenType, string] =
    type === 'email_change_current'
      ? ['email_change_token_current', email]
      : ['email_change_token_new', newEmail];
  const token = await makeToken(tx, context, { userId: existing.id, type: tokenType, address });
  return { userId: existing.id, token, type: 'email_change', verificationType: type };
}

export const adminLinkRoutes: readonly Route[] = [
  { method: 'POST', pattern: '/invite', needs: 'admin', handle: invite },
  { method: 'POST', pattern: '/admin/generate_link', needs: 'admin', handle: generateLink },
];
