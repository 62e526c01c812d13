import { expect, test } from 'vitest';
import { titleOfPayment } from './payment-news.ts';

test.each([
  [true, 'paid', true, 'Paid once more'],
  [true, 'paid', false, 'Paid once more'],
  [false, 'needs_review', false, 'Payment needs review'],
  [false, 'paid', false, 'Earlier payment found'],
  [false, 'paid', true, null],
] as const)(
  'announces a payment that needs a refund (%s), of an order that is %s, with a notice (%s)',
  (needsRefund, paymentStatus, isNotice, title) => {
    expect(titleOfPayment({ needsRefund, paymentStatus, isNotice })).toBe(title);
  },
);
