// Sends the messages in the outbox, to customers and staff: each is marked before it is sent, and its outcome is recorded afterwards.
import {
  type AnyFacts,
  type MessageTemplate,
  type NewsletterFacts,
  writeMessage,
} from '../../domain/messages/customer-message.ts';
import { newsletterLink } from '../../domain/messages/newsletter-link.ts';
import { orderLink } from '../../domain/orders/order-link.ts';
import { msisdn } from '../../domain/people/phone.ts';
import type { Store } from '../../supabase/store.ts';
import type { OutboxMessageChannel, OutboxMessageKind } from '../../supabase/types.ts';
import type { Log } from '../monitoring/log.ts';
import { type MailButtons, mailHtml } from './mail-html.ts';
import { maskRecipient, type OutgoingMessages, SendError } from './messages.ts';

export interface OutboxOptions {
  /** Table client with the secret key, which may lease messages. */
  tables: Store['tables'];
  messages: OutgoingMessages;
  /** Public URL of the shop. */
  publicUrl: string;
  log: Log;
  /** Once aborted, no further message is started; those being sent are finished. */
  signal?: AbortSignal;
}

/** A row of `lease_messages`: a message with its template, or, if it is verbatim, with its own text. */
interface LeasedMessage extends MessageTemplate {
  id: string;
  lease: string;
  kind: OutboxMessageKind;
  channel: OutboxMessageChannel;
  recipient: string;
  facts: Exclude<AnyFacts, NewsletterFacts> | { shop: NewsletterFacts['shop']; subscription_id: string };
  is_verbatim: boolean;
}

/** Concurrent messages of a channel: SMTP servers and gateways limit their connections. */
const concurrency = { mail: 8, text: 16 };
/** Maximum duration of a run, so that its duration and failures appear in the metrics. */
const maxRunMs = 30_000;

/**
 * Sends due messages. Emails and texts are sent concurrently: neither waits for the other's server.
 * @throws when the database is unavailable; sent messages are recorded, or become unsure
 */
export async function sendDueMessages(options: OutboxOptions): Promise<void> {
  const ends = await Promise.allSettled([sendDue('mail', options), sendDue('text', options)]);
  const failed = ends.find((end) => end.status === 'rejected');
  if (failed) throw failed.reason;
}

async function sendDue(channel: OutboxMessageChannel, options: OutboxOptions): Promise<void> {
  const { tables, signal } = options;
  const limit = concurrency[channel];
  const end = Date.now() + maxRunMs;
  while (!signal?.aborted && Date.now() < end) {
    // Twice the concurrency, so that a slow message delays few others.
    const { data, error } = await tables.rpc('lease_messages', { at_most: 2 * limit, channel });
    if (error) throw new Error(error.message);
    const leased = data as LeasedMessage[];
    const waiting = leased.values();
    const ends = await Promise.allSettled(
      Array.from({ length: limit }, async () => {
        for (const message of waiting) await sendOne(message, options);
      }),
    );
    const failed = ends.find((ended) => ended.status === 'rejected');
    if (failed) throw failed.reason;
    if (leased.length < 2 * limit) return;
  }
}

async function sendOne(message: LeasedMessage, options: OutboxOptions): Promise<void> {
  const { tables, log, signal } = options;
  const { id, channel, kind, recipient } = message;
  // The message stays leased, and can be leased again in a minute.
  if (signal?.aborted) return;
  const facts = await readFacts(message, tables);
  const written: MessageTemplate = message.is_verbatim
    ? { subject: message.subject, body: message.body }
    : writeMessage(message, channel, facts, options.publicUrl);
  // Tokens of newsletter links are stored as hashes only, so the record has the email without them.
  const recorded =
    'tokens' in facts
      ? writeMessage(message, channel, { ...facts, tokens: null }, options.publicUrl)
      : written;
  // From here on it may have been sent, even if this process is killed.
  const begun = await tables.rpc('begin_message', {
    message_id: id,
    lease: message.lease,
    subject: recorded.subject,
    body: recorded.body,
  });
  if (begun.error) throw new Error(begun.error.message);
  if (begun.data === null) return;

  const end = await deliver(message, written, facts, options);
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
      'a message was not sent',
    );
  }
  const finished = await tables.rpc('finish_message', {
    message_id: id,
    attempt: begun.data,
    outcome: end.outcome,
    problem: end.problem,
    gateway_reference: end.reference,
  });
  if (finished.error) throw new Error(finished.error.message);
}

/** Values for a message's template; tokens of a newsletter email are issued for this attempt. */
async function readFacts({ facts }: LeasedMessage, tables: OutboxOptions['tables']): Promise<AnyFacts> {
  if (!('subscription_id' in facts)) return facts;
  const { data, error } = await tables.rpc('issue_newsletter_tokens', {
    subscription_id: facts.subscription_id,
  });
  if (error) throw new Error(error.message);
  return { shop: facts.shop, tokens: data[0] ?? null };
}

interface Outcome {
  outcome: 'sent' | 'refused' | 'failed' | 'unsure';
  problem: string | null;
  reference: string | null;
}

async function deliver(
  { id, kind, channel, recipient }: LeasedMessage,
  { subject, body }: MessageTemplate,
  facts: AnyFacts,
  { messages, publicUrl }: OutboxOptions,
): Promise<Outcome> {
  // A test is there to find this out.
  const missing = kind === 'test_message' ? messages.missingProvider[channel] : null;
  if (missing) return { outcome: 'failed', problem: missing, reference: null };
  try {
    if (channel === 'text') {
      const sent = await messages.sendText({ to: msisdn(recipient), text: body, kind, channel: 'sms' });
      return { outcome: 'sent', problem: null, reference: sent?.messageId ?? null };
    }
    await messages.sendMail({
      to: recipient,
      subject: subject ?? '',
      text: body,
      html: mailHtml(body, facts.shop.name, new URL(publicUrl).origin, buttonsOf(facts, publicUrl)),
      kind,
      messageId: `<${id}@${new URL(publicUrl).hostname}>`,
      ...('tokens' in facts && facts.tokens
        ? { unsubscribeUrl: newsletterLink(publicUrl, 'unsubscribe', facts.tokens.unsubscribe) }
        : {}),
    });
    return { outcome: 'sent', problem: null, reference: null };
  } catch (error) {
    const outcome = error instanceof SendError ? error.outcome : 'unsure';
    return { outcome, problem: (error as Error).message, reference: null };
  }
}

function buttonsOf(facts: AnyFacts, publicUrl: string): MailButtons {
  if ('tokens' in facts) {
    const confirm = newsletterLink(publicUrl, 'confirm', facts.tokens?.confirm ?? null);
    return new Map([[confirm, 'Yes, send me news']]);
  }
  // Links to staff screens stay links.
  if (!('access_key' in facts)) return new Map();
  const { tracking_number, access_key } = facts;
  return new Map([
    [orderLink(publicUrl, tracking_number, access_key), 'Open your order'],
    [orderLink(publicUrl, tracking_number, access_key, 'receipt'), 'Open the receipt'],
  ]);
}

/** Masks recipients, which servers often repeat in their errors. */
const withoutContacts = (problem: string | null): string | null =>
  problem?.replace(/[^\s<>@:"]+@[^\s<>:"]+|\+?\d{9,}/g, maskRecipient) ?? null;
