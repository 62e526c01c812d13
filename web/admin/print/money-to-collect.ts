import { isCashDue } from '../../../domain/deliveries/delivery-status.ts';
import { chargeCents, formatKes } from '../../../domain/money.ts';
import type {
  MpesaTransactionResolution,
  OrderPaymentMethod,
  OrderPaymentStatus,
  OrderStatus,
  PaymentStatus,
  RefundStatus,
} from '../../../supabase/types.ts';
import { cancelledFacts, describeOrder } from '../../lib/orders/order-meaning.ts';
import type { WholeOrder } from '../orders/order-queries.ts';
import { moneyOf } from '../orders/refunds/refund-queries.ts';
import { isOpenRefund, needsReview } from '../status/states.ts';

interface Order {
  status: OrderStatus;
  payment_status: OrderPaymentStatus;
  payment_method: OrderPaymentMethod;
  /** In cents. */
  total_amount: number;
  payments: readonly { status: PaymentStatus }[];
  /** M-PESA's transactions under the order's number. */
  parts: readonly {
    received_cents: number;
    payment_id: string | null;
    resolution: MpesaTransactionResolution | null;
  }[];
}

/** Payments under the order's number that are less than its charge and that staff have not resolved. */
export const openParts = <Part extends Order['parts'][number]>(parts: readonly Part[]): Part[] =>
  parts.filter(({ payment_id, resolution }) => payment_id === null && resolution === null);

/** What a rider must know about payment, on the packing slip. */
export function describeMoneyToCollect(order: Order): string {
  const { status, payment_status, total_amount, parts } = order;
  if (payment_status === 'refunded') return 'REFUNDED. Do not hand over.';
  if (status === 'cancelled') return 'CANCELLED. Do not hand over.';
  if (payment_status === 'paid') return 'PAID. Nothing to collect.';
  // Customers are asked not to pay again while a payment is in review.
  if (needsReview(order)) return 'PAYMENT NEEDS REVIEW. Ask the shop before handing over.';
  const partCents = openParts(parts).reduce((sum, { received_cents }) => sum + received_cents, 0);
  return partCents > 0
    ? `PARTLY PAID: ${formatKes(partCents)} of ${formatKes(chargeCents(total_amount))}. Ask the shop what to collect.`
    : isCashDue(order)
      ? `CASH. Collect ${formatKes(chargeCents(total_amount))}.`
      : `NOT PAID. Collect ${formatKes(chargeCents(total_amount))}.`;
}

/** The same in two or three words, for the customer's printed receipt without a payment. */
export function describeMissingPayment(order: Order): string {
  const { status, payment_status, parts } = order;
  if (payment_status === 'refunded') return 'Refunded';
  if (needsReview(order)) return 'Payment is being checked';
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
      // As `private.order_facts` says it to the customer.
      isRefunding: own.some(({ refunds }) =>
        refunds.some(({ status }) => isOpenRefund(status) && status !== 'requested'),
      ),
      total: order.total_amount,
      paid: came,
      refunded: came - left || null,
    },
    0,
  );
  return tone === 'done' ? null : summary;
}
