// What the status of a refund means.
import type { PaymentStatus, RefundStatus } from '../../../../supabase/types.ts';
import { isOpenRefund } from '../../status/states.ts';

/** Whether a refund is open for all money that came: nothing is left to decide. */
export function isGoingBack(
  payments: readonly {
    status: PaymentStatus;
    refunded_at: string | null;
    refunds: readonly { status: RefundStatus }[];
  }[],
): boolean {
  const left = payments.filter(({ status, refunded_at }) => status === 'completed' && refunded_at === null);
  return left.length > 0 && left.every(({ refunds }) => refunds.some(({ status }) => isOpenRefund(status)));
}
