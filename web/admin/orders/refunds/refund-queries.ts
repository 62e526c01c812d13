// Queries of refunds, and which payments can be refunded.
import { useQuery } from '@tanstack/react-query';
import type { Setup } from '../../../../domain/mpesa/payment-setup.ts';
import type { Database } from '../../../../supabase/types.ts';
import { dataOf } from '../../data/table-answer.ts';
import { useMay, useMember } from '../../layout/roles/use-member.tsx';
import { isDroppedRefund } from '../../status/states.ts';
import { decisionOf, type WholeOrder } from '../order-queries.ts';

export type Refund = Database['public']['Tables']['refunds']['Row'];
export type PaymentOfOrder = WholeOrder['payments'][number];

/** Query keys to refetch after a change of a refund. */
export const touchedByRefunds = [
  'orders',
  'refunds',
  'products',
  'deliveries',
  'payment-tests',
  'dashboard',
  'payment-health',
];

/** The settings of payments; undefined until loaded. */
export function usePaymentSetup() {
  const { staff } = useMember();
  return useQuery({
    queryKey: ['payment-setup'],
    queryFn: async () => (await staff.callPayments<{ setup: Setup }>({ action: 'describe-setup' })).setup,
    staleTime: 5 * 60_000,
  });
}

/** Email addresses of the other owners, who can approve a refund that this member requested; undefined until loaded. */
export function useRefundApprovers(isNeeded: boolean): string[] | undefined {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['refunds', 'approvers'],
    queryFn: async ({ signal }) =>
      dataOf(await tables.rpc('refund_approvers').abortSignal(signal)).map(({ email }) => email),
    enabled: isNeeded,
  }).data;
}

/**
 * Names who can approve a refund.
 * @param owners their names; undefined while unknown
 */
export function describeApprovers(owners: readonly string[] | undefined): string {
  if (!owners) return 'it needs the approval of a colleague';
  if (owners.length === 0) {
    return 'it needs the approval of another owner, and there is none. Ask for one, or send the money back by hand and note it';
  }
  const [named, more] = [owners.slice(0, 3), owners.length - 3];
  const list = more > 0 ? [...named, `${more} more`] : named;
  const names = new Intl.ListFormat('en-KE', { type: 'disjunction' }).format(list);
  return `it needs the approval of ${names}, notified by mail`;
}

/** Refunds that need staff: an approval, an unknown result, or money sent back twice. */
export function useRefundsNeedingAction() {
  const { tables } = useMember().staff;
  const may = useMay();
  return useQuery({
    queryKey: ['refunds', 'needing action'],
    enabled: may('refunds'),
    queryFn: async ({ signal }) =>
      dataOf(
        await tables
          .from('refunds')
          .select('*, payment:payments(order:orders(id, order_number, customer_name))')
          .or('status.in.(requested,unknown),and(sent_twice_at.not.is.null,sent_twice_seen_at.is.null)')
          .order('created_at')
          .limit(20)
          .abortSignal(signal),
      ),
  }).data;
}

type Money = Pick<PaymentOfOrder, 'status' | 'needs_refund' | 'charge_cents' | 'refunded_at'>;

/** The payments that count for an order, without duplicates, and their sums in cents. */
export function moneyOf<Payment extends Money>({ payments }: { payments: readonly Payment[] }) {
  const counted = payments.filter(({ status, needs_refund }) => status === 'completed' && !needs_refund);
  const sum = (payments: typeof counted) =>
    payments.reduce((cents, { charge_cents }) => cents + charge_cents, 0);
  const notRefunded = counted.filter(({ refunded_at }) => refunded_at === null);
  return {
    own: counted,
    /** The next payment to refund; an order paid in parts is refunded part by part. */
    paid: notRefunded[0] ?? counted[0],
    came: sum(counted),
    /** The amount that is not refunded. */
    left: sum(notRefunded),
  };
}

/** What the payments count for their order, in cents, as the database says it: without what is owed, or paid another order. */
export const countedOf = ({
  payments,
}: {
  payments: readonly (Money & Pick<PaymentOfOrder, 'counted_cents'>)[];
}): number => moneyOf({ payments }).own.reduce((cents, { counted_cents }) => cents + (counted_cents ?? 0), 0);

/** Whether a payment can be refunded: no order keeps its money, and no refund is open. */
export function isRefundable(order: WholeOrder, payment: PaymentOfOrder): boolean {
  return (
    payment.status === 'completed' &&
    payment.refunded_at === null &&
    payment.refunds.every(({ status }) => isDroppedRefund(status)) &&
    (payment.needs_refund || decisionOf(order) !== null)
  );
}

/**
 * The refund that describes a payment's money: first one that was sent twice, then the newest. Null without a refund, or when
 * it was withdrawn.
 */
export function lastRefund(refunds: readonly Refund[]): Refund | null {
  const active = refunds.filter(({ status }) => status !== 'withdrawn');
  const newest = active.toSorted((one, other) => other.created_at.localeCompare(one.created_at))[0];
  return refunds.find(({ sent_twice_at }) => sent_twice_at !== null) ?? newest ?? null;
}
