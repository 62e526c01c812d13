import { expect, test } from 'vitest';
import { describeMoneyToCollect } from './money-to-collect.ts';

test.each([
  ['processing', 'paid', [], 'PAID. Nothing to collect.'],
  ['cancelled', 'paid', [], 'CANCELLED. Do not hand over.'],
  ['cancelled', 'unpaid', [], 'CANCELLED. Do not hand over.'],
  ['cancelled', 'refunded', [], 'REFUNDED. Do not hand over.'],
  ['pending', 'unpaid', ['failed'], 'NOT PAID. Collect KES 951.'],
  ['pending', 'unpaid', ['failed', 'review'], 'PAYMENT NEEDS REVIEW. Ask the shop before handing over.'],
  ['pending', 'needs_review', ['completed'], 'PAYMENT NEEDS REVIEW. Ask the shop before handing over.'],
])('the slip of a %s, %s order with %j payments', (status, payment_status, payments, words) => {
  const order = { status, payment_status, total_amount: 95_100 };
  expect(describeMoneyToCollect({ ...order, payments: payments.map((one) => ({ status: one })) })).toBe(
    words,
  );
});
