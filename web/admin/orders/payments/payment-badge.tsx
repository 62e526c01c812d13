// Whether an order is paid, as a badge.

import { Badge } from '../../../ui/badge.tsx';
import { describePaymentOfOrder } from '../../status/staff-labels.ts';
import type { OrderFilters } from '../order-queries.ts';

type PaidOrNot = Parameters<typeof describePaymentOfOrder>[0];

/** Options of the payment filter; the values are those of `search_orders`. */
export const paymentFilters = [
  { value: '', label: 'All payments' },
  { value: 'paid', label: 'Paid' },
  { value: 'unpaid', label: 'Unpaid' },
  { value: 'cash', label: 'Cash due' },
  { value: 'needs_review', label: 'Needs review' },
  { value: 'refund_due', label: 'Refund due' },
  { value: 'to_decide', label: 'To decide' },
  { value: 'refunded', label: 'Refunded' },
] as const satisfies readonly { value: OrderFilters['payment']; label: string }[];

export function PaymentBadge({ order }: { order: PaidOrNot }) {
  const { text, tone } = describePaymentOfOrder(order);
  return (
    <Badge tone={tone} isSmall>
      {text}
    </Badge>
  );
}
