// Runs the payment function's database queries in the fair queue.
import { ClientDisconnected, type FairQueue } from '../backend/fair-queue.ts';
import { visitorAt } from '../backend/fair-share.ts';
import { visitorHeaders } from '../supabase/functions/mobile-money/caller-address.ts';

/** Cost of such a query; 1 is a plain read of a table. */
const queryCost = 3;

/**
 * Creates the `fetch` of the payment function's database client. A query with the IP address of its caller waits in the share of
 * that network; the others follow from a prompt that was sent or a callback that was accepted, and do not wait for visitors.
 * @param serviceFetch reaches the services without a queue
 */
export function createPaymentFetch(work: FairQueue, serviceFetch: typeof fetch): typeof fetch {
  return (input, init) => {
    const request = new Request(input, init);
    if (request.signal.aborted) return Promise.reject(new ClientDisconnected());
    const address = request.headers.get(visitorHeaders.address);
    const client = address === null ? (['secret key'] as const) : visitorAt(address);
    return work.run(client, () => serviceFetch(request), { cost: queryCost, signal: () => request.signal });
  };
}
