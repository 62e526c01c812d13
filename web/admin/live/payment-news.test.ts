import { expect, test } from 'vitest';
import { titleOfPayment } from './payment-news.ts';

const knownAt = '2026-11-26T10:00:00.000Z';
const minutesBefore = (minutes: number) => new Date(Date.parse(knownAt) - minutes * 60_000).toISOString();

test.each([
  // minutes before it was known, needs refund, order's payment status, title
  [0, false, 'paid', 'New paid order'],
  [0.2, false, 'paid', 'New paid order'],
  [4, false, 'paid', 'New paid order'],
  // The clock of M-PESA may be ahead.
  [-1, false, 'paid', 'New paid order'],
  [6, false, 'paid', 'Earlier payment found'],
  [28, false, 'paid', 'Earlier payment found'],
  [60 * 24 * 3, false, 'paid', 'Earlier payment found'],
  [0, true, 'paid', 'Paid once more'],
  [28, true, 'paid', 'Paid once more'],
  [0, false, 'needs_review', 'Payment needs review'],
  [28, false, 'needs_review', 'Payment needs review'],
] as const)(
  'a payment of %d minutes ago (to refund: %s, order %s) is announced as %j',
  (minutes, needsRefund, paymentStatus, title) => {
    expect(titleOfPayment({ needsRefund, paymentStatus, paidAt: minutesBefore(minutes), knownAt })).toBe(
      title,
    );
  },
);
