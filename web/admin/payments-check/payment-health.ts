// The state of payments by M-PESA, as reported by the database (`payment_health`).
import { useQuery } from '@tanstack/react-query';
import { dataOf } from '../data/table-answer.ts';
import { useMember } from '../layout/roles/use-member.tsx';

interface ReceivedMessage {
  received_at: string;
  outcome: string | null;
  source_address: string | null;
}

/** Times are ISO, by the database's clock. */
export interface PaymentHealth {
  checked_at: string;
  /** Null while prompts work. After `until` the next prompt is sent as a probe. */
  pause: {
    code: string;
    description: string | null;
    since: string;
    until: string;
    /** Whether M-PESA refused the requests, instead of ending the prompts. */
    is_refused: boolean;
  } | null;
  refunds_to_approve: number;
  /** Those that others requested. */
  refunds_to_approve_by_me: number;
  refunds_unknown: number;
  refunds_stuck: number;
  /** Within the last 30 days. */
  refunds_sent_twice: number;
  /** The last increase of the refund limit, for a week; amounts in cents. `current_limit` applies now. */
  limit_raise: {
    raised_by_email: string | null;
    raised_at: string;
    raised_from: number;
    raised_to: number;
    applies_from: string;
    current_limit: number;
  } | null;
  token_fresh_until: string | null;
  last_push: ReceivedMessage | null;
  last_callback: ReceivedMessage | null;
}

export function usePaymentHealth() {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['payment-health'],
    queryFn: async ({ signal }): Promise<PaymentHealth> =>
      dataOf(await tables.rpc('payment_health').abortSignal(signal)),
    refetchInterval: 15_000,
    staleTime: 0,
  });
}
