import { describe, expect, test } from 'vitest';
import type { BookRow } from './difference-words.ts';
import { decisionsFor, describeOutcome, describeState, isPart } from './difference-words.ts';

const row = (change: Partial<BookRow>): BookRow => ({
  id: 'UKL1234567',
  happened_at: '2026-11-21T09:00:00Z',
  kind: 'missing_here',
  is_open: true,
  receipt: 'UKL1234567',
  our_cents: null,
  their_cents: 95_100,
  payment_id: null,
  payment_status: null,
  method: null,
  needs_refund: false,
  refunded_at: null,
  refund_status: null,
  order_id: null,
  order_number: null,
  tracking_number: null,
  customer_name: null,
  charge_cents: null,
  order_payment_status: null,
  reference: '',
  payer_name: null,
  payer_phone: null,
  reported_by_confirmation_at: null,
  reported_by_statement_at: null,
  resolution: null,
  ...change,
});

describe('what can be decided', () => {
  test.each([
    ['money that nobody knows', {}, ['give', 'not_an_order', 'refund']],
    [
      'a wrong amount without a payment',
      { kind: 'wrong_amount', payment_status: 'review' },
      ['give', 'refund', 'not_an_order'],
    ],
    ['a wrong amount of an order', { kind: 'wrong_amount', payment_status: 'completed' }, ['accept']],
    ['a double payment', { kind: 'double', payment_status: 'completed' }, ['refund', 'accept']],
    ['a double payment without a receipt', { kind: 'double', receipt: null }, ['accept']],
    ['what M-PESA does not know', { kind: 'missing_there' }, ['accept']],
    ['what matches', { kind: 'matched', is_open: false }, []],
    ['what was noted', { is_open: false, resolution: 'not_an_order' }, ['reopen']],
    ['what was given to an order', { kind: 'matched', is_open: false, resolution: 'given' }, []],
    ['what is being sent back', { is_open: false, resolution: 'refund', refund_status: 'approved' }, []],
  ])('about %s', (_, change, expected) => {
    expect(decisionsFor(row(change))).toEqual(expected);
  });
});

test.each([
  [{ refund_status: 'requested', is_open: false }, 'Refund waits for a second member'],
  [{ refund_status: 'failed' }, ''],
  [{ refunded_at: '2026-11-21T09:00:00Z' }, 'Sent back'],
  [{ resolution: 'accepted', is_open: false }, 'Accepted as it is'],
  [{}, ''],
])('the state of %o is told as "%s"', (change, words) => {
  expect(describeState(row(change))).toBe(words);
});

test.each([
  ['less than the charge of the order it names', { kind: 'wrong_amount', order_id: 'o' }, true],
  ['money that is in an order already', { kind: 'wrong_amount', order_id: 'o', payment_id: 'p' }, false],
  ['money that names no order', {}, false],
])('%s is a part that pays nothing by itself, or not', (_, change, expected) => {
  expect(isPart(row(change))).toBe(expected);
});

test('money that was a paid order’s own is not said to go back', () => {
  expect(describeOutcome('give', 'joined')).toBe(
    'It is what the order was paid with: its receipt is known now',
  );
});
