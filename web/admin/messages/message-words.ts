// What became of a message, in words.
import { messageKinds } from '../../../domain/customer-message.ts';
import type { BadgeTone } from '../../ui/badge.tsx';
import { statusWords } from '../status-badge.tsx';

export const messageStatuses: Record<string, [words: string, tone: BadgeTone]> = {
  waiting: ['Waiting', 'yellow'],
  sending: ['Being sent', 'blue'],
  sent: ['Sent', 'green'],
  failed: ['Failed', 'red'],
  unsure: ['Unsure', 'orange'],
  over_budget: ['Over budget', 'orange'],
};

export const kindWords = (kind: string): string => messageKinds[kind] ?? statusWords(kind);

interface Told {
  kind: string;
  channel: string;
  status: string;
  recipient: string;
  problem: string | null;
}

/** A message as a line of its order's timeline. */
export function describeMessage({ kind, channel, status, recipient, problem }: Told): {
  what: string;
  more: string;
  tone: 'good' | 'bad' | 'plain';
} {
  const by = channel === 'mail' ? 'mail' : 'text';
  const about = `“${kindWords(kind)}” to ${recipient}`;
  switch (status) {
    case 'sent':
      return { what: `Customer told by ${by}`, more: about, tone: 'plain' };
    case 'failed':
      return { what: `Customer not told by ${by}`, more: `${about}: ${problem ?? 'it failed'}`, tone: 'bad' };
    case 'over_budget':
      return {
        what: `${by === 'mail' ? 'Mail' : 'Text'} to the customer not sent`,
        more: `${about}: ${problem ?? 'over budget'}`,
        tone: 'bad',
      };
    case 'unsure':
      return {
        what: `Nobody knows whether a ${by === 'mail' ? 'mail' : 'text'} left`,
        more: about,
        tone: 'bad',
      };
    default:
      return {
        what: `A ${by === 'mail' ? 'mail' : 'text'} to the customer waits`,
        more: problem ? `${about}: ${problem}` : about,
        tone: 'plain',
      };
  }
}
