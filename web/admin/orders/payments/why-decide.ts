// Why money of an order needs a decision, in one sentence without a full stop: on a card of Today, and above the order itself.
import { chargeCents, formatKes } from '../../../../domain/money.ts';
import type { OrderCancelReason, OrderPaymentStatus, OrderStatus } from '../../../../supabase/types.ts';
import { decisionOf } from '../order-queries.ts';
import { countedOf, moneyOf, type PaymentOfOrder } from '../refunds/refund-queries.ts';
import { describeReview } from './describe-review.ts';

interface PaidOrder {
  status: OrderStatus;
  payment_status: OrderPaymentStatus;
  cancel_reason: OrderCancelReason | null;
  total_amount: number;
  payments: readonly Pick<
    PaymentOfOrder,
    'status' | 'charge_cents' | 'counted_cents' | 'needs_refund' | 'refunded_at' | 'result_description'
  >[];
}

export function whyDecide(order: PaidOrder): string {
  if (!decisionOf(order)) {
    const surplus = order.payments.find(
      ({ needs_refund, refunded_at }) => needs_refund && refunded_at === null,
    );
    const reviewed = order.payments.find(({ status }) => status === 'review');
    return order.payment_status === 'unpaid' && reviewed
      ? describeReview(reviewed.result_description)
      : `A second payment of ${formatKes(surplus?.charge_cents ?? 0)} must go back`;
  }
  const { paid, came, left } = moneyOf(order);
  const charge = chargeCents(order.total_amount);
  const amount = formatKes(paid ? came : charge);
  if (left > 0 && left < came) return `${formatKes(came - left)} of ${amount} went back already`;
  const isByCustomer = order.status === 'cancelled' && order.cancel_reason === 'by_customer';
  if (order.payment_status !== 'needs_review' && isByCustomer)
    return `The customer cancelled this order after ${amount} was paid`;
  if (order.payment_status !== 'needs_review') return `This order was cancelled after ${amount} was paid`;
  const counted = countedOf(order);
  if (paid && counted < came && counted < charge)
    return `${amount} came, of which ${counted === 0 ? 'nothing' : formatKes(counted)} is left for the ${formatKes(charge)} of this order`;
  if (paid && counted !== charge) return `${formatKes(counted)} came instead of ${formatKes(charge)}`;
  if (isByCustomer) return `${amount} came after the customer had cancelled the order`;
  return `${amount} came after the reservation ran out, and not enough is left in stock`;
}
