// Export and erasure of one person's data, by the procedures `export_person` and `erase_person`, and the log of both.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import type { OrderPaymentStatus } from '../../../supabase/types.ts';
import { dataOf } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { useMember } from '../layout/roles/use-member.tsx';

export interface HeldData {
  /** Email in lower case, or phone as `+254…`. */
  identifier: string;
  orders: {
    id: string;
    order_number: string;
    created_at: string;
    customer_name: string;
    payment_status: OrderPaymentStatus;
    /** In cents. */
    total_amount: number;
    erasure_requested_at: string | null;
    /** Why the order cannot be anonymised yet; null when it can. */
    reason_to_keep: string | null;
    payments: unknown[];
    messages: unknown[];
  }[];
  payments_for_others: unknown[];
  inquiries: { created_at: string; subject: string | null; message: string }[];
  newsletter: { confirmed_at: string | null } | null;
  newsletter_mails: unknown[];
  /** Other phones and addresses of the same orders. */
  also_used: string[];
  earlier_requests: { requested_at: string }[];
}

export interface ErasedData {
  erased: { orders: number; payments_for_others: number; inquiries: number; newsletter: number };
  /** Orders that remain for now; they are anonymised automatically once they are closed. */
  postponed: { id: string; order_number: string; reason: string; is_own: boolean }[];
}

/** A mutation, because queries refetch by themselves and every lookup is logged. */
export function useFind() {
  const { tables } = useMember().staff;
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (identifier: string) =>
      dataOf(await tables.rpc('export_person', { identifier })) as unknown as HeldData,
    onSettled: () => queries.invalidateQueries({ queryKey: ['data-requests'] }),
  });
}

export function useErase(onErased: (outcome: ErasedData) => void) {
  const { tables } = useMember().staff;
  return useSave({
    write: async (identifier: string): Promise<ErasedData> =>
      dataOf(await tables.rpc('erase_person', { identifier })),
    success: 'Personal data erased',
    failure: 'Failed to erase the data',
    refresh: ['data-requests', 'orders', 'deliveries', 'inquiries', 'messages', 'dashboard'],
    onSuccess: (outcome) => outcome && onErased(outcome),
  });
}

export function useRequests() {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['data-requests', 'last'],
    queryFn: async ({ signal }) =>
      dataOf(
        await tables
          .from('personal_data_requests')
          .select('id, kind, counts, requested_by_email, requested_at')
          .order('id', { ascending: false })
          .limit(20)
          .abortSignal(signal),
      ),
    staleTime: 0,
  });
}
