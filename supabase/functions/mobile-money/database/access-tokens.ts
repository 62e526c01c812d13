// The access token that all processes share in the database, and the lease of the process that renews it.
import { sha256 } from '../secrets.ts';
import type { DarajaSettings } from '../settings.ts';
import type { DatabaseClient } from './client.ts';

export interface AccessToken {
  value: string;
  /** How long it may be used, in milliseconds. */
  freshForMs: number;
}

type Lease =
  | { kind: 'fresh'; token: AccessToken }
  /** The caller must request a token now and store it with this lease. */
  | { kind: 'request'; lease: string }
  /** Another process is requesting one. */
  | { kind: 'wait' };

export interface TokenStore {
  /** @param stale a token that M-PESA has rejected */
  lease(stale: string | null): Promise<Lease>;
  /** @param token the new token; null if the request failed */
  store(lease: string, token: AccessToken | null): Promise<void>;
}

/**
 * Creates the token store. Its methods throw as `DatabaseClient.call`.
 * @param account the Daraja account of the token: other credentials have another token
 */
export function openTokenStore({ call }: DatabaseClient, account: DarajaSettings): TokenStore {
  const accountKey = sha256(`${account.baseUrl} ${account.consumerKey} ${account.consumerSecret}`);
  return {
    async lease(stale) {
      const { state, token, fresh_for_ms, lease } = await call('lease_daraja_token', {
        account: accountKey,
        stale_token: stale,
      });
      if (state === 'fresh') return { kind: 'fresh', token: { value: token, freshForMs: fresh_for_ms } };
      return state === 'request' ? { kind: 'request', lease } : { kind: 'wait' };
    },
    async store(lease, token) {
      await call('store_daraja_token', {
        account: accountKey,
        lease,
        // The generated types do not mark parameters as nullable.
        token: (token?.value ?? null) as string,
        fresh_for_ms: token?.freshForMs ?? 0,
      });
    },
  };
}
