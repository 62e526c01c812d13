// Texts for the status of a message.
import { messageKinds } from '../../../domain/customer-message.ts';
import type {
  OutboxMessageChannel,
  OutboxMessageKind,
  OutboxMessageStatus,
} from '../../../supabase/types.ts';
import type { BadgeTone } from '../../ui/badge.tsx';
import { entryOf, labelOf } from '../status/label-of.ts';

type MessageState = [words: string, tone: BadgeTone];

export const messageStatuses: Record<OutboxMessageStatus, MessageState> = {
  waiting: ['Waiting', 'yellow'],
  sending: ['Being sent', 'blue'],
  sent: ['Sent', 'green'],
  failed: ['Failed', 'red'],
  unsure: ['Unsure', 'orange'],
  over_budget: ['Withheld', 'orange'],
};

/** The label and colour of a message's status. */
export const messageState = (status: OutboxMessageStatus): MessageState =>
  entryOf(messageStatuses, status, (words) => [words, 'grey']);

export const kindLabel = (kind: OutboxMessageKind): string =>
  entryOf<OutboxMessageKind, { label: string }>(messageKinds, kind, (label) => ({ label })).label;

export const channelLabels: Record<OutboxMessageChannel, string> = { mail: 'Mail', text: 'Text' };

export const channelLabel = (channel: OutboxMessageChannel): string => labelOf(channelLabels, channel);

interface DescribedMessage {
  kind: OutboxMessageKind;
  channel: OutboxMessageChannel;
  status: OutboxMessageStatus;
  recipient: string;
  problem: string | null;
}

/** A message as a line of its order's timeline. */
export function describeMessage({ kind, channel, status, recipient, problem }: DescribedMessage): {
  what: string;
  more: string;
  tone: 'good' | 'bad' | 'plain';
} {
  const by = channel === 'mail' ? 'mail' : 'text';
  const channelLabel = by === 'mail' ? 'Mail' : 'Text';
  const about = `“${kindLabel(kind)}” to ${recipient}`;
  switch (status) {
    case 'sent':
      return { what: `${channelLabel} sent to the customer`, more: about, tone: 'plain' };
    case 'failed':
      return {
        what: `${channelLabel} to the customer failed`,
        more: `${about}: ${problem ?? 'it failed'}`,
        tone: 'bad',
      };
    case 'over_budget':
      return {
        what: `${channelLabel} to the customer not sent`,
        // The problem begins with "Not sent", as the title of the line does.
        more: `${about}: ${problem?.replace(/^Not sent: /, '') ?? 'over budget'}`,
        tone: 'bad',
      };
    case 'unsure':
      return {
        what: `Unclear whether a ${by === 'mail' ? 'mail' : 'text'} was sent`,
        more: about,
        tone: 'bad',
      };
    default:
      return {
        what: `A ${by === 'mail' ? 'mail' : 'text'} to the customer is waiting`,
        more: problem ? `${about}: ${problem}` : about,
        tone: 'plain',
      };
  }
}
