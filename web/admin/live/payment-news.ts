// What a completed payment is announced as.
import type { OrderPaymentStatus } from '../../../supabase/types.ts';

export interface PaymentNews {
  /** The order was paid already. */
  needsRefund: boolean;
  /** Of its order. */
  paymentStatus: OrderPaymentStatus;
  /** Whether its order has a notice: the customer has just paid (`private.is_news`). */
  isNotice: boolean;
}

/** The title of its toast; null: its order is announced by its notice. Money that a statement or a late answer brings is no new order. */
export function titleOfPayment({ needsRefund, paymentStatus, isNotice }: PaymentNews): string | null {
  if (needsRefund) return 'Paid once more';
  if (paymentStatus === 'needs_review') return 'Payment needs review';
  return isNotice ? null : 'Earlier payment found';
}
