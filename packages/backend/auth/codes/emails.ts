// Emails and text messages to users: a code or a link, and its purpose.
import type { AuthContext } from '../context.ts';
import type { Json } from '../rows.ts';
import type { MailKind } from './messages.ts';
import type { SentToken } from './one-time-tokens.ts';

/** The `type` of a link: the effect of opening it. */
export type LinkType = 'signup' | 'invite' | 'magiclink' | 'recovery' | 'email_change';

/**
 * GoTrue's link: opening it uses the token, also when a mail scanner or a chat preview opens it. For callers that ask for a link
 * (generate_link) and applications with their own templates.
 */
export function actionLink(
  context: Pick<AuthContext, 'settings'>,
  hash: string,
  type: LinkType,
  redirectTo: string,
): string {
  const query = new URLSearchParams({ token: hash, type, redirect_to: redirectTo });
  return `${context.settings.externalUrl}/verify?${query}`;
}

/** The link of our emails: a page whose button uses the token (confirm-page.ts). */
function confirmPageLink(
  { settings }: Pick<AuthContext, 'settings'>,
  hash: string,
  type: LinkType,
  redirectTo: string,
): string {
  const query = new URLSearchParams({ token_hash: hash, type, redirect_to: redirectTo });
  return `${settings.externalUrl}/verify/confirm?${query}`;
}

const wording: Record<Exclude<MailKind, 'notice'>, { subject: string; purpose: string }> = {
  confirmation: { subject: 'Confirm your email address', purpose: 'confirm your email address' },
  invite: { subject: 'Your invitation', purpose: 'accept your invitation' },
  magiclink: { subject: 'Your sign-in link', purpose: 'sign in' },
  recovery: { subject: 'Reset your password', purpose: 'reset your password' },
  email_change: {
    subject: 'Confirm your new email address',
    purpose: 'confirm the change of your email address',
  },
  reauthentication: { subject: 'Confirm that it is you', purpose: 'confirm that it is you' },
};

/**
 * Sends an email with a code and, if given, a link that has the same effect. It is handed over when this returns, not delivered.
 * @param letter `link`: the effect of the link, and where it leads afterwards
 */
export async function sendEmail(
  context: AuthContext,
  kind: Exclude<MailKind, 'notice'>,
  letter: { to: string; token: SentToken; link?: { type: LinkType; redirectTo: string }; data?: Json },
): Promise<void> {
  const { subject, purpose } = wording[kind];
  const { token, link, data } = letter;
  const pageLink = link && confirmPageLink(context, token.hash, link.type, link.redirectTo);
  const byLink = pageLink
    ? `Open this link to ${purpose}:\n\n${pageLink}\n\nOr enter the code`
    : `To ${purpose}, enter the code`;
  await context.messages.sendMail({
    to: letter.to,
    subject,
    // The recipient did not request an invitation.
    text: `${byLink} ${token.code}.\n\nIf you did not ${kind === 'invite' ? 'expect' : 'ask for'} this, you need not do anything.\n`,
    kind,
    code: token.code,
    ...(link && pageLink
      ? { pageLink, link: actionLink(context, token.hash, link.type, link.redirectTo) }
      : {}),
    ...(data ? { data } : {}),
  });
}

/** Sends a code to a phone, unless it is a test phone. */
export async function sendCode(
  context: AuthContext,
  message: {
    to: string;
    code: string;
    kind: 'otp' | 'phone_change' | 'reauthentication' | 'mfa';
    channel?: 'sms' | 'whatsapp';
  },
): Promise<void> {
  if (Object.hasOwn(context.settings.testPhones, message.to)) return;
  await context.messages.sendText({
    to: message.to,
    text: `Your code is ${message.code}`,
    kind: message.kind,
    code: message.code,
    channel: message.channel ?? 'sms',
  });
}
