// Recent riders and waiting deliveries, shared by all screens that show them.
import { useQuery } from '@tanstack/react-query';
import { dataOf } from '../table-answer.ts';
import { useMember } from '../use-member.tsx';

/** Riders of the last 60 days, the latest first; undefined until they are known. */
export function useRecentRiders() {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['deliveries', 'riders'],
    queryFn: async ({ signal }) => dataOf(await tables.rpc('recent_riders').abortSignal(signal)),
  }).data;
}
export type Rider = NonNullable<ReturnType<typeof useRecentRiders>>[number];

/** How many orders and deliveries wait for staff. */
export function useWork() {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['orders', 'work'],
    queryFn: async ({ signal }) => dataOf(await tables.rpc('count_work').abortSignal(signal))[0] ?? null,
    // An order becomes late without any change of its row.
    refetchInterval: 60_000,
  }).data;
}
