// How mails and text messages leave the house: SMTP, Africa's Talking, or a folder that a person looks into.
import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createTransport } from 'nodemailer';
import type { Mail, Messages, TextMessage } from '../backend/auth/messages.ts';
import type { Log } from './log.ts';

export interface MessagesConfig {
  /** `smtp:` or `smtps:`, with user and password; null: mails go to the outbox. */
  smtpUrl: string | null;
  mailFrom: string;
  /** Null: text messages go to the outbox. */
  sms: SmsGateway | null;
  /** The folder. */
  outbox: string;
}

export interface SmsGateway {
  username: string;
  apiKey: string;
  /** Short code or name that recipients see; the gateway's own when there is none. */
  sender: string | undefined;
  /** Other than Africa's Talking's own address, for tests. */
  url?: string;
}

const patience = 15_000;

/** Makes the way out. What it sends is logged without what it says, and the recipient masked. */
export function createMessages(config: MessagesConfig, log: Log): Messages {
  return {
    async sendMail(mail) {
      const told = { kind: mail.kind, to: maskRecipient(mail.to) };
      if (config.smtpUrl) {
        await sendBySmtp(config.smtpUrl, config.mailFrom, mail);
        log.info(told, 'mail sent');
      } else {
        const file = await keep(config.outbox, 'eml', await asEml(config.mailFrom, mail));
        log.info({ ...told, file }, 'mail put into the outbox');
      }
    },
    async sendText(message) {
      const told = { kind: message.kind, to: maskRecipient(message.to) };
      if (config.sms) {
        const messageId = await sendByGateway(config.sms, message);
        log.info({ ...told, messageId }, 'text message sent');
        return { messageId };
      }
      const file = await keep(config.outbox, 'json', `${JSON.stringify(message, null, 2)}\n`);
      log.info({ ...told, file }, 'text message put into the outbox');
      return undefined;
    },
  };
}

async function sendBySmtp(url: string, from: string, mail: Mail): Promise<void> {
  const transport = createTransport({
    url,
    connectionTimeout: patience,
    greetingTimeout: patience,
    socketTimeout: patience,
  });
  try {
    await transport.sendMail(envelope(from, mail));
  } finally {
    transport.close();
  }
}

async function asEml(from: string, mail: Mail): Promise<Buffer> {
  const { message } = await createTransport({ streamTransport: true, buffer: true }).sendMail(
    envelope(from, mail),
  );
  return message as Buffer;
}

const envelope = (from: string, { to, subject, text, html }: Mail) => ({
  from,
  // An object is one address whatever is in it; a string is read as a list of them.
  to: { name: '', address: to },
  subject,
  text,
  ...(html ? { html } : {}),
  headers: { 'Auto-Submitted': 'auto-generated' },
});

interface GatewayAnswer {
  SMSMessageData?: {
    Message?: string;
    Recipients?: { statusCode?: number; status?: string; messageId?: string }[];
  };
}

// https://developers.africastalking.com/docs/sms/sending/bulk: 100 processed, 101 sent, 102 queued; the rest is refused.
const accepted = new Set([100, 101, 102]);

async function sendByGateway(gateway: SmsGateway, { to, text, channel }: TextMessage): Promise<string> {
  if (channel !== 'sms') throw new Error(`the gateway does not send by ${channel}`);
  const { username, apiKey, sender } = gateway;
  const host = username === 'sandbox' ? 'api.sandbox.africastalking.com' : 'api.africastalking.com';
  const answer = await fetch(gateway.url ?? `https://${host}/version1/messaging`, {
    method: 'POST',
    headers: { apiKey, accept: 'application/json' },
    body: new URLSearchParams({ username, to: `+${to}`, message: text, ...(sender ? { from: sender } : {}) }),
    signal: AbortSignal.timeout(patience),
  });
  if (!answer.ok) throw new Error(`the text message gateway answered ${answer.status}`);
  const { SMSMessageData } = (await answer.json()) as GatewayAnswer;
  const recipient = SMSMessageData?.Recipients?.[0];
  if (!recipient || !accepted.has(recipient.statusCode ?? 0)) {
    const reason = recipient?.status ?? SMSMessageData?.Message ?? 'without a reason';
    throw new Error(`the text message gateway refused: ${reason}`);
  }
  return recipient.messageId ?? '';
}

/** Writes a file that its owner alone may read: it opens accounts. */
async function keep(outbox: string, ending: string, content: string | Buffer): Promise<string> {
  await mkdir(outbox, { recursive: true, mode: 0o700 });
  // Names sort by time.
  const stamp = new Date().toISOString().replaceAll(':', '-');
  const file = join(outbox, `${stamp}-${randomBytes(3).toString('hex')}.${ending}`);
  await writeFile(file, content, { mode: 0o600, flag: 'wx' });
  return file;
}

/**
 * A mail address or phone number as it may be logged.
 * @returns such as `a•••@jani.example` or `•••678`
 */
export function maskRecipient(recipient: string): string {
  const at = recipient.lastIndexOf('@');
  return at > 0 ? `${recipient.slice(0, 1)}•••${recipient.slice(at)}` : `•••${recipient.slice(-3)}`;
}
