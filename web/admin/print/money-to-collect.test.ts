import { expect, test } from 'vitest';
import type { OrderPaymentStatus, OrderStatus, PaymentStatus } from '../../../supabase/types.ts';
import { describeMissingPayment, describeMoneyToCollect, describeTrouble } from './money-to-collect.ts';

test.each<[OrderStatus, OrderPaymentStatus, PaymentStatus[], words: string]>([
  ['processing', 'paid', [], 'PAID. Nothing to collect.'],
  ['cancelled', 'paid', [], 'CANCELLED. Do not hand over.'],
  ['cancelled', 'unpaid', [], 'CANCELLED. Do not hand over.'],
  ['cancelled', 'refunded', [], 'REFUNDED. Do not hand over.'],
  ['pending', 'unpaid', ['failed'], 'NOT PAID. Collect KES 951.'],
  ['pending', 'unpaid', ['failed', 'review'], 'PAYMENT NEEDS REVIEW. Ask the shop before handing over.'],
  ['pending', 'needs_review', ['completed'], 'PAYMENT NEEDS REVIEW. Ask the shop before handing over.'],
])('the slip of a %s, %s order with %j payments', (status, payment_status, payments, words) => {
  const order = { status, payment_status, payment_method: 'pending' as const, total_amount: 95_100 };
  expect(
    describeMoneyToCollect({ ...order, payments: payments.map((one) => ({ status: one })), parts: [] }),
  ).toBe(words);
});

test('the slip of an order that is paid at the door says what to collect', () => {
  expect(
    describeMoneyToCollect({
      status: 'shipped',
      payment_status: 'unpaid',
      payment_method: 'cash',
      total_amount: 71_050,
      payments: [],
      parts: [],
    }),
  ).toBe('CASH. Collect KES 711.');
});

test('money that came in part is neither collected again nor called missing', () => {
  const part = { received_cents: 30_000, payment_id: null, resolution: null };
  const order = {
    status: 'pending',
    payment_status: 'unpaid',
    payment_method: 'pending',
    total_amount: 95_100,
    payments: [],
  } as const;
  expect(describeMoneyToCollect({ ...order, parts: [part] })).toBe(
    'PARTLY PAID: KES 300 of KES 951. Ask the shop what to collect.',
  );
  expect(describeMissingPayment({ ...order, parts: [part] })).toBe('Partly paid: KES 300');
  const resolved = { ...part, resolution: 'not_an_order' } as const;
  expect(describeMoneyToCollect({ ...order, parts: [resolved] })).toBe('NOT PAID. Collect KES 951.');
  expect(describeMissingPayment({ ...order, parts: [resolved] })).toBe('Not paid yet');
  const assigned = { ...part, payment_id: 'a payment' };
  expect(describeMoneyToCollect({ ...order, parts: [assigned] })).toBe('NOT PAID. Collect KES 951.');
  const inReview = { ...order, payments: [{ status: 'review' as const }], parts: [] };
  expect(describeMissingPayment(inReview)).toBe('Payment is being checked');
});

test('the receipt of a cancelled order without a payment does not ask for one', () => {
  const order = {
    status: 'cancelled',
    payment_status: 'unpaid',
    payment_method: 'pending',
    total_amount: 95_100,
    payments: [],
    parts: [],
  } as const;
  expect(describeMissingPayment(order)).toBe('Cancelled, not paid');
  expect(describeMissingPayment({ ...order, status: 'pending' })).toBe('Not paid yet');
  expect(describeMissingPayment({ ...order, payment_status: 'needs_review' })).toBe(
    'Payment is being checked',
  );
});

test('the receipt of a paid order says that it was cancelled or refunded', () => {
  const payment = {
    status: 'completed',
    needs_refund: false,
    charge_cents: 95_100,
    refunded_at: null,
    refunds: [],
  } as const;
  const order = {
    status: 'shipped',
    payment_status: 'paid',
    total_amount: 95_100,
    payments: [payment],
  } as const;
  expect(describeTrouble(order)).toBeNull();
  const cancelled = { ...order, status: 'cancelled' } as const;
  expect(describeTrouble(cancelled)).toBe("Cancelled after you paid. We'll refund you or give you a call.");
  const sending = { ...payment, refunds: [{ status: 'sent' }] } as const;
  expect(describeTrouble({ ...cancelled, payments: [sending] })).toBe(
    "Cancelled. We're sending KSh 951.00 back.",
  );
  const sent = {
    ...payment,
    refunded_at: '2026-11-22T01:00:00Z',
    refunds: [{ status: 'completed' }],
  } as const;
  expect(describeTrouble({ ...cancelled, payment_status: 'refunded', payments: [sent] })).toBe(
    'Cancelled. KSh 951.00 was sent back.',
  );
});
