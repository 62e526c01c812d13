// Sends emails and text messages: over SMTP, with Africa's Talking, or into the outbox folder.
import type { Mail, TextMessage } from '@jani-juice/backend';
import type { OutboxMessageChannel, OutboxMessageKind } from '../../supabase/types.ts';
import type { Log } from '../monitoring/log.ts';
import { writeToOutboxFolder } from './outbox-folder.ts';

/** An email. */
export interface OutgoingMail extends Omit<Mail, 'kind'> {
  kind: Mail['kind'] | OutboxMessageKind;
  /** Message-ID, the same when the email is sent again, so that mailboxes detect duplicates: `<…@…>`. */
  messageId?: string;
  /** URL that ends a subscription on POST (RFC 8058). */
  unsubscribeUrl?: string;
}

export interface OutgoingText extends Omit<TextMessage, 'kind'> {
  kind: TextMessage['kind'] | OutboxMessageKind;
}

/** Sends messages. Rejects with a SendError. */
export interface OutgoingMessages {
  /** Why messages of a channel reach no one: no provider is configured, and they are written to the outbox folder. */
  missingProvider: Record<OutboxMessageChannel, string | null>;
  sendMail(mail: OutgoingMail): Promise<void>;
  sendText(message: OutgoingText): Promise<{ messageId?: string } | undefined>;
}

/** A message was not sent, or its outcome is unknown. */
export class SendError extends Error {
  /**
   * refused: it was not sent, but may be later. failed: it will never be accepted for this recipient. unsure: the connection ended
   * without a response.
   */
  readonly outcome: 'refused' | 'failed' | 'unsure';

  constructor(message: string, outcome: SendError['outcome'], cause?: unknown) {
    super(message, { cause });
    this.name = 'SendError';
    this.outcome = outcome;
  }
}

export interface MessagesConfig {
  /** `smtp:` or `smtps:`, with user and password; null: emails are written to the outbox folder. */
  smtpUrl: string | null;
  mailFrom: string;
  /** Null: text messages are written to the outbox folder. */
  sms: SmsGateway | null;
  /** The outbox folder. */
  outbox: string;
  /** Days after which a file in the folder is deleted. */
  outboxDays: number;
}

interface SmsGateway {
  username: string;
  apiKey: string;
  /** Short code or name that recipients see. Default: the gateway's own. */
  sender: string | undefined;
  /** URL of the gateway, for tests. Default: Africa's Talking. */
  url?: string;
}

const timeoutMs = 15_000;

/** Creates the sender. Messages are logged without their content, and with a masked recipient. */
export function createMessages(config: MessagesConfig, log: Log): OutgoingMessages {
  const folderOnly = (what: string, setting: string) =>
    `No provider is set up: ${what} are written to the outbox folder on the server, and reach no one. Set ${setting}.`;
  return {
    missingProvider: {
      mail: config.smtpUrl ? null : folderOnly('emails', 'SMTP_URL'),
      text: config.sms ? null : folderOnly('texts', 'SMS_USERNAME and SMS_API_KEY'),
    },
    async sendMail(mail) {
      const facts = { kind: mail.kind, to: maskRecipient(mail.to) };
      if (config.smtpUrl) {
        await sendBySmtp(config.smtpUrl, config.mailFrom, mail);
        log.info(facts, 'mail sent');
      } else {
        const file = await writeToOutbox(config.outbox, 'eml', await formatEml(config.mailFrom, mail));
        log.info({ ...facts, file }, 'email written to the outbox folder');
      }
    },
    async sendText(message) {
      const facts = { kind: message.kind, to: maskRecipient(message.to) };
      if (config.sms) {
        const messageId = await sendByGateway(config.sms, message);
        log.info({ ...facts, messageId }, 'text message sent');
        return { messageId };
      }
      const file = await writeToOutbox(config.outbox, 'json', `${JSON.stringify(message, null, 2)}\n`);
      log.info({ ...facts, file }, 'text message written to the outbox folder');
      return undefined;
    },
  };
}

async function sendBySmtp(url: string, from: string, mail: OutgoingMail): Promise<void> {
  const { createTransport } = await import('nodemailer');
  const transport = createTransport({
    url,
    connectionTimeout: timeoutMs,
    greetingTimeout: timeoutMs,
    socketTimeout: timeoutMs,
  });
  try {
    await transport.sendMail(envelope(from, mail));
  } catch (error) {
    throw mailError(error as SmtpError);
  } finally {
    transport.close();
  }
}

/** Fields of a nodemailer error. */
interface SmtpError extends Error {
  code?: string;
  originalCode?: string;
  command?: string;
  /** Status code of the server's rejection. */
  responseCode?: number;
  timeoutType?: string;
}

// Errors before the email was transmitted: no connection, or no sign-in.
const connectionErrors = new Set([
  'EDNS',
  'ETLS',
  'EAUTH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
]);
const greetingTimeouts = new Set(['CONNECT_TIMEOUT', 'GREETING_TIMEOUT', 'UPGRADE_TIMEOUT']);

function mailError(error: SmtpError): SendError {
  const { code = '', originalCode = '', command, responseCode, timeoutType = '', message } = error;
  if (responseCode) {
    // The sender and the sign-in are settings, which the operator can correct; the recipient and the email are not.
    const isAboutMail = code === 'EMESSAGE' || command === 'RCPT TO' || command === 'DATA';
    return new SendError(message, responseCode >= 500 && isAboutMail ? 'failed' : 'refused', error);
  }
  if (code === 'EENVELOPE') return new SendError(message, 'failed', error);
  const isUnsent =
    [code, originalCode].some((known) => connectionErrors.has(known)) || greetingTimeouts.has(timeoutType);
  return new SendError(message, isUnsent ? 'refused' : 'unsure', error);
}

async function formatEml(from: string, mail: OutgoingMail): Promise<Buffer> {
  const { createTransport } = await import('nodemailer');
  const { message } = await createTransport({ streamTransport: true, buffer: true }).sendMail(
    envelope(from, mail),
  );
  return message as Buffer;
}

const envelope = (from: string, { to, subject, text, html, messageId, unsubscribeUrl }: OutgoingMail) => ({
  from,
  // An object is always one address; a string would be parsed as a list.
  to: { name: '', address: to },
  subject,
  text,
  ...(html ? { html } : {}),
  ...(messageId ? { messageId } : {}),
  headers: {
    'Auto-Submitted': 'auto-generated',
    ...(unsubscribeUrl
      ? {
          'List-Unsubscribe': `<${unsubscribeUrl}>`,
          'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
        }
      : {}),
  },
});

interface GatewayAnswer {
  SMSMessageData?: {
    Message?: string;
    Recipients?: { statusCode?: number; status?: string; messageId?: string }[];
  };
}

// https://developers.africastalking.com/docs/sms/sending/bulk: 100 processed, 101 sent, 102 queued; the rest is refused.
const accepted = new Set([100, 101, 102]);

// RiskHold to RejectedByGateway. Of these, the following mean that the number cannot receive messages.
const permanentlyRefused = new Set([403, 404, 406, 409]);

async function sendByGateway(gateway: SmsGateway, { to, text, channel }: OutgoingText): Promise<string> {
  if (channel !== 'sms') throw new SendError(`the gateway does not send by ${channel}`, 'failed');
  const { username, apiKey, sender } = gateway;
  const host = username === 'sandbox' ? 'api.sandbox.africastalking.com' : 'api.africastalking.com';
  let answer: Response;
  let body: GatewayAnswer | null;
  try {
    answer = await fetch(gateway.url ?? `https://${host}/version1/messaging`, {
      method: 'POST',
      headers: { apiKey, accept: 'application/json' },
      body: new URLSearchParams({
        username,
        to: `+${to}`,
        message: text,
        ...(sender ? { from: sender } : {}),
      }),
      signal: AbortSignal.timeout(timeoutMs),
    });
    body = answer.ok ? ((await answer.json()) as GatewayAnswer) : null;
  } catch (error) {
    const cause = (error as Error).cause as NodeJS.ErrnoException | undefined;
    throw new SendError(
      `the text message gateway did not answer: ${cause?.code ?? (error as Error).message}`,
      connectionErrors.has(cause?.code ?? '') ? 'refused' : 'unsure',
      error,
    );
  }
  if (!body) {
    // After an internal error the gateway may have sent it; after a rejection it has not.
    const outcome = answer.status >= 500 && answer.status !== 503 ? 'unsure' : 'refused';
    throw new SendError(`the text message gateway answered ${answer.status}`, outcome);
  }
  const { SMSMessageData } = body;
  const recipient = SMSMessageData?.Recipients?.[0];
  if (!recipient || !accepted.has(recipient.statusCode ?? 0)) {
    const reason = recipient?.status ?? SMSMessageData?.Message ?? 'without a reason';
    const isFinal = permanentlyRefused.has(recipient?.statusCode ?? 0);
    throw new SendError(`the text message gateway refused: ${reason}`, isFinal ? 'failed' : 'refused');
  }
  return recipient.messageId ?? '';
}

async function writeToOutbox(
  outbox: string,
  extension: 'eml' | 'json',
  content: string | Buffer,
): Promise<string> {
  try {
    return await writeToOutboxFolder(outbox, extension, content);
  } catch (error) {
    throw new SendError(
      `the outbox folder cannot be written: ${(error as NodeJS.ErrnoException).code}`,
      'refused',
      error,
    );
  }
}

/**
 * Masks an email address or phone number for the log.
 * @returns such as `a•••@jani.example` or `•••678`
 */
export function maskRecipient(recipient: string): string {
  const at = recipient.lastIndexOf('@');
  return at > 0 ? `${recipient.slice(0, 1)}•••${recipient.slice(at)}` : `•••${recipient.slice(-3)}`;
}
