// What staff read for a state. That each state has a label, and nothing else one, is a matter of types.
import { describe, expect, test } from 'vitest';
import {
  deliveryStatusLabels,
  describePaymentOfOrder,
  labelOfStatus,
  orderStatusLabels,
  paymentStatusLabels,
} from './staff-labels.ts';

test('one word has one label, whatever it is a status of', () => {
  const tables = [orderStatusLabels, deliveryStatusLabels, paymentStatusLabels];
  for (const labels of tables) {
    for (const [status, label] of Object.entries(labels))
      expect(labelOfStatus(status as never)).toEqual(label);
  }
});

describe('whether an order is paid', () => {
  const inReview = [{ status: 'failed' }, { status: 'review' }] as const;
  test.each([
    // status, payment status, payments, label, tone
    ['pending', 'unpaid', [], 'Unpaid', 'yellow'],
    ['cancelled', 'unpaid', [], 'Unpaid', 'grey'],
    ['pending', 'unpaid', inReview, 'Needs review', 'red'],
    ['cancelled', 'unpaid', inReview, 'Needs review', 'red'],
    ['shipped', 'unpaid', [], 'Unpaid', 'yellow'],
    ['processing', 'paid', [], 'Paid', 'green'],
    ['processing', 'paid', inReview, 'Paid', 'green'],
    ['cancelled', 'paid', [], 'Refund due', 'red'],
    ['pending', 'needs_review', [], 'Needs review', 'red'],
    ['cancelled', 'needs_review', [], 'Needs review', 'red'],
    ['cancelled', 'refunded', [], 'Refunded', 'grey'],
    ['delivered', 'refunded', [], 'Refunded', 'grey'],
  ] as const)('%s and %s, payments %j: %s', (status, payment_status, payments, text, tone) => {
    expect(describePaymentOfOrder({ status, payment_status, payments })).toEqual({ text, tone });
  });
});
