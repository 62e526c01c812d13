// Why a paid order needs a decision, in one sentence without a full stop: on a card of Today, and above the order itself.
import { chargeCents, formatKes } from '../../../../domain/money.ts';
import type { OrderPaymentStatus, OrderStatus } from '../../../../supabase/types.ts';
import { moneyOf, type PaymentOfOrder } from '../refunds/refund-queries.ts';

interface PaidOrder {
  status: OrderStatus;
  payment_status: OrderPaymentStatus;
  total_amount: number;
  payments: readonly Pick<PaymentOfOrder, 'status' | 'charge_cents' | 'needs_refund' | 'refunded_at'>[];
}

export function whyDecide(order: PaidOrder): string {
  const { paid, came, left } = moneyOf(order);
  const charge = chargeCents(order.total_amount);
  const amount = formatKes(paid ? came : charge);
  if (left > 0 && left < came) return `${formatKes(came - left)} of ${amount} went back already`;
  if (order.payment_status !== 'needs_review') return `This order was cancelled after ${amount} was paid`;
  if (paid && came !== charge) return `${amount} came instead of ${formatKes(charge)}`;
  return `${amount} came after the reservation ran out, and not enough is left in stock`;
}
