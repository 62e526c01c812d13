import { chargeCents, formatKes } from '../../../domain/money.ts';
import type {
  OrderPaymentStatus,
  OrderStatus,
  PaymentStatus,
  RefundStatus,
} from '../../../supabase/types.ts';
import { cancelledFacts, describeOrder } from '../../lib/orders/order-meaning.ts';
import type { WholeOrder } from '../orders/order-queries.ts';
import { moneyOf } from '../orders/refund-queries.ts';
import { isRefundOnTheWay } from '../orders/refund-status.ts';

interface Order {
  status: OrderStatus;
  payment_status: OrderPaymentStatus;
  /** In cents. */
  total_amount: number;
  payments: readonly { status: PaymentStatus }[];
  /** M-PESA's transactions under the order's number. */
  parts: readonly { received_cents: number; payment_id: string | null; resolution: string | null }[];
}

/** Payments under the order's number that are less than its charge and that staff have not resolved. */
export const openParts = <Part extends Order['parts'][number]>(parts: readonly Part[]): Part[] =>
  parts.filter(({ payment_id, resolution }) => payment_id === null && resolution === null);

/** What a rider must know about payment, on the packing slip. */
export function describeMoneyToCollect({
  status,
  payment_status,
  total_amount,
  payments,
  parts,
}: Order): string {
  if (payment_status === 'refunded') return 'REFUNDED. Do not hand over.';
  if (status === 'cancelled') return 'CANCELLED. Do not hand over.';
  if (payment_status === 'paid') return 'PAID. Nothing to collect.';
  // Customers are asked not to pay again while a payment is in review.
  if (payment_status === 'needs_review' || payments.some((payment) => payment.status === 'review')) {
    return 'PAYMENT NEEDS REVIEW. Ask the shop before handing over.';
  }
  const partCents = openParts(parts).reduce((sum, { received_cents }) => sum + received_cents, 0);
  return partCents > 0
    ? `PARTLY PAID: ${formatKes(partCents)} of ${formatKes(chargeCents(total_amount))}. Ask the shop what to collect.`
    : `NOT PAID. Collect ${formatKes(chargeCents(total_amount))}.`;
}

/** The same in two or three words, for the customer's printed receipt without a payment. */
export function describeMissingPayment({ status, payment_status, payments, parts }: Order): string {
  if (payment_status === 'refunded') return 'Refunded';
  if (payment_status === 'needs_review' || payments.some((payment) => payment.status === 'review')) {
    return 'Payment is being checked';
  }
  const partCents = openParts(parts).reduce((sum, { received_cents }) => sum + received_cents, 0);
  if (partCents > 0) return `Partly paid: ${formatKes(partCents)}`;
  return status === 'cancelled' ? 'Cancelled, not paid' : 'Not paid yet';
}

type PaidOrder = Pick<WholeOrder, 'status' | 'payment_status' | 'total_amount'> & {
  payments: readonly (Parameters<typeof moneyOf>[0]['payments'][number] & {
    refunds: readonly { status: RefundStatus }[];
  })[];
};

/** The text on the customer's receipt for a paid order that is cancelled, on hold or refunded. Null for any other. */
export function describeTrouble(order: PaidOrder): string | null {
  const { own, came, left } = moneyOf(order);
  if (own.length === 0) return null;
  const { tone, summary } = describeOrder(
    {
      ...cancelledFacts,
      // The storefront's word.
      status: order.status === 'shipped' ? 'out_for_delivery' : order.status,
      paymentStatus: order.payment_status,
      isRefunding: own.some(({ refunds }) => refunds.some(isRefundOnTheWay)),
      total: order.total_amount,
      paid: came,
      refunded: came - left || null,
    },
    0,
  );
  return tone === 'done' ? null : summary;
}
