// Texts for the status of a message.
import { messageKinds } from '../../../domain/messages/customer-message.ts';
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
