import { describe, expect, test } from 'vitest';
import type { BookRow } from './difference-texts.ts';
import { decisionsFor, describeOutcome, describeState, isPart } from './difference-texts.ts';

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

describe('possible decisions', () => {
  test.each([
    ['an unknown payment', {}, ['give', 'not_an_order', 'refund']],
    [
      'a wrong amount without a payment',
      { kind: 'wrong_amount', payment_status: 'review' },
      ['give', 'refund', 'not_an_order'],
    ],
    ['a wrong amount of an order', { kind: 'wrong_amount', payment_status: 'completed' }, ['accept']],
    ['a double payment', { kind: 'double', payment_status: 'completed' }, ['refund', 'accept']],
    ['a double payment without a receipt', { kind: 'double', receipt: null }, ['accept']],
    ['a payment missing at M-PESA', { kind: 'missing_there' }, ['accept']],
    ['a matched payment', { kind: 'matched', is_open: false }, []],
    ['a payment noted as not an order', { is_open: false, resolution: 'not_an_order' }, ['reopen']],
    ['a payment assigned to an order', { kind: 'matched', is_open: false, resolution: 'given' }, []],
    [
      'a payment that is being refunded',
      { is_open: false, resolution: 'refund', refund_status: 'approved' },
      [],
    ],
  ])('about %s', (_, change, expected) => {
    expect(decisionsFor(row(change))).toEqual(expected);
  });
});

test.each([
  [{ refund_status: 'requested', is_open: false }, "Refund awaits a colleague's approval"],
  [{ refund_status: 'failed' }, ''],
  [{ refunded_at: '2026-11-21T09:00:00Z' }, 'Sent back'],
  [{ resolution: 'accepted', is_open: false }, 'Accepted as it is'],
  [{}, ''],
])('describes the state of %o as "%s"', (change, words) => {
  expect(describeState(row(change))).toBe(words);
});

test.each([
  ['a payment below the charge of the order that it names', { kind: 'wrong_amount', order_id: 'o' }, true],
  ['a payment that belongs to an order', { kind: 'wrong_amount', order_id: 'o', payment_id: 'p' }, false],
  ['a payment that names no order', {}, false],
])('whether a payment is only a part: %s', (_, change, expected) => {
  expect(isPart(row(change))).toBe(expected);
});

test('a payment that belongs to a paid order is not described as a refund', () => {
  expect(describeOutcome('give', 'joined')).toBe("The order's payment now has its receipt");
});
