// Problems of the database told apart: it cannot be asked, or it was asked and refused.
import { DatabaseError } from '../database/database.ts';

/** Whether an error means that the database could not be asked, rather than that it refused. */
export function isOutage(error: unknown): boolean {
  return !(error instanceof DatabaseError) || /^(08|53|57P|40)/.test(error.code);
}
