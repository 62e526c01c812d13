// Sums of what of a payment is owed to its customer, went back in part, or paid other orders.
import type { ChangeNoteKind, Database } from '../../../../supabase/types.ts';

type Note = Pick<
  Database['public']['Tables']['change_notes']['Row'],
  'kind' | 'amount_cents' | 'is_part_refund'
>;

/**
 * Sums of a payment's notes, in cents, as `private.change_of` has them.
 * @returns `owed`: what the shop still owes; `returned`: what went back; `used`: what paid other orders
 */
export function changeOf(notes: readonly Note[]): { owed: number; returned: number; used: number } {
  const sum = (...counted: ChangeNoteKind[]) =>
    notes.reduce((cents, { kind, amount_cents }) => cents + (counted.includes(kind) ? amount_cents : 0), 0);
  const returned = sum('returned');
  const used = sum('used') - sum('use_taken_back');
  const parts = notes.reduce(
    (cents, { is_part_refund, amount_cents }) => cents + (is_part_refund ? amount_cents : 0),
    0,
  );
  return {
    owed: Math.max(sum('credit', 'to_return') - sum('not_owed') - used - (returned - parts), 0),
    returned,
    used,
  };
}

/** What is left of a payment, in cents, as `private.left_to_refund` has it: what did not go back, and did not pay other orders. */
export function leftOf({
  status,
  charge_cents,
  change_notes,
}: {
  status: string;
  charge_cents: number;
  change_notes: readonly Note[];
}): number {
  const { returned, used } = changeOf(change_notes);
  return status === 'completed' ? Math.max(charge_cents - returned - used, 0) : 0;
}
