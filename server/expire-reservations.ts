// Ends the reservations that are due, in steps.
import type { Store } from '../web/lib/store.ts';
import type { Job } from './jobs.ts';

/** Orders that one call ends: the embedded database blocks this process for as long as a call takes. */
const atMost = 20;

/**
 * The job that ends all that is due. Unpaid orders of many networks can become due in one moment, and must neither keep their units
 * until a later run nor keep visitors waiting.
 * @param tables calls with the secret key
 */
export function expireReservations(tables: Store['tables']): Job {
  const stopping = new AbortController();
  return {
    name: 'expire reservations',
    everyMs: 30_000,
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
