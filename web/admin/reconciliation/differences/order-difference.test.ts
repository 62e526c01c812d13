import { describe, expect, test } from 'vitest';
import {
  describeMoneyOfOrder,
  explainReviewDecision,
  labelReviewDecision,
  type MoneyOfOrder,
  reviewDecisionsFor,
} from './order-difference.ts';

const charge = 95_100;

describe('the decisions about an order that needs review', () => {
  test.each([
    [
      115_100,
      [
        'Deliver and keep KES 200 as credit owed',
        'Deliver and send KES 200 back',
        'Cancel and refund KES 1,151',
      ],
    ],
    [75_100, ['Deliver as paid, forgive KES 200', 'Cancel and refund KES 751']],
    [charge, ['Deliver as paid', 'Cancel and refund KES 951']],
  ])('after %i cents are %j', (receivedCents, labels) => {
    const amounts = { receivedCents, chargeCents: charge };
    expect(reviewDecisionsFor(amounts).map((one) => labelReviewDecision(one, amounts))).toEqual(labels);
  });

  test('to cancel names what goes back: also what is owed, or nothing', () => {
    const amounts = { receivedCents: 0, chargeCents: charge };
    const named = { orderNumber: 'ORD-1042', customerName: 'Wanjiku' };
    expect(labelReviewDecision('cancel_and_refund', amounts)).toBe('Cancel the order');
    expect(explainReviewDecision('cancel_and_refund', { ...amounts, ...named })).toMatch(/no money moves/);
    const owed = { ...amounts, owedCents: charge };
    expect(labelReviewDecision('cancel_and_refund', owed)).toBe('Cancel and refund KES 951');
    expect(explainReviewDecision('cancel_and_refund', { ...owed, ...named })).toMatch(/KES 951 goes back/);
  });

  test('name order, customer and amounts before they are saved', () => {
    for (const receivedCents of [115_100, 75_100, charge]) {
      const facts = { receivedCents, chargeCents: charge, orderNumber: 'ORD-1042', customerName: 'Wanjiku' };
      for (const decision of reviewDecisionsFor(facts)) {
        const text = explainReviewDecision(decision, facts);
        expect(text).toContain('ORD-1042 of Wanjiku');
        expect(text).toContain('KES 951');
      }
    }
  });
});

const waiting: MoneyOfOrder = {
  cents: 47_000,
  isAssigned: false,
  chargeCents: charge,
  paymentStatus: 'unpaid',
  status: 'pending',
  bookedCents: 0,
  waitingCents: 47_000,
};
const assigned: MoneyOfOrder = {
  ...waiting,
  isAssigned: true,
  paymentStatus: 'needs_review',
  bookedCents: 47_000,
  waitingCents: 0,
};

test.each<[string, MoneyOfOrder, RegExp]>([
  ['a part that waits alone', waiting, /KES 481 is missing/],
  [
    'a part whose rest waits too',
    { ...waiting, waitingCents: charge },
    /other KES 481 .* whole charge .* Assign each/,
  ],
  [
    'the rest of a part that the order has',
    { ...waiting, cents: 48_100, waitingCents: 48_100, bookedCents: 47_000, paymentStatus: 'needs_review' },
    /KES 470 that the order has.* Assign it/,
  ],
  [
    'a part that makes the whole charge only with another one',
    { ...waiting, cents: 20_000, waitingCents: 48_100, bookedCents: 47_000, paymentStatus: 'needs_review' },
    /other KES 281 .* whole charge .* Assign each/,
  ],
  [
    'a part of an order that other money paid',
    { ...waiting, paymentStatus: 'paid', bookedCents: charge },
    /paid without it/,
  ],
  [
    'a part of an order that was refunded',
    { ...waiting, paymentStatus: 'refunded', status: 'cancelled' },
    /refunded without it/,
  ],
  ['a part of a cancelled order', { ...waiting, status: 'cancelled' }, /cancelled/],
  ['parts that are more than the charge', { ...waiting, waitingCents: 100_000 }, /KES 49 more/],
  ['an assigned part without the rest', assigned, /KES 470 of KES 951 has come: KES 481 is missing/],
  [
    'an assigned part after the rest has come',
    { ...assigned, paymentStatus: 'paid', bookedCents: charge },
    /one part of the KES 951/,
  ],
  [
    'an assigned part of an order delivered as it is',
    { ...assigned, paymentStatus: 'paid' },
    /delivered as paid with KES 470/,
  ],
  [
    'more than the charge, whose rest is owed or paid another order',
    { ...assigned, cents: 190_200, paymentStatus: 'paid', bookedCents: charge },
    /KES 951 of it pays the order/,
  ],
  [
    'money that paid another order',
    { ...assigned, cents: charge, bookedCents: 0 },
    /Nothing of it is left for the order's charge of KES 951/,
  ],
  [
    'money of which a part paid another order',
    { ...assigned, cents: charge, bookedCents: 19_000 },
    /Only KES 190 of it is left/,
  ],
  ['too much', { ...assigned, cents: 100_000, bookedCents: 100_000 }, /KES 49 too much/],
  [
    'too much of an order that is paid',
    { ...assigned, cents: 100_000, bookedCents: 100_000, paymentStatus: 'paid' },
    /KES 49 more/,
  ],
  ['the exact charge', { ...assigned, cents: charge, bookedCents: charge }, /charge of KES 951/],
  [
    'a second payment',
    { ...assigned, isSurplus: true, paymentStatus: 'paid', bookedCents: charge },
    /Send KES 470 back/,
  ],
  ['money that went back', { ...assigned, paymentStatus: 'refunded' }, /went back to the customer/],
])('%s is described by the present state', (_, money, text) => {
  expect(describeMoneyOfOrder(money)).toMatch(text);
});

test('after the rest has come, a part is never to be sent back', () => {
  for (const isAssigned of [true, false]) {
    const money = {
      ...assigned,
      isAssigned,
      bookedCents: isAssigned ? charge : 48_100,
      waitingCents: isAssigned ? 0 : 47_000,
    };
    for (const paymentStatus of ['paid', 'needs_review'] as const) {
      if (paymentStatus === 'paid' && !isAssigned) continue;
      expect(describeMoneyOfOrder({ ...money, paymentStatus })).not.toMatch(/send|missing/i);
    }
  }
});
