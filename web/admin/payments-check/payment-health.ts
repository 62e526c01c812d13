// What the database knows of the way to M-PESA and back (`payment_health`).
import { useQuery } from '@tanstack/react-query';
import { dataOf } from '../table-answer.ts';
import { useMember } from '../use-member.tsx';

/** Times are ISO, by the database's clock. */
export interface PaymentHealth {
  checked_at: string;
  pause: { code: string; description: string | null; since: string; until: string } | null;
  refunds_to_approve: number;
  refunds_unknown: number;
  refunds_stuck: number;
  /** Within the last 30 days. */
  refunds_sent_twice: number;
  /** The last time somebody raised the refund limit, for a week; amounts in cents, `limit` is the one that binds now. */
  limit_raise: {
    by: string | null;
    at: string;
    from: number;
    to: number;
    counts_from: string;
    limit: number;
  } | null;
  token_fresh_until: string | null;
  last_push: { at: string; outcome: string | null } | null;
  last_notice: { at: string; outcome: string | null; address: string | null } | null;
}

export function usePaymentHealth() {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['payment-health'],
    queryFn: async ({ signal }) =>
      dataOf(await tables.rpc('payment_health').abortSignal(signal)) as unknown as PaymentHealth,
    refetchInterval: 15_000,
    staleTime: 0,
  });
}
