import { expect, test } from 'vitest';
import { messageLines } from './message-lines.ts';

type Sent = Parameters<typeof messageLines>[0][number];

const mail: Sent = {
  id: 'mail',
  kind: 'order_received',
  event_key: '',
  channel: 'mail',
  status: 'sent',
  recipient: 'amina@example.com',
  problem: null,
  resent_by: null,
  created_at: '2026-11-28T11:00:00Z',
  sent_at: '2026-11-28T11:00:02Z',
  updated_at: '2026-11-28T11:00:02Z',
};
const text: Sent = {
  ...mail,
  id: 'text',
  channel: 'text',
  recipient: '+254711002233',
  sent_at: '2026-11-28T11:00:05Z',
};
const notSent = { sent_at: null, updated_at: '2026-11-28T11:20:00Z' } as const;

test('mail and text of one event are one line, with a link for each', () => {
  expect(messageLines([text, mail])).toEqual([
    {
      key: 'mail',
      what: 'Order received: mail and text sent',
      tone: 'plain',
      resentBy: null,
      at: '2026-11-28T11:00:05Z',
      messages: [
        { id: 'mail', to: 'Mail to amina@example.com', problem: null },
        { id: 'text', to: 'Text to 0711 002 233', problem: null },
      ],
    },
  ]);
});

test.each<
  [states: string, messages: Sent[], what: string, tone: 'plain' | 'bad', problems: (string | null)[]]
>([
  ['a mail alone', [mail], 'Order received: mail sent', 'plain', [null]],
  [
    'a failed text',
    [mail, { ...text, ...notSent, status: 'failed', problem: '550 no such number' }],
    'Order received: mail sent, text failed',
    'bad',
    [null, '550 no such number'],
  ],
  [
    'two that failed',
    [
      { ...mail, ...notSent, status: 'failed', problem: '550' },
      { ...text, ...notSent, status: 'failed', problem: '551' },
    ],
    'Order received: mail and text failed',
    'bad',
    ['550', '551'],
  ],
  [
    'a text over the budget',
    [
      mail,
      { ...text, ...notSent, status: 'over_budget', problem: "Not sent: today's budget of texts is used up" },
    ],
    'Order received: mail sent, text withheld',
    'bad',
    [null, "today's budget of texts is used up"],
  ],
  [
    'a text that may have been sent',
    [mail, { ...text, ...notSent, status: 'unsure', problem: null }],
    'Order received: mail sent, text unsure',
    'bad',
    [null, null],
  ],
  [
    'a text that is tried again',
    [mail, { ...text, ...notSent, status: 'waiting', problem: '503' }],
    'Order received: mail sent, text waiting',
    'plain',
    [null, '503'],
  ],
  [
    'a message that was sent after a problem',
    [{ ...mail, problem: '450 mailbox busy' }],
    'Order received: mail sent',
    'plain',
    [null],
  ],
])('says the state of %s', (_, messages, what, tone, problems) => {
  const [line, ...more] = messageLines(messages);
  expect(more).toEqual([]);
  expect(line).toMatchObject({ what, tone });
  expect(line?.messages.map(({ problem }) => problem)).toEqual(problems);
});

test('other events, other failed deliveries and messages sent again are lines of their own', () => {
  const lines = messageLines([
    mail,
    { ...text, kind: 'order_paid' },
    { ...mail, id: 'first try', kind: 'delivery_failed', event_key: '1' },
    { ...mail, id: 'second try', kind: 'delivery_failed', event_key: '2' },
    { ...text, id: 'again', resent_by: 'njeri@jani.example', sent_at: '2026-11-28T15:00:00Z' },
  ]);
  expect(lines.map(({ what, resentBy }) => [what, resentBy])).toEqual([
    ['Order received: mail sent', null],
    ['Payment received: text sent', null],
    ['Delivery failed: mail sent', null],
    ['Delivery failed: mail sent', null],
    ['Order received: text sent', 'njeri@jani.example'],
  ]);
});

test('the recipient of an erased customer is left out', () => {
  const [line] = messageLines([{ ...mail, recipient: '' }]);
  expect(line?.messages).toEqual([{ id: 'mail', to: 'Mail', problem: null }]);
});
