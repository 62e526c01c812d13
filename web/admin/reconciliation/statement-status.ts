// The state of M-PESA's statement and of the money that waits for staff.
import { useQuery } from '@tanstack/react-query';
import { dataOf } from '../data/table-answer.ts';
import { useMember } from '../layout/roles/use-member.tsx';

/** A period that no statement covers. */
export interface Missed {
  starts_at: string;
  ends_at: string;
}

/** Result of `statement_status`. Times are ISO. */
export interface StatementStatus {
  checked_at: string;
  till_registered_at: string | null;
  statement_registered_at: string | null;
  last_confirmation_at: string | null;
  last_complete_at: string | null;
  covered_until: string | null;
  problem: string | null;
  missed: Missed[];
  /** Payments at M-PESA without a payment here. */
  unmatched: number;
  /** Callbacks and confirmations that could not be settled yet. */
  unsettled_messages: number;
  /** Messages that staff must check. */
  to_check: number;
  /** Receipts of the last 14 days that staff typed and M-PESA has not reported. */
  unconfirmed: number;
  /** When the oldest of `unmatched` and `unconfirmed` was paid; null without any. */
  waiting_since: string | null;
}

/** @param isEnabled whether the member may see it */
export function useStatementStatus(isEnabled = true) {
  const { tables } = useMember().staff;
  return useQuery({
    enabled: isEnabled,
    queryKey: ['reconciliation', 'statement'],
    queryFn: async ({ signal }): Promise<StatementStatus> =>
      dataOf(await tables.rpc('statement_status').abortSignal(signal)),
    refetchInterval: 60_000,
  });
}
