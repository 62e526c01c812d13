// States that a later version of the database added, in a tab that was opened before.
import { expect, test } from 'vitest';
import { describePayments } from '../dashboard/describe-status.ts';
import { channelLabel, kindLabel, messageState } from '../messages/message-texts.ts';
import { describeActor, describeEvent } from '../orders/timeline/order-event-texts.ts';
import {
  type BookRow,
  describeDecision,
  describeState,
} from '../reconciliation/differences/difference-texts.ts';
import { sourceOf } from '../reconciliation/messages-to-check/message-to-check.ts';
import { entryOf, labelOf } from './label-of.ts';
import { labelOfPayment, labelOfStatus } from './staff-labels.ts';

const row = (change: object) =>
  describeState({ refund_status: null, resolution: null, refunded_at: null, ...change } as BookRow);

test.each([
  ['on_hold', 'On Hold'],
  ['constructor', 'Constructor'],
  ['toString', 'ToString'],
])('an unknown state %s is shown as %s', (text, words) => {
  const state = text as never;
  expect(labelOf({ paid: 'Paid' }, state)).toBe(words);
  expect(entryOf({ paid: 1 }, state, (given) => given.length)).toBe(words.length);

  expect(labelOfStatus(state)).toEqual({ text: words, tone: 'grey' });
  expect(labelOfPayment(state)).toEqual({ text: words, tone: 'grey' });
  expect(messageState(state)).toEqual([words, 'grey']);
  expect([kindLabel(state), channelLabel(state), sourceOf({ source: state })]).toEqual([words, words, words]);
  expect(describeEvent({ kind: state, details: {} }).what).toBe(words);
  expect(describeEvent({ kind: 'payment_status_changed', details: { to: text } }).what).toBe(words);
  expect(describeEvent({ kind: 'status_changed', details: { to: text, reason: text } })).toMatchObject({
    what: `Status set to ${words}`,
    more: words,
  });
  expect(describeActor({ actor: state, actor_email: null })).toBe(words);
  expect(describeDecision(state)).toBe(words);
  expect([row({ resolution: text }), row({ refund_status: text })]).toEqual([words, `Refund: ${words}`]);
  expect(describePayments(state, null)).toMatchObject({ value: words });
});

test('an entry that is empty on purpose stays empty', () => {
  expect(entryOf<string, string | null>({ failed: null }, 'failed', (words) => words)).toBeNull();
  expect(labelOf({ reopened: '' }, 'reopened')).toBe('');
});
