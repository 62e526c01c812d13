// Distinguishes an unavailable database from a rejected query.
import { DatabaseError, isUnavailable } from '../database/database.ts';

/** Whether an error means that the database is unavailable, rather than that it refused the query. */
export function isOutage(error: unknown): boolean {
  if (!(error instanceof DatabaseError)) return true;
  return /^(53|40)/.test(error.code) || isUnavailable(error);
}
