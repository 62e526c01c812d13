// What a staff member typed at the close of the day: counted cash and reasons.
import { readAmountCents } from '../../../domain/mpesa/amount.ts';
import type { CashOfMember, CountedCash } from './day-queries.ts';

export interface TypedCount {
  counted: string;
  reason: string;
}
/** By member. */
export type TypedCounts = Readonly<Record<string, TypedCount>>;

export const notCounted: TypedCount = { counted: '', reason: '' };

/** Whole shillings in cents; null for anything else. Below zero where more was given back than taken. */
export function readCounted(text: string): number | null {
  const cents = readAmountCents(text);
  return cents !== null && cents % 100 === 0 ? cents : null;
}

export interface CountProblem {
  member: string;
  field: keyof TypedCount;
  text: string;
}

/** The counts to save, or the first problem with them. */
export function readCounts(
  cash: readonly Pick<CashOfMember, 'member' | 'expected_cents'>[],
  typed: TypedCounts,
): { counts: CountedCash[] } | { problem: CountProblem } {
  const counts: CountedCash[] = [];
  for (const { member, expected_cents } of cash) {
    const { counted, reason } = typed[member] ?? notCounted;
    const counted_cents = readCounted(counted);
    if (counted_cents === null) {
      return {
        problem: {
          member,
          field: 'counted',
          text: counted.trim()
            ? 'Please enter whole shillings, such as 1,951'
            : 'Please enter what was counted',
        },
      };
    }
    const isDifferent = counted_cents !== expected_cents;
    if (isDifferent && reason.trim().length < 3) {
      return { problem: { member, field: 'reason', text: 'Please say why it differs' } };
    }
    counts.push({ member, expected_cents, counted_cents, reason: isDifferent ? reason.trim() : null });
  }
  return { counts };
}
