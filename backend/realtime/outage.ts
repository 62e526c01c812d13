// Distinguishes an unavailable database from a rejected query.
import { DatabaseError } from '../database/database.ts';

/** Whether an error means that the database is unavailable, rather than that it refused the query. */
export function isOutage(error: unknown): boolean {
  return !(error instanceof DatabaseError) || /^(08|53|57P|40)/.test(error.code);
}
