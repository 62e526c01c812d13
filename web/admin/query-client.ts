// The query cache of the staff screens: fresh for half a minute, and invalidated by the live channel.
import { QueryClient } from '@tanstack/react-query';
import { TableProblem } from './table-answer.ts';

/** A refusal will be the same next time; a broken connection or a busy server may not. */
const isWorthAnotherTry = (error: Error): boolean =>
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
