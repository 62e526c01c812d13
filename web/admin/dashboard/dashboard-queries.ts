// Queries of the dashboard. Their keys start with 'dashboard': the live channel invalidates all of them.
import { useQuery } from '@tanstack/react-query';
import { servicesOrigin } from '../../../supabase/services-origin.ts';
import { dataOf } from '../data/table-answer.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { useInstallation } from '../layout/use-installation.ts';

/** Polling interval of the system status, in ms. */
const minute = 60_000;

/** The four statistics (docs/product.md#dashboard-screen). */
export function useFigures() {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['dashboard', 'figures'],
    queryFn: async ({ signal }) => dataOf(await tables.rpc('dashboard_figures').abortSignal(signal).single()),
  });
}

/** Page views and orders per day in Nairobi, today last. */
export function useDays() {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['dashboard', 'days'],
    queryFn: async ({ signal }) =>
      dataOf(await tables.rpc('daily_figures', { days: 30 }).abortSignal(signal)),
  });
}
export type Day = NonNullable<ReturnType<typeof useDays>['data']>[number];

/**
 * The system status from the database, and its response time in milliseconds.
 * @param isAwaited refetch every two seconds, while a change is expected
 */
export function useSystemStatus(isAwaited: boolean) {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['dashboard', 'system'],
    queryFn: async ({ signal }) => {
      const began = performance.now();
      const status = dataOf(await tables.rpc('system_status').abortSignal(signal).single());
      return { ...status, tookMs: performance.now() - began };
    },
    refetchInterval: isAwaited ? 2000 : minute,
    staleTime: 0,
  });
}

/** Whether the auth service is healthy. */
export function useAuthHealth() {
  const { url, key } = useInstallation();
  return useQuery({
    queryKey: ['dashboard', 'authentication'],
    queryFn: async ({ signal }) => {
      const answer = await fetch(`${servicesOrigin({ url, key })}/auth/v1/health`, {
        headers: { apikey: key },
        signal,
      });
      if (!answer.ok) throw new Error(`The auth service answered ${answer.status}`);
      return true;
    },
    refetchInterval: minute,
    staleTime: 0,
    retry: 1,
  });
}
