// Pauses of orders, and whether there is one now.
import { useQuery } from '@tanstack/react-query';
import { type OrderPause, orderPauseOf } from '../../../domain/orders/order-pause.ts';
import { dataOf } from '../data/table-answer.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { useNow } from '../ui/time/age.tsx';

/** The last changes, newest first; one without a reason ended a pause. */
export function usePauseChanges() {
  const { tables } = useMember().staff;
  return useQuery({
    // Each change of the settings may be one.
    queryKey: ['settings', 'pauses'],
    queryFn: async ({ signal }) =>
      dataOf(
        await tables
          .from('order_pauses')
          .select('id, reason, paused_until, changed_by_email, changed_at')
          .order('id', { ascending: false })
          .limit(20)
          .abortSignal(signal),
      ),
  }).data;
}
export type PauseChange = NonNullable<ReturnType<typeof usePauseChanges>>[number];

/** The pause of this moment, and who began it; null while the shop takes orders. */
export function useOrderPause(): (OrderPause & { by: PauseChange }) | null {
  const now = useNow();
  const by = usePauseChanges()?.[0];
  const pause =
    by && orderPauseOf({ orders_pause_reason: by.reason, orders_paused_until: by.paused_until }, now);
  return pause ? { ...pause, by } : null;
}
