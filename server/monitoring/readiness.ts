// The readiness check behind `/readyz`.
import { withTimeout } from '../../domain/timeout.ts';

export interface Readiness {
  isReady(): Promise<boolean>;
  /** Drops a remembered success, when something else has found the database unavailable. */
  forget(): void;
}

/**
 * Creates the check. Concurrent requests share one query.
 * @param query reads a table that exists once the database is migrated
 * @param rememberedMs how long a success counts, because a hosted project counts requests
 */
export function createReadiness(query: () => Promise<unknown>, rememberedMs = 0): Readiness {
  let pending: Promise<boolean> | null = null;
  let readyUntil = Number.NEGATIVE_INFINITY;
  return {
    isReady() {
      if (performance.now() < readyUntil) return Promise.resolve(true);
      pending ??= isReady(query)
        .then((ready) => {
          if (ready) readyUntil = performance.now() + rememberedMs;
          return ready;
        })
        .finally(() => {
          pending = null;
        });
      return pending;
    },
    forget() {
      readyUntil = Number.NEGATIVE_INFINITY;
    },
  };
}

/** Whether the query succeeds in time. */
export async function isReady(query: () => Promise<unknown>, withinMs = 5000): Promise<boolean> {
  return withTimeout(query(), withinMs).then(
    () => true,
    () => false,
  );
}
