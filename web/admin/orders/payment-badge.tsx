// Whether an order is paid, as a badge.

import { Badge } from '../../ui/badge.tsx';
import { describePaymentOfOrder } from '../status/staff-labels.ts';

type PaidOrNot = Parameters<typeof describePaymentOfOrder>[0];

/** Options of the payment filter; the values are those of `search_orders`. */
export const paymentFilters = [
  { value: '', label: 'All payments' },
  { value: 'paid', label: 'Paid' },
  { value: 'unpaid', label: 'Unpaid' },
  { value: 'needs_review', label: 'Needs review' },
  { value: 'refund_due', label: 'Refund due' },
  { value: 'refunded', label: 'Refunded' },
] as const;

/** Whether M-PESA reported another amount for the order that staff have not resolved yet. */
export const hasPaymentInReview = ({ payments = [] }: Pick<PaidOrNot, 'payments'>): boolean =>
  payments.some(({ status }) => status === 'review');

export function PaymentBadge({ order }: { order: PaidOrNot }) {
  const { text, tone } = describePaymentOfOrder(order);
  return (
    <Badge tone={tone} isSmall>
      {text}
    </Badge>
  );
}
