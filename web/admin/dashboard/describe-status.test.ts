import { describe, expect, test } from 'vitest';
import type { OutboxMessageChannel } from '../../../supabase/types.ts';
import { health } from '../../testing/payment-health.ts';
import {
  ago,
  describeAuthentication,
  describeBackup,
  describeDatabase,
  describeMessages,
  describeMessagesToCheck,
  describePayments,
  describeRefunds,
  describeStatement,
  describeWithheld,
  type MessageBudget,
  type SystemStatus,
} from './describe-status.ts';

const status: SystemStatus = {
  checked_at: '2026-11-21T10:00:00Z',
  last_backup_at: '2026-11-21T08:00:00Z',
  last_backup_outcome: 'verified',
  last_attempt_at: '2026-11-21T08:00:00Z',
  last_attempt_outcome: 'verified',
  last_attempt_problem: null,
  last_payment_answer_at: '2026-11-21T09:59:30Z',
  overdue_payments: 0,
  opened_at: '2026-11-01T08:00:00Z',
  prompts_paused_since: null,
};
const without = { ...status, last_backup_at: null, last_backup_outcome: null, last_attempt_at: null };

test.each([
  [-2000, 'just now'],
  [59_000, 'just now'],
  [60_000, '1 minute ago'],
  [59 * 60_000, '59 minutes ago'],
  [2 * 3_600_000 + 5, '2 hours ago'],
  [47 * 3_600_000, '47 hours ago'],
  [72 * 3_600_000, '3 days ago'],
])('%d ms is %s', (ms, words) => expect(ago(ms)).toBe(words));

test('describes a connected, slow or unreachable database', () => {
  expect(describeDatabase(12.4)).toEqual({ state: 'ok', value: 'Connected', detail: 'Answered in 12 ms' });
  expect(describeDatabase(2100)).toMatchObject({ state: 'attention', value: 'Slow' });
  expect(describeDatabase(null)).toMatchObject({ state: 'problem', value: 'No answer' });
});

test('describes an active or unreachable auth service', () => {
  expect(describeAuthentication(true)).toMatchObject({ state: 'ok', value: 'Active' });
  expect(describeAuthentication(null)).toMatchObject({ state: 'problem' });
});

test('names the payment mode, and asks for attention to overdue prompts', () => {
  expect(describePayments('simulator', status)).toEqual({
    state: 'ok',
    value: 'Simulated',
    detail: 'No money moves. Last answer just now',
  });
  expect(describePayments('production', { ...status, last_payment_answer_at: null })).toMatchObject({
    value: 'Live',
    detail: 'M-PESA. No payments yet',
  });
  expect(describePayments('sandbox', { ...status, overdue_payments: 2 })).toMatchObject({
    state: 'attention',
    detail: expect.stringContaining('2 prompts have been open'),
  });
  expect(describePayments('production', null)).toMatchObject({ state: 'attention' });
});

test('shows paused prompts as a problem with their reason', () => {
  expect(describePayments('production', status, health)).toEqual(describePayments('production', status));
  const pause = {
    code: 'SFC_IC0003',
    description: null,
    since: status.checked_at,
    until: status.checked_at,
    is_refused: true,
  };
  expect(describePayments('production', status, { ...health, pause })).toMatchObject({
    state: 'problem',
    value: 'Paused',
    detail: expect.stringContaining('does not exist'),
  });
  // Also while the details are not known.
  expect(
    describePayments('production', { ...status, prompts_paused_since: status.checked_at }, null),
  ).toMatchObject({ state: 'problem', value: 'Paused' });
});

test('describes refunds only while one needs staff', () => {
  expect(describeRefunds(health)).toBeNull();
  expect(describeRefunds({ ...health, refunds_to_approve: 2, refunds_unknown: 1 })).toMatchObject({
    state: 'attention',
    detail: '2 to approve, 1 without a result from M-PESA. See Orders.',
  });
  expect(describeRefunds({ ...health, refunds_sent_twice: 1 })).toMatchObject({
    state: 'attention',
    detail: '1 sent back twice. See Orders.',
  });
  const limit_raise = {
    raised_by_email: 'grace@jani.example',
    raised_at: '2026-11-21T09:00:00Z',
    raised_from: 100_000,
    raised_to: 500_000,
    applies_from: '2026-11-22T09:00:00Z',
    current_limit: 100_000,
  };
  expect(describeRefunds({ ...health, limit_raise })).toMatchObject({
    state: 'attention',
    value: 'Limit raised',
    detail: expect.stringMatching(/^grace@jani\.example raised the refund limit from KES 1,000 to KES 5,000/),
  });
});

test.each<[string, boolean, SystemStatus | null, string, string]>([
  ['made two hours ago', false, status, 'ok', '2 hours ago'],
  ['read, not restored', false, { ...status, last_backup_outcome: 'readable' }, 'ok', '2 hours ago'],
  [
    'of the night before',
    false,
    { ...status, last_backup_at: '2026-11-20T00:05:00Z' },
    'attention',
    '33 hours ago',
  ],
  ['never made', false, { ...without, last_attempt_outcome: null }, 'attention', 'None yet'],
  [
    'not made yet in a shop of half an hour',
    false,
    { ...without, last_attempt_outcome: null, opened_at: '2026-11-21T09:30:00Z' },
    'ok',
    'None yet',
  ],
  ['failed since', false, { ...status, last_attempt_outcome: 'failed' }, 'problem', '2 hours ago'],
  ['impossible', false, { ...without, last_attempt_outcome: 'impossible' }, 'problem', 'None yet'],
  ['not known', false, null, 'attention', 'Unknown'],
  ['of a hosted project', true, null, 'ok', 'Not made here'],
])('describes a backup: %s', (_, isHosted, known, state, value) => {
  expect(describeBackup(isHosted, known)).toMatchObject({ state, value });
});

test('names the reason of a failed backup', () => {
  const attempt = { last_attempt_outcome: 'failed', last_attempt_problem: 'the disk is full' } as const;
  expect(describeBackup(false, { ...status, ...attempt }).detail).toBe(
    'The last attempt failed: the disk is full',
  );
});

describe("M-PESA's statement", () => {
  const facts = {
    checked_at: '2026-11-21T12:00:00Z',
    statement_registered_at: '2026-11-01T00:00:00Z',
    covered_until: '2026-11-21T11:30:00Z',
    problem: null,
    missed: [],
  };
  const write = (iso: string) => iso.slice(5, 16);

  test('has no line while it is read, or when it is not registered', () => {
    expect(describeStatement(facts, write)).toBeNull();
    expect(describeStatement(undefined, write)).toBeNull();
    expect(
      describeStatement({ ...facts, statement_registered_at: null, covered_until: null }, write),
    ).toBeNull();
  });

  test('shows until when it was read, and why it is late', () => {
    expect(
      describeStatement({ ...facts, covered_until: '2026-11-21T06:00:00Z', problem: 'HTTP 503' }, write),
    ).toEqual({ state: 'attention', value: 'Behind', detail: 'Read until 11-21T06:00. HTTP 503' });
  });

  test('shows the missing period after more than 48 hours', () => {
    const missed = [{ starts_at: '2026-11-15T08:00:00Z', ends_at: '2026-11-16T09:00:00Z' }];
    expect(describeStatement({ ...facts, missed }, write)).toMatchObject({
      state: 'problem',
      detail: expect.stringContaining('11-15T08:00 to 11-16T09:00'),
    });
  });
});

const budget = (
  channel: OutboxMessageChannel,
  sent: number,
  per_day: number,
  change: Partial<MessageBudget> = {},
) => ({
  channel,
  sent,
  sent_without_priority: 0,
  per_day,
  over_budget: 0,
  reason: null,
  ...change,
});

test.each([
  [12, 30, {}, 'ok', 'Within budget', 'SMS today 12 of 300, mails 30 of 1,000'],
  [239, 30, {}, 'ok', 'Within budget', 'SMS today 239 of 300, mails 30 of 1,000'],
  [240, 30, {}, 'attention', 'Nearly used up', 'SMS today 240 of 300, mails 30 of 1,000'],
  [
    12,
    30,
    { over_budget: 83, reason: 'Not sent: too many unpaid orders from one network today' },
    'attention',
    '83 withheld',
    'SMS today 12 of 300, mails 30 of 1,000. Too many unpaid orders from one network today.',
  ],
  [12, 1000, {}, 'attention', 'Used up', 'SMS today 12 of 300, mails 1,000 of 1,000'],
  [
    150,
    30,
    { sent_without_priority: 150 },
    'attention',
    'Half used up',
    'SMS today 150 of 300, mails 30 of 1,000. Visitors who have not paid have used their half of the SMS; messages about paid orders are still sent',
  ],
] as const)(
  'with %d texts and %d mails sent (%j), messages are %s: %s',
  (texts, mails, change, state, value, detail) => {
    const budgets = [budget('text', texts, 300, change), budget('mail', mails, 1000)];
    expect(describeMessages(budgets)).toEqual({ state, value, detail });
  },
);

test('treats a budget of 0 as switched off, not as used up', () => {
  const budgets = [budget('text', 0, 0), budget('mail', 0, 1000)];
  expect(describeMessages(budgets)).toMatchObject({
    state: 'ok',
    detail: 'SMS today 0 of 0, mails 0 of 1,000',
  });
  expect(describeWithheld(budgets)).toBeNull();
});

test('names the used-up budgets and the number of unsent messages in one notice', () => {
  expect(
    describeWithheld([budget('text', 299, 300), budget('mail', 1000, 1000, { over_budget: 1 })]),
  ).toEqual({
    title: "Today's budget of mails is used up",
    text: 'One message was not sent.',
    isUsedUp: true,
  });
  expect(
    describeWithheld([
      budget('text', 300, 300, { over_budget: 4 }),
      budget('mail', 1000, 1000, { over_budget: 2 }),
    ]),
  ).toEqual({
    title: "Today's budget of SMS and mails is used up",
    text: '6 messages were not sent.',
    isUsedUp: true,
  });
});

test('names the number of withheld messages and each reason once', () => {
  const reason = 'Not sent: too many unpaid orders from one network today';
  const withheld = (change: Partial<MessageBudget>, other: Partial<MessageBudget> = {}) =>
    describeWithheld([budget('text', 12, 300, change), budget('mail', 30, 1000, other)]);
  expect(withheld({})).toBeNull();
  expect(withheld({ over_budget: 1, reason })).toEqual({
    title: 'One message to a customer is withheld',
    text: 'Too many unpaid orders from one network today.',
    isUsedUp: false,
  });
  expect(withheld({ over_budget: 1000, reason }, { over_budget: 20, reason })).toMatchObject({
    title: '1,020 messages to customers are withheld',
    text: 'Too many unpaid orders from one network today.',
  });
  const half = "Not sent: the half of today's budget of mails for visitors who have not paid is used up";
  expect(withheld({ over_budget: 2, reason }, { over_budget: 2, reason: half })?.text).toBe(
    "Too many unpaid orders from one network today. The half of today's budget of mails for visitors who have not paid is used up.",
  );
});

test('messages of M-PESA to check need attention, and are not shown while there are none', () => {
  expect([describeMessagesToCheck(undefined), describeMessagesToCheck({ to_check: 0 })]).toEqual([
    null,
    null,
  ]);
  expect(describeMessagesToCheck({ to_check: 1 })).toMatchObject({
    state: 'attention',
    detail: expect.stringMatching(/^One message of M-PESA/),
  });
  expect(describeMessagesToCheck({ to_check: 3 })?.detail).toMatch(/^3 messages of M-PESA/);
});
