// What the status of a refund means.

const statusesOnTheWay = ['approved', 'sending', 'sent', 'unknown'];
/** Whether M-PESA has the refund or will have it next, as `describe_order` says it to the customer. */
export const isRefundOnTheWay = ({ status }: { status: string }): boolean =>
  statusesOnTheWay.includes(status);
/** The same, or it waits for an approval. */
export const isRefundPending = ({ status }: { status: string }): boolean =>
  status === 'requested' || statusesOnTheWay.includes(status);

/** Whether a refund is open for all money that came: nothing is left to decide. */
export function isGoingBack(
  payments: readonly {
    status: string;
    refunded_at: string | null;
    refunds: readonly { status: string }[];
  }[],
): boolean {
  const left = payments.filter(({ status, refunded_at }) => status === 'completed' && refunded_at === null);
  return left.length > 0 && left.every(({ refunds }) => refunds.some(isRefundPending));
}
