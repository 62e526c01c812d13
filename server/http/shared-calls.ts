// Runs the shop's own calls of its services in the fair queue.
import { type Client, ClientDisconnected, type FairQueue, visitorAt } from '@jani-juice/backend/limits';
import { visitorHeaders } from '../../supabase/functions/mobile-money/caller-address.ts';

/** A share of calls, and the cost of each; 1 is a plain read of a table. */
interface Calls {
  client: Client;
  cost: number;
  /** Whether a call stays in the queue after its signal is aborted: a deadline is for the services. Default: false. */
  staysQueued?: boolean;
}

/** Calls that follow from a prompt that was sent or a callback that was accepted, and do not wait for visitors. */
export const paymentCalls: Calls = { client: ['secret key'], cost: 3 };
/**
 * Calls of background jobs, for which nobody waits: together they have one share of the queue. A call of a payment costs a fifth of theirs,
 * so five of them start for each of these.
 */
export const jobCalls: Calls = { client: ['jobs', 'all'], cost: 15, staysQueued: true };

/**
 * Creates a `fetch` for a client of the services. A call with the IP address of its caller waits in the share of that network.
 * @param calls the share of the others, and the cost of all
 * @param serviceFetch reaches the services without a queue
 */
export function createSharedFetch(work: FairQueue, calls: Calls, serviceFetch: typeof fetch): typeof fetch {
  return (input, init) => {
    const request = new Request(input, init);
    if (request.signal.aborted && !calls.staysQueued) return Promise.reject(new ClientDisconnected());
    const address = request.headers.get(visitorHeaders.address);
    const client = address === null ? calls.client : visitorAt(address);
    return work.run(client, () => serviceFetch(request), {
      cost: calls.cost,
      signal: calls.staysQueued ? undefined : () => request.signal,
    });
  };
}
