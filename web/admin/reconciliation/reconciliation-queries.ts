// Queries and changes of the reconciliation, with their keys.

import { keepPreviousData, useQuery } from '@tanstack/react-query';
import type { OrderPaymentStatus, OrderStatus } from '../../../supabase/types.ts';
import { dataOf } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import {
  amountsOf,
  type BookRow,
  type Decision,
  describeOutcome,
  isUnknown,
  readKind,
} from './differences/difference-texts.ts';
import { isReviewDecision } from './differences/order-difference.ts';
import type { Missed } from './statement-status.ts';

export interface BookDay {
  day: string;
  rows: BookRow[];
  is_covered: boolean;
  missed: Missed[];
}

/** Both sides of a day in Nairobi. */
export function useBookDay(day: string) {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['reconciliation', 'day', day],
    queryFn: async ({ signal }): Promise<BookDay> => {
      const book = dataOf(await tables.rpc('reconciliation_day', { day }).abortSignal(signal));
      return { ...book, rows: book.rows.map((row) => ({ ...row, kind: readKind(row.kind) })) };
    },
    placeholderData: keepPreviousData,
  });
}

/** The days of a range, newest first. */
export function useBookDays(since: string, until: string) {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['reconciliation', 'days', since, until],
    queryFn: async ({ signal }) =>
      dataOf(await tables.rpc('reconciliation_days', { since, until }).abortSignal(signal)),
    placeholderData: keepPreviousData,
  });
}
export type DaySums = NonNullable<ReturnType<typeof useBookDays>['data']>[number];

/** An order that a payment can be assigned to, with what speaks for it. */
export interface Candidate {
  id: string;
  order_number: string;
  tracking_number: string;
  customer_name: string;
  customer_phone: string;
  /** Such as "2 × Ginger Lemon 500 ml". */
  items: string | null;
  charge_cents: number;
  payment_status: OrderPaymentStatus;
  status: OrderStatus;
  created_at: string;
  /** Whether a prompt of the order for this amount and time has no receipt, so that this may be its payment. */
  lacks_receipt: boolean;
  /** Whether the payer's reference names it. */
  is_named: boolean;
  fits_amount: boolean;
  /** The payer's phone beside the customer's; null if nothing can be compared. */
  phone_match: string | null;
  shares_name: boolean | null;
  /** Amount and digits fit this order alone. */
  is_certain: boolean;
}

/** The orders that a payment most likely belongs to, or the results of a search. */
export function useCandidates(receipt: string, search: string, isEnabled = true) {
  const { tables } = useMember().staff;
  return useQuery({
    enabled: isEnabled,
    queryKey: ['reconciliation', 'candidates', receipt, search],
    queryFn: async ({ signal }): Promise<Candidate[]> =>
      dataOf(await tables.rpc('suggest_orders', { receipt, search }).abortSignal(signal)),
    placeholderData: keepPreviousData,
  });
}

/** The decisions of staff about it, in order. */
export function useHistory({ receipt, payment_id }: BookRow) {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['reconciliation', 'history', receipt, payment_id],
    queryFn: async ({ signal }) => {
      const about = [
        receipt ? `receipt.eq."${receipt}"` : '',
        payment_id ? `payment_id.eq.${payment_id}` : '',
      ].filter(Boolean);
      return dataOf(
        await tables
          .from('reconciliation_events')
          .select('*')
          .or(about.join(','))
          .order('id')
          .abortSignal(signal),
      );
    },
  });
}

export interface Resolution {
  row: BookRow;
  decision: Decision;
  orderId?: string;
  note?: string;
  /** Refunds a payment that may belong to an order. */
  isSure?: boolean;
}

/** @param onSaved called once it is saved */
export function useResolve(onSaved?: () => void) {
  const { tables } = useMember().staff;
  const save = useSave<Resolution, string | null>({
    async write({ row, decision, orderId, note, isSure = false }) {
      if (decision === 'take_back') {
        return dataOf(
          await tables.rpc('take_back_payment', {
            payment_id: row.payment_id ?? '',
            note: note?.trim() || null,
          }),
        );
      }
      if (isReviewDecision(decision)) {
        return dataOf(
          await tables.rpc('resolve_review', {
            order_id: row.order_id ?? '',
            decision,
            seen_cents: amountsOf(row).receivedCents,
            receipt: row.payment_id === null ? row.receipt : null,
            note: note?.trim() || null,
          }),
        );
      }
      const { outcome }: { outcome: string | null } = dataOf(
        await tables.rpc('resolve_difference', {
          decision,
          // A row that only the shop has is identified by its payment: M-PESA does not know its receipt.
          receipt: row.their_cents === null ? null : row.receipt,
          payment_id: isUnknown(row) ? null : row.payment_id,
          order_id: orderId ?? null,
          note: note?.trim() || null,
          is_sure: isSure,
        }),
      );
      return outcome;
    },
    success: (outcome, { decision }) => describeOutcome(decision, outcome),
    failure: 'Failed to save your decision',
    isUnsafeToRepeat: true,
    refresh: ['reconciliation', 'orders', 'deliveries', 'products', 'dashboard'],
    ...(onSaved ? { onSuccess: onSaved } : {}),
  });
  return {
    resolve: save.mutate,
    isPending: save.isPending,
    /** The decision about a row that is being saved. */
    deciding: (row: BookRow) =>
      save.isPending && save.variables.row.id === row.id ? save.variables.decision : undefined,
  };
}
export type Resolve = ReturnType<typeof useResolve>;
