// Clients of the services: those of this process, or of a hosted project.
import type { Backend } from '@jani-juice/backend';
import type { FairShare } from '@jani-juice/backend/limits';
import type { ApiKeys } from '@jani-juice/backend/settings';
import type { StaffArea } from '../../domain/people/staff-rights.ts';
import { createStore, type Store } from '../../supabase/store.ts';
import { createSharedFetch, jobCalls } from '../http/shared-calls.ts';
import type { Config } from './settings/config.ts';

export interface Clients {
  /** Of the services; the shop's own URL where they run in this process. */
  url: string;
  transport: { serviceFetch?: typeof fetch };
  /** With the secret key. */
  secret: Store;
  /** With the publishable key. */
  visitor: Store['tables'];
  /** Whether the bearer of an access token is staff whose role has the area; the services verify it. */
  mayStaff(token: string, area: StaffArea): Promise<boolean>;
}

/** @param backend null with a hosted project */
export function openClients(
  config: Config,
  keys: ApiKeys,
  backend: Backend | null,
  fairShare: FairShare,
): Clients {
  const url = config.supabase?.url ?? config.publicUrl;
  const serviceFetch: typeof fetch | null =
    backend && ((input, init) => backend.fetch(new Request(input, init)));
  const storeWith = (key: string, fetchServices = serviceFetch) =>
    createStore({ url, key }, fetchServices ? { fetch: fetchServices } : {});
  // Not the functions: they may wait for M-PESA, and would keep a place of the queue.
  const inShare = serviceFetch && createSharedFetch(fairShare.work, jobCalls, serviceFetch);
  return {
    url,
    transport: serviceFetch ? { serviceFetch } : {},
    secret: { ...storeWith(keys.secret), tables: storeWith(keys.secret, inShare).tables },
    visitor: storeWith(keys.publishable).tables,
    async mayStaff(token, area) {
      const { tables } = createStore(
        { url, key: keys.publishable },
        { ...(serviceFetch ? { fetch: serviceFetch } : {}), headers: { Authorization: `Bearer ${token}` } },
      );
      return (await tables.rpc('may', { area })).data === true;
    },
  };
}
