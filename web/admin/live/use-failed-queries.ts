// Loads again what could not be loaded, as soon as the shop answers. The browser's own "offline" says nothing about the
// shop: its server may be in the same room without the internet, or be gone while the internet works.
import { type Query, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { servicesOrigin } from '../../../supabase/services-origin.ts';
import { isWorthAnotherTry } from '../data/query-client.ts';
import { useInstallation } from '../layout/use-installation.ts';

const firstDelayMs = 2000;
const longestDelayMs = 30_000;

/** Asks whether the shop answers while a shown query has failed, and then repeats the failed ones. */
export function useFailedQueries(): void {
  const queries = useQueryClient();
  const { url, key } = useInstallation();
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let delay = firstDelayMs;
    const failed = {
      type: 'active',
      predicate: ({ state }: Query) =>
        state.status === 'error' &&
        state.fetchStatus === 'idle' &&
        state.error !== null &&
        isWorthAnotherTry(state.error),
    } as const;
    const hasFailed = () => queries.getQueryCache().findAll(failed).length > 0;
    const ask = async () => {
      const answer = await fetch(`${servicesOrigin({ url, key })}/auth/v1/health`, {
        headers: { apikey: key },
        signal: stop.signal,
      }).catch(() => null);
      if (stop.signal.aborted) return;
      timer = undefined;
      delay = Math.min(2 * delay, longestDelayMs);
      // Without waiting for retries: a query that fails again is seen by the subscription.
      if (answer?.ok) void queries.refetchQueries(failed);
      watch();
    };
    const watch = () => {
      if (!hasFailed()) {
        if (!queries.isFetching()) delay = firstDelayMs;
        return;
      }
      timer ??= setTimeout(() => void ask(), delay);
    };
    const askNow = () => {
      if (!hasFailed()) return;
      clearTimeout(timer);
      void ask();
    };
    const unsubscribe = queries.getQueryCache().subscribe(watch);
    window.addEventListener('online', askNow);
    watch();
    return () => {
      unsubscribe();
      window.removeEventListener('online', askNow);
      clearTimeout(timer);
      stop.abort();
    };
  }, [queries, url, key]);
}
