// Recent riders and waiting deliveries, shared by all screens that show them.
import { useQuery } from '@tanstack/react-query';
import { dataOf } from '../data/table-answer.ts';
import { useMember } from '../layout/roles/use-member.tsx';

/** Riders of the list and those who were typed in the last 60 days, the last one assigned first; undefined until loaded. */
export function useRecentRiders() {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['deliveries', 'riders'],
    queryFn: async ({ signal }) => dataOf(await tables.rpc('recent_riders').abortSignal(signal)),
  }).data;
}
export type Rider = NonNullable<ReturnType<typeof useRecentRiders>>[number];
/** What an assignment needs of a rider. */
export type Carrier = Pick<Rider, 'name' | 'phone' | 'vehicle'>;

export type Work = NonNullable<ReturnType<typeof useWork>>;

/** Number of orders and deliveries that wait for staff. */
export function useWork(isActive = true) {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['orders', 'work'],
    enabled: isActive,
    queryFn: async ({ signal }) => dataOf(await tables.rpc('count_work').abortSignal(signal))[0] ?? null,
    // Polled, because an order becomes late without a change of its row.
    refetchInterval: 60_000,
  }).data;
}
