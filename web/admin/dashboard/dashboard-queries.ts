// What the dashboard reads. Its keys begin with 'dashboard': the live channel makes all of it be read anew.
import { useQuery } from '@tanstack/react-query';
import { servicesOrigin } from '../../lib/store.ts';
import { dataOf } from '../table-answer.ts';
import { useInstallation } from '../use-installation.ts';
import { useMember } from '../use-member.tsx';

/** How long the figures of the machinery are taken for current. */
const minute = 60_000;

/** The four figures (specification §7, Admin dashboard stats). */
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

const dayFormat = new Intl.DateTimeFormat('en-KE', { day: 'numeric', month: 'short', timeZone: 'UTC' });
/** @param day such as `2026-11-21` */
export const formatDay = (day: string): string => dayFormat.format(new Date(`${day}T00:00:00Z`));

/**
 * The machinery as the database knows it, and how long it took to answer from here, in milliseconds.
 * @param isAwaited while something is expected to change: asked for every other second
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

/** Whether the auth service says that it is well. */
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
