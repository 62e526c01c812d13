// The query cache of the staff screens: data is fresh for half a minute, and invalidated by the live channel.
import { QueryClient } from '@tanstack/react-query';
import { TableProblem } from './table-answer.ts';

/** Refusals are not retried; broken connections and busy servers are. */
export const isWorthAnotherTry = (error: Error): boolean =>
  !(error instanceof TableProblem) || error.status === 0 || error.status >= 500;

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 30_000,
      // Offline requests fail at once.
      networkMode: 'always',
      retry: (failures, error) => failures < 2 && isWorthAnotherTry(error),
    },
    mutations: { networkMode: 'always' },
  },
});
