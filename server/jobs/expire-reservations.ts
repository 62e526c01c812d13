// Ends due reservations in batches.
import type { Store } from '../../supabase/store.ts';
import type { Job } from './jobs.ts';

/**
 * Orders per call, each of which is a transaction. It locks the products of its orders, for which new orders of them wait until it is
 * committed, and it blocks the embedded database.
 */
const atMost = 1;

/**
 * Creates the job that ends all due reservations, one after the other. Many unpaid orders can become due at the same moment. They must
 * not hold their stock until a later run, nor delay visitors.
 * @param tables calls with the secret key
 */
export function expireReservations(tables: Store['tables']): Omit<Job, 'everyMs'> {
  const stopping = new AbortController();
  return {
    name: 'expire reservations',
    async run() {
      let ended = 0;
      do {
        const { data, error } = await tables.rpc('expire_reservations', { at_most: atMost });
        if (error) throw new Error(error.message);
        ended = data;
      } while (ended > 0 && !stopping.signal.aborted);
    },
    async stop() {
      stopping.abort();
    },
  };
}
