import { expect, test } from 'vitest';
import { describeMessage } from './message-texts.ts';

const mail = {
  kind: 'order_paid',
  channel: 'mail',
  status: 'sent',
  recipient: 'amina@example.com',
  problem: null,
} as const;

test.each([
  [{}, 'Mail sent to the customer', '“Payment received” to amina@example.com', 'plain'],
  [{ channel: 'text' }, 'Text sent to the customer', '“Payment received” to amina@example.com', 'plain'],
  [
    { status: 'failed', problem: '550 no such person' },
    'Mail to the customer failed',
    '“Payment received” to amina@example.com: 550 no such person',
    'bad',
  ],
  [{ status: 'unsure' }, 'Unclear whether a mail was sent', '“Payment received” to amina@example.com', 'bad'],
  [
    { status: 'over_budget', channel: 'text', problem: "Not sent: today's budget of texts is used up" },
    'Text to the customer not sent',
    "“Payment received” to amina@example.com: today's budget of texts is used up",
    'bad',
  ],
  [
    { status: 'waiting', channel: 'text', problem: '503' },
    'A text to the customer is waiting',
    '“Payment received” to amina@example.com: 503',
    'plain',
  ],
] as const)('describes a message that is %j as %s', (change, what, more, tone) => {
  expect(describeMessage({ ...mail, ...change })).toEqual({ what, more, tone });
});
