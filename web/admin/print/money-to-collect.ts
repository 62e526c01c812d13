import { chargeCents, formatKes } from '../../../domain/money.ts';

interface Order {
  status: string;
  payment_status: string;
  /** In cents. */
  total_amount: number;
  payments: readonly { status: string }[];
}

/** What a rider must know about payment, on the packing slip. */
export function describeMoneyToCollect({ status, payment_status, total_amount, payments }: Order): string {
  if (payment_status === 'refunded') return 'REFUNDED. Do not hand over.';
  if (status === 'cancelled') return 'CANCELLED. Do not hand over.';
  if (payment_status === 'paid') return 'PAID. Nothing to collect.';
  // Customers are asked not to pay again while a payment is in review.
  return payment_status === 'needs_review' || payments.some((payment) => payment.status === 'review')
    ? 'PAYMENT NEEDS REVIEW. Ask the shop before handing over.'
    : `NOT PAID. Collect ${formatKes(chargeCents(total_amount))}.`;
}
