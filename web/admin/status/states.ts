// Groups of states that several screens use, named as in supabase/schemas/1_catalogue/01b_states.sql where it has them.
import type {
  OrderPaymentStatus,
  OrderStatus,
  OutboxMessageStatus,
  PaymentStatus,
  RefundStatus,
} from '../../../supabase/types.ts';

/** The goods of an order with this status have left the shop. */
export const hasLeftShop = (status: OrderStatus): boolean =>
  status === 'shipped' || status === 'out_for_delivery' || status === 'delivered';

interface PaidOrder {
  payment_status: OrderPaymentStatus;
  payments?: readonly { status: PaymentStatus }[];
}

/** M-PESA reported a payment of another amount that staff have not resolved. */
export const hasPaymentInReview = ({ payments = [] }: Pick<PaidOrder, 'payments'>): boolean =>
  payments.some(({ status }) => status === 'review');

/** Staff must decide about money of the order. */
export const needsReview = (order: PaidOrder): boolean =>
  order.payment_status === 'needs_review' || hasPaymentInReview(order);

const openRefunds: readonly RefundStatus[] = ['requested', 'approved', 'sending', 'sent', 'unknown'];
/** A refund without an end: not completed, failed or withdrawn. */
export const isOpenRefund = (status: RefundStatus): boolean => openRefunds.includes(status);

/** A refund that sent no money and will not. */
export const isDroppedRefund = (status: RefundStatus): boolean =>
  status === 'failed' || status === 'withdrawn';

/** Messages that were not sent, or may not have been: staff can send them again. */
export const unsentMessageStatuses: readonly OutboxMessageStatus[] = ['failed', 'unsure', 'over_budget'];
