// Whether the shop can serve: what `/readyz` tells.
import type { Database } from '../backend/database/database.ts';
import { inTime } from '../web/lib/patience.ts';

/**
 * Makes the question, which is asked once however many ask at the same time.
 * @param database null where the services are a hosted project's
 */
export function createReadiness(database: Database | null): () => Promise<boolean> {
  let asked: Promise<boolean> | null = null;
  return () => {
    asked ??= isReady(database).finally(() => {
      asked = null;
    });
    return asked;
  };
}

/**
 * Asks the database. One that answers nobody counts as none: whoever asks is told all the same.
 * @param database null where the services are a hosted project's
 */
export async function isReady(database: Database | null, withinMs = 5000): Promise<boolean> {
  if (!database) return true;
  return inTime(database.query('select from platform.schema_migrations limit 1'), withinMs).then(
    () => true,
    () => false,
  );
}
