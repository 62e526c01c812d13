import { expect, test } from 'vitest';
import { describePayment } from './payment-badge.tsx';

const inReview = [{ status: 'failed' }, { status: 'review' }];

test.each([
  [{ status: 'pending', payment_status: 'unpaid' }, 'Unpaid'],
  [{ status: 'pending', payment_status: 'unpaid', payments: [{ status: 'failed' }] }, 'Unpaid'],
  [{ status: 'pending', payment_status: 'unpaid', payments: inReview }, 'Needs review'],
  [{ status: 'cancelled', payment_status: 'unpaid', payments: inReview }, 'Needs review'],
  [{ status: 'processing', payment_status: 'paid', payments: inReview }, 'Paid'],
  [{ status: 'cancelled', payment_status: 'paid' }, 'Refund due'],
  [{ status: 'pending', payment_status: 'needs_review' }, 'Needs review'],
  [{ status: 'cancelled', payment_status: 'refunded' }, 'Refunded'],
])('%j is called %s', (order, words) => expect(describePayment(order)[0]).toBe(words));
