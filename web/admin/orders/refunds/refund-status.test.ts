import { expect, test } from 'vitest';
import type { PaymentStatus, RefundStatus } from '../../../../supabase/types.ts';
import { isGoingBack } from './refund-status.ts';

const payment = (status: PaymentStatus, refunds: RefundStatus[], refundedAt: string | null = null) => ({
  status,
  refunded_at: refundedAt,
  refunds: refunds.map((status) => ({ status })),
});

test.each([
  ['without a payment', [], false],
  ['without a refund', [payment('completed', [])], false],
  ['with a refund that waits for approval', [payment('completed', ['requested'])], true],
  ['with a refund that M-PESA has not answered', [payment('completed', ['failed', 'unknown'])], true],
  ['with a failed refund', [payment('completed', ['failed'])], false],
  ['with a withdrawn refund', [payment('completed', ['withdrawn'])], false],
  ['with a refund of one of two payments', [payment('completed', ['sent']), payment('completed', [])], false],
  [
    'with a refund of the payment that is left',
    [payment('completed', ['completed'], '2026-11-26T10:00:00Z'), payment('completed', ['approved'])],
    true,
  ],
  ['with a prompt that failed besides', [payment('failed', []), payment('completed', ['sending'])], true],
] as const)('money of an order %s', (_, payments, isBack) => {
  expect(isGoingBack(payments)).toBe(isBack);
});
