// Whether an order is paid, as a badge.
import { Badge, type BadgeTone } from '../../ui/badge.tsx';

interface PaidOrNot {
  status: string;
  payment_status: string;
  payments?: readonly { status: string }[];
}

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

export function describePayment(order: PaidOrNot): [words: string, tone: BadgeTone] {
  const { status, payment_status } = order;
  switch (payment_status) {
    case 'paid':
      return status === 'cancelled' ? ['Refund due', 'red'] : ['Paid', 'green'];
    case 'needs_review':
      return ['Needs review', 'red'];
    case 'refunded':
      return ['Refunded', 'grey'];
    default:
      if (hasPaymentInReview(order)) return ['Needs review', 'red'];
      // No payment is expected for a cancelled order.
      return ['Unpaid', status === 'cancelled' ? 'grey' : 'yellow'];
  }
}

export function PaymentBadge({ order }: { order: PaidOrNot }) {
  const [words, tone] = describePayment(order);
  return (
    <Badge tone={tone} isSmall>
      {words}
    </Badge>
  );
}
