// The money of an order in one line: its state, the amount, the receipt and when it came.
import { chargeCents, formatKes } from '../../../../domain/money.ts';
import { openParts } from '../../print/money-to-collect.ts';
import { describePaymentOfOrder, type StaffLabel } from '../../status/staff-labels.ts';
import { formatClock } from '../../ui/time/dates.ts';
import type { WholeOrder } from '../order-queries.ts';
import { lastRefund, moneyOf, type PaymentOfOrder } from '../refunds/refund-queries.ts';
import { changeOf } from './change-of.ts';

export type OrderWithMoney = Pick<WholeOrder, 'status' | 'payment_status' | 'total_amount'> & {
  payments: readonly Pick<
    PaymentOfOrder,
    | 'status'
    | 'charge_cents'
    | 'receipt'
    | 'created_at'
    | 'completed_at'
    | 'needs_refund'
    | 'refunded_at'
    | 'refunds'
    | 'change_notes'
  >[];
  parts: readonly Pick<WholeOrder['parts'][number], 'received_cents' | 'payment_id' | 'resolution'>[];
};
type Payment = OrderWithMoney['payments'][number];

export interface PaymentLine extends StaffLabel {
  facts: string;
}

/** @param now decides whether a time needs its date */
export function describePaymentLine(order: OrderWithMoney, now: number): PaymentLine {
  const { own, came, left } = moneyOf(order);
  const charge = formatKes(chargeCents(order.total_amount));
  const at = (moments: readonly (string | null)[]) => {
    const newest = moments
      .filter((moment) => moment !== null)
      .toSorted()
      .at(-1);
    return newest && formatClock(newest, now);
  };
  const facts = (...parts: readonly (string | null | undefined)[]) => parts.filter(Boolean).join(', ');
  if (own.length > 0 && left < came) {
    const wentBack = came - left;
    return {
      ...(left > 0 ? { text: 'Partly refunded', tone: 'yellow' as const } : label(order)),
      facts: facts(
        left > 0 ? `${formatKes(wentBack)} of ${formatKes(came)} went back` : `${formatKes(came)} went back`,
        at(own.map(({ refunded_at }) => refunded_at)),
      ),
    };
  }
  if (own.length > 0) {
    return {
      ...label(order),
      facts: facts(
        formatKes(came),
        own.length === 1 ? own[0]?.receipt : `${own.length} payments`,
        at(own.map(({ completed_at, created_at }) => completed_at ?? created_at)),
      ),
    };
  }
  // Recorded without a payment, or sent back so.
  if (order.payment_status !== 'unpaid') return { ...label(order), facts: charge };
  return { ...label(order), facts: facts(charge, describeAttempts(order)) };
}

/** What has been tried so far for an order that is not paid; undefined: nothing. */
function describeAttempts(order: OrderWithMoney): string | undefined {
  const open = openParts(order.parts);
  if (open.length > 0)
    return `${formatKes(open.reduce((cents, { received_cents }) => cents + received_cents, 0))} of it came`;
  const [newest] = order.payments;
  if (!newest) return order.parts.length === 0 ? 'not tried yet' : undefined;
  if (newest.status === 'initiating' || newest.status === 'processing') return 'waiting for the PIN';
  if (newest.status === 'review') return undefined;
  if (newest.status === 'unresolved') return 'M-PESA has not answered';
  const failed = order.payments.filter(({ status }) => status === 'failed').length;
  return failed === 0 ? undefined : failed === 1 ? 'one try failed' : `${failed} tries failed`;
}

/** The decision above the payments shows that a refund is due. */
const label = (order: OrderWithMoney): StaffLabel => describePaymentOfOrder({ ...order, status: 'pending' });

/**
 * Whether staff have something to do about a payment, or wait for M-PESA: then the payments are shown without a press, and this
 * one first.
 */
export function needsLook(payment: Payment): boolean {
  const { status, needs_refund, refunded_at, refunds, change_notes } = payment;
  if (status === 'review' || status === 'unresolved') return true;
  if (needs_refund && refunded_at === null) return true;
  const refund = lastRefund(refunds);
  if (refund && (refund.status !== 'completed' || (refund.sent_twice_at && !refund.sent_twice_seen_at)))
    return true;
  return refunded_at === null && changeOf(change_notes).owed > 0;
}

/** Whether staff have to decide about money of the order that `decisionOf` does not name. */
export const needsDecision = ({ payments, parts }: OrderWithMoney): boolean =>
  payments.some(needsLook) || openParts(parts).length > 0;
