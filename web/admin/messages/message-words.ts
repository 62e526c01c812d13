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
  const channelWord = by === 'mail' ? 'Mail' : 'Text';
  const about = `“${kindWords(kind)}” to ${recipient}`;
  switch (status) {
    case 'sent':
      return { what: `${channelWord} sent to the customer`, more: about, tone: 'plain' };
    case 'failed':
      return {
        what: `${channelWord} to the customer failed`,
        more: `${about}: ${problem ?? 'it failed'}`,
        tone: 'bad',
      };
    case 'over_budget':
      return {
        what: `${channelWord} to the customer not sent`,
        // The problem begins with "Not sent", as the title of the line does.
        more: `${about}: ${problem?.replace(/^Not sent: /, '') ?? 'over budget'}`,
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
