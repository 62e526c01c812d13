// What a completed payment is announced as.
import type { OrderPaymentStatus } from '../../../supabase/types.ts';

/** A payment that is older than this is not news. */
const newForMs = 5 * 60_000;

export interface PaymentNews {
  /** The order was paid already. */
  needsRefund: boolean;
  /** Of its order. */
  paymentStatus: OrderPaymentStatus;
  /** When the customer paid, by M-PESA, or asked to pay: ISO, by the database's clock. */
  paidAt: string;
  /** When the shop learned of it: ISO, by the database's clock. */
  knownAt: string;
}

/** The title of its toast. Money that a statement or a late answer brings to light is not announced as new. */
export function titleOfPayment({ needsRefund, paymentStatus, paidAt, knownAt }: PaymentNews): string {
  if (needsRefund) return 'Paid once more';
  if (paymentStatus === 'needs_review') return 'Payment needs review';
  return Date.parse(knownAt) - Date.parse(paidAt) > newForMs ? 'Earlier payment found' : 'New paid order';
}
