// Sends what waits in the outbox for customers: each message is marked before it leaves, and its end is noted after.
import { type MessageFacts, type MessageTemplate, writeMessage } from '../domain/customer-message.ts';
import { orderLink } from '../domain/order-link.ts';
import { msisdn } from '../domain/phone.ts';
import type { Store } from '../web/lib/store.ts';
import type { Log } from './log.ts';
import { mailHtml } from './mail-html.ts';
import { maskRecipient, type OutgoingMessages, SendFault } from './messages.ts';

export interface OutboxOptions {
  /** With the secret key: what may take messages. */
  tables: Store['tables'];
  messages: OutgoingMessages;
  /** What the outside calls the shop. */
  publicUrl: string;
  log: Log;
  /** Once it is aborted nothing more is begun; what is being handed over is finished. */
  signal?: AbortSignal;
}

/** What `lease_messages` gives. */
interface LeasedMessage {
  id: string;
  lease: string;
  kind: string;
  channel: 'mail' | 'text';
  recipient: string;
  template: MessageTemplate;
  facts: MessageFacts;
}

/** At once, and so many times in one turn: a full outbox must not keep a stop waiting. */
const atOnce = 8;
const rounds = 25;

/**
 * Sends what is due now, in whichever process. Mails and texts go side by side: neither waits for the other's server.
 * @throws when the database cannot be asked; what was handed over by then is noted, or becomes unsure
 */
export async function sendDueMessages(options: OutboxOptions): Promise<void> {
  const ends = await Promise.allSettled([sendDue('mail', options), sendDue('text', options)]);
  const failed = ends.find((end) => end.status === 'rejected');
  if (failed) throw failed.reason;
}

async function sendDue(channel: LeasedMessage['channel'], options: OutboxOptions): Promise<void> {
  const { tables, signal } = options;
  for (let round = 0; round < rounds && !signal?.aborted; round++) {
    const { data, error } = await tables.rpc('lease_messages', { at_most: atOnce, channel });
    if (error) throw new Error(error.message);
    const leased = (data ?? []) as unknown as LeasedMessage[];
    const ends = await Promise.allSettled(leased.map((message) => sendOne(message, options)));
    const failed = ends.find((end) => end.status === 'rejected');
    if (failed) throw failed.reason;
    if (leased.length < atOnce) return;
  }
}

async function sendOne(message: LeasedMessage, options: OutboxOptions): Promise<void> {
  const { tables, log, signal } = options;
  const { id, channel, kind, recipient } = message;
  // Nobody has it then: it is leased again in a minute.
  if (signal?.aborted) return;
  const written = writeMessage(message.template, channel, message.facts, options.publicUrl);
  // From here on it may have left, whatever becomes of this process.
  const begun = await tables.rpc('begin_message', {
    message_id: id,
    lease: message.lease,
    subject: written.subject,
    body: written.body,
  });
  if (begun.error) throw new Error(begun.error.message);
  if (begun.data === null) return;

  const end = await handOver(message, written, options);
  if (end.outcome !== 'sent') {
    log.warn(
      {
        id,
        kind,
        channel,
        to: maskRecipient(recipient),
        outcome: end.outcome,
        problem: withoutContacts(end.problem),
      },
      'a message to a customer was not sent',
    );
  }
  const noted = await tables.rpc('finish_message', {
    message_id: id,
    attempt: begun.data,
    outcome: end.outcome,
    problem: end.problem,
    gateway_reference: end.reference,
  });
  if (noted.error) throw new Error(noted.error.message);
}

interface End {
  outcome: 'sent' | 'refused' | 'failed' | 'unsure';
  problem: string | null;
  reference: string | null;
}

async function handOver(
  { id, kind, channel, recipient, facts }: LeasedMessage,
  { subject, body }: MessageTemplate,
  { messages, publicUrl }: OutboxOptions,
): Promise<End> {
  try {
    if (channel === 'text') {
      const sent = await messages.sendText({ to: msisdn(recipient), text: body, kind, channel: 'sms' });
      return { outcome: 'sent', problem: null, reference: sent?.messageId ?? null };
    }
    await messages.sendMail({
      to: recipient,
      subject: subject ?? '',
      text: body,
      html: mailHtml(body, facts.shop.name, {
        order: orderLink(publicUrl, facts.tracking_number, facts.access_key),
        receipt: orderLink(publicUrl, facts.tracking_number, facts.access_key, 'receipt'),
      }),
      kind,
      messageId: `<${id}@${new URL(publicUrl).hostname}>`,
    });
    return { outcome: 'sent', problem: null, reference: null };
  } catch (error) {
    const verdict = error instanceof SendFault ? error.verdict : 'unsure';
    const outcome = verdict === 'passing' ? 'refused' : verdict === 'final' ? 'failed' : 'unsure';
    return { outcome, problem: (error as Error).message, reference: null };
  }
}

/** Servers like to repeat whom they refuse. */
const withoutContacts = (problem: string | null): string | null =>
  problem?.replace(/[^\s<>@:"]+@[^\s<>:"]+|\+?\d{9,}/g, maskRecipient) ?? null;
