import { describe, expect, test } from 'vitest';
import type { BookRow } from './difference-texts.ts';
import {
  canTakeBack,
  decisionsFor,
  describeMoney,
  describeOutcome,
  describeState,
  explainDecision,
  isPart,
  labelDecision,
} from './difference-texts.ts';

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
  order_status: null,
  order_booked_cents: null,
  order_waiting_cents: null,
  owed_cents: null,
  returned_cents: null,
  confirmed_by: null,
  ...change,
});

/** Money that staff assigned to an order. */
const assigned = (change: Partial<BookRow> = {}) =>
  row({
    kind: 'wrong_amount',
    our_cents: 115_100,
    their_cents: 115_100,
    payment_id: 'p',
    payment_status: 'completed',
    method: 'till',
    confirmed_by: 's',
    order_id: 'o',
    order_number: 'ORD-1042',
    customer_name: 'Wanjiku',
    charge_cents: 95_100,
    order_payment_status: 'needs_review',
    order_status: 'pending',
    order_booked_cents: 115_100,
    order_waiting_cents: 0,
    ...change,
  });

describe('possible decisions', () => {
  test.each<[what: string, change: Partial<BookRow>, decisions: string[]]>([
    ['an unknown payment', {}, ['give', 'not_an_order', 'refund']],
    [
      'a wrong amount without a payment',
      { kind: 'wrong_amount', payment_status: 'review' },
      ['give', 'refund', 'not_an_order'],
    ],
    ['a wrong amount of a paid order', { kind: 'wrong_amount', payment_status: 'completed' }, ['accept']],
    ['a second payment', { kind: 'double', payment_status: 'completed' }, ['refund', 'accept']],
    ['a second payment without a receipt', { kind: 'double', receipt: null }, ['accept']],
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

test.each<[change: Partial<BookRow>, words: string]>([
  [{ refund_status: 'requested', is_open: false }, "Refund awaits a colleague's approval"],
  [{ refund_status: 'failed' }, ''],
  [{ refunded_at: '2026-11-21T09:00:00Z' }, 'Sent back'],
  [{ resolution: 'accepted', is_open: false }, 'Kept as it is'],
  [{}, ''],
])('describes the state of %o as "%s"', (change, words) => {
  expect(describeState(row(change))).toBe(words);
});

test.each<[string, Partial<BookRow>, boolean]>([
  ['a payment below the charge of the order that it names', { kind: 'wrong_amount', order_id: 'o' }, true],
  ['a payment that belongs to an order', { kind: 'wrong_amount', order_id: 'o', payment_id: 'p' }, false],
  ['a payment that names no order', {}, false],
])('whether a payment is only a part: %s', (_, change, expected) => {
  expect(isPart(row(change))).toBe(expected);
});

test('a payment that belongs to a paid order is not described as a refund', () => {
  expect(describeOutcome('give', 'joined')).toBe("The order's payment now has its receipt");
});

test.each<[string, Partial<BookRow>, string[]]>([
  [
    'too much of an order that needs review',
    {},
    [
      'Deliver and keep KES 200 as credit owed',
      'Deliver and send KES 200 back',
      'Cancel and refund KES 1,151',
      'Take back from the order',
    ],
  ],
  [
    'too little',
    { our_cents: 75_100, their_cents: 75_100, order_booked_cents: 75_100 },
    ['Deliver as paid, forgive KES 200', 'Cancel and refund KES 751', 'Take back from the order'],
  ],
  [
    'less than was booked, of an order that was delivered',
    { their_cents: 110_100, order_payment_status: 'paid', order_status: 'delivered' },
    ['Forgive KES 50'],
  ],
  [
    'more than was booked, of an order that was delivered',
    { their_cents: 120_100, order_payment_status: 'paid', order_status: 'delivered' },
    ['Keep KES 50 as credit owed'],
  ],
  [
    'a part under the number of an order',
    {
      payment_id: null,
      payment_status: null,
      our_cents: null,
      their_cents: 47_000,
      order_booked_cents: null,
      order_waiting_cents: 47_000,
      order_payment_status: 'unpaid',
    },
    ['Assign to an order', 'Deliver as paid, forgive KES 481', 'Send back', 'Not an order'],
  ],
  [
    'a second payment',
    { kind: 'double', needs_refund: true, confirmed_by: null, order_payment_status: 'paid' },
    ['Send back', 'Keep KES 1,151 as credit owed'],
  ],
  ['a typed receipt', { kind: 'typed', their_cents: null }, ['Keep it as paid', 'Take back from the order']],
  [
    'a success without amount and receipt',
    { their_cents: null, receipt: null, payment_status: 'review', method: 'prompt' },
    ['Note that no money came'],
  ],
])('the decisions about %s are named by what happens', (_, change, labels) => {
  const about = assigned(change);
  expect(decisionsFor(about).map((decision) => labelDecision(decision, about))).toEqual(labels);
});

test('a decision about money is confirmed with order, customer and amount, unless it can be undone', () => {
  const rows = [
    assigned(),
    assigned({ our_cents: 75_100, their_cents: 75_100, order_booked_cents: 75_100 }),
    assigned({ kind: 'typed', their_cents: null }),
    assigned({ kind: 'double', needs_refund: true, order_payment_status: 'paid' }),
  ];
  for (const about of rows) {
    for (const decision of decisionsFor(about)) {
      const text = explainDecision(decision, about);
      expect(text, decision).toMatch(/KES \d/);
      if (decision !== 'refund') expect(text, decision).toMatch(/ORD-1042 of Wanjiku/);
    }
  }
  expect(explainDecision('not_an_order', row({}))).toBeNull();
  expect(explainDecision('reopen', row({}))).toBeNull();
});

test.each<[string, Partial<BookRow>, boolean]>([
  ['an order that is prepared', { order_status: 'processing' }, true],
  ['a cancelled order', { order_status: 'cancelled' }, true],
  ['an order that was shipped', { order_status: 'shipped' }, false],
  ['an order on its way', { order_status: 'out_for_delivery' }, false],
  ['a delivered order', { order_status: 'delivered' }, false],
  ['a delivered order, in addition to its payment', { order_status: 'delivered', needs_refund: true }, true],
  ['an order, by its prompt', { method: 'prompt' }, false],
  ['an order, by the payer', { confirmed_by: null }, false],
  ['an order, with a refund under way', { refund_status: 'requested' }, false],
  ['an order, with a withdrawn refund', { refund_status: 'withdrawn' }, true],
  ['an order, with change owed', { owed_cents: 100 }, false],
  ['an order, with change sent back', { owed_cents: 0, returned_cents: 100 }, false],
])('money of %s can be taken back: %j', (_, change, expected) => {
  expect(canTakeBack(assigned(change))).toBe(expected);
});

test('money is described by the present state of its order', () => {
  expect(describeMoney(assigned())).toContain('KES 200 too much');
  expect(
    describeMoney(
      assigned({
        kind: 'matched',
        our_cents: 47_000,
        their_cents: 47_000,
        order_booked_cents: 95_100,
        order_payment_status: 'paid',
      }),
    ),
  ).toContain('one part of the KES 951');
  expect(describeMoney(row({}))).toBe('');
});
