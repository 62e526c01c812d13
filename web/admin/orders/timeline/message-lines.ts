// The messages of an order as lines of its timeline: mail and text of one event in one line.
import { formatPhone } from '../../../../domain/people/phone.ts';
import type { OutboxMessageStatus } from '../../../../supabase/types.ts';
import type { Message } from '../../messages/message-queries.ts';
import { channelLabel, kindLabel, messageState } from '../../messages/message-texts.ts';
import { unsentMessageStatuses } from '../../status/states.ts';
import type { EventText } from './order-event-texts.ts';

type SentMessage = Pick<
  Message,
  | 'id'
  | 'kind'
  | 'event_key'
  | 'channel'
  | 'status'
  | 'recipient'
  | 'problem'
  | 'resent_by'
  | 'created_at'
  | 'sent_at'
  | 'updated_at'
>;

export interface MessageLine extends EventText {
  key: string;
  /** Email address of the member who sent it again; null: the shop itself. */
  resentBy: string | null;
  /** When the last of its messages was sent, or reached its state. */
  at: string;
  messages: readonly { id: string; to: string; problem: string | null }[];
}

/** One line for the messages of one event; those that staff sent again stand in a line of their own. */
export function messageLines(messages: readonly SentMessage[]): MessageLine[] {
  const lines = new Map<string, SentMessage[]>();
  for (const message of messages) {
    const event = JSON.stringify([message.kind, message.event_key, message.resent_by]);
    lines.set(event, [...(lines.get(event) ?? []), message]);
  }
  return [...lines.values()].flatMap(lineOf);
}

function lineOf(messages: readonly SentMessage[]): MessageLine[] {
  // Mail before text.
  const sorted = messages.toSorted((one, other) => one.channel.localeCompare(other.channel));
  const [first] = sorted;
  if (!first) return [];
  return [
    {
      key: first.id,
      what: `${kindLabel(first.kind)}: ${describeStates(sorted)}`,
      tone: sorted.some(({ status }) => unsentMessageStatuses.includes(status)) ? 'bad' : 'plain',
      resentBy: first.resent_by,
      at: sorted.map(momentOf).reduce((one, other) => (Date.parse(one) > Date.parse(other) ? one : other)),
      messages: sorted.map(({ id, channel, recipient, problem, status }) => ({
        id,
        to: recipient
          ? `${channelLabel(channel)} to ${channel === 'text' ? formatPhone(recipient) : recipient}`
          : channelLabel(channel),
        problem: status === 'sent' ? null : shortProblem(problem),
      })),
    },
  ];
}

const momentOf = ({ sent_at, status, created_at, updated_at }: SentMessage): string =>
  sent_at ?? (status === 'waiting' ? created_at : updated_at);

/** `mail and text sent`, or `mail sent, text failed`. */
function describeStates(messages: readonly SentMessage[]): string {
  const channelsOf = new Map<OutboxMessageStatus, string[]>();
  for (const { status, channel } of messages)
    channelsOf.set(status, [...(channelsOf.get(status) ?? []), channelLabel(channel).toLowerCase()]);
  return [...channelsOf]
    .map(([status, channels]) => `${channels.join(' and ')} ${messageState(status)[0].toLowerCase()}`)
    .join(', ');
}

/** The line says already that it was not sent. */
const shortProblem = (problem: string | null): string | null => problem?.replace(/^Not sent: /, '') ?? null;
