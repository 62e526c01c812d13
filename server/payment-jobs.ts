// Background calls of the payment function. The database decides which process calls, and only when there is work: a hosted
// project bills every call.
import type { Store } from '../web/lib/store.ts';
import type { Job } from './jobs.ts';

const actions = [
  { name: 'query open payments', action: 'query-open', everyMs: 3000 },
  { name: 'send refunds', action: 'send-refunds', everyMs: 3000 },
  { name: 'settle stored confirmations and callbacks', action: 'take-up-till', everyMs: 30_000 },
  { name: "pull M-PESA's statement", action: 'pull-statement', everyMs: 60_000, firstAfterMs: 45_000 },
] as const;

/** @param store table client with the secret key */
export function paymentJobs({ tables, functions }: Store): Job[] {
  return actions.map(({ action, ...job }) => ({
    ...job,
    async run() {
      const claim = await tables.rpc('claim_payment_job', { action });
      if (claim.error) throw new Error(claim.error.message);
      if (!claim.data) return;
      const { error } = await functions.invoke('mobile-money', { body: { action } });
      if (error) throw error;
    },
  }));
}
