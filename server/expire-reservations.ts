// Ends due reservations in batches.
import type { Store } from '../web/lib/store.ts';
import type { Job } from './jobs.ts';

/** Orders per call: the embedded database blocks this process for the duration of a call. */
const atMost = 20;

/**
 * Creates the job that ends all due reservations. Many unpaid orders can become due at the same moment. They must not hold their
 * stock until a later run, nor delay visitors.
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
