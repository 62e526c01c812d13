// The readiness check behind `/readyz`.
import { withTimeout } from '../web/lib/timeout.ts';

/**
 * Creates the check. Concurrent requests share one query.
 * @param query reads a table that exists once the database is migrated
 */
export function createReadiness(query: () => Promise<unknown>): () => Promise<boolean> {
  let pending: Promise<boolean> | null = null;
  return () => {
    pending ??= isReady(query).finally(() => {
      pending = null;
    });
    return pending;
  };
}

/** Whether the query succeeds in time. */
export async function isReady(query: () => Promise<unknown>, withinMs = 5000): Promise<boolean> {
  return withTimeout(query(), withinMs).then(
    () => true,
    () => false,
  );
}
