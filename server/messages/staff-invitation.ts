// The invitation email of a staff member, with the names of the inviter and the shop.
import type { Mail } from '@jani-juice/backend';
import { mailHtml } from './mail-html.ts';
import type { OutgoingMail, OutgoingMessages } from './messages.ts';

interface InvitingShop {
  publicUrl: string;
  readName(): Promise<string>;
}

/** Converts invitations of the auth service to emails of the shop, and passes other messages on unchanged. */
export function convertInvitations(messages: OutgoingMessages, shop: InvitingShop): OutgoingMessages {
  return {
    ...messages,
    async sendMail(mail: OutgoingMail & Pick<Mail, 'data'>) {
      await messages.sendMail(
        mail.kind === 'invite' && mail.pageLink
          ? writeInvitation({ ...mail, pageLink: mail.pageLink }, await shop.readName(), shop.publicUrl)
          : mail,
      );
    },
  };
}

type Invitation = OutgoingMail & Pick<Mail, 'data'> & { pageLink: string };

/** @param mail of the auth service. `data.invited_by` is the inviter's name. */
export function writeInvitation(mail: Invitation, shopName: string, publicUrl: string): OutgoingMail {
  const { data, ...rest } = mail;
  const inviter = readInviter(data?.invited_by);
  const subject = inviter
    ? `${inviter} invited you to ${shopName}'s staff panel`
    : `You are invited to ${shopName}'s staff panel`;
  const text = `Habari,

${subject}. There you work on its products, orders, deliveries and payments.

Open this link to set your password:

${mail.pageLink}

The link works once, within an hour. Later you get a new one at ${publicUrl}/admin/reset-password with this email address.

If you do not know ${inviter ?? shopName}, you need not do anything.
`;
  const buttons = new Map([[mail.pageLink, 'Set your password']]);
  return { ...rest, subject, text, html: mailHtml(text, shopName, new URL(publicUrl).origin, buttons) };
}

/** A name in one line, or null. */
function readInviter(written: unknown): string | null {
  if (typeof written !== 'string') return null;
  const name = written
    .slice(0, 400)
    .replace(/[\p{C}\p{Zl}\p{Zp}\s]+/gu, ' ')
    .trim();
  return name === '' ? null : name.slice(0, 80);
}
