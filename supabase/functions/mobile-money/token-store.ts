// Where the access token lies that all processes of the shop share, and who of them asks for the next one.
import { PostgrestClient } from '@supabase/postgrest-js';
import type { Database } from '../../types.ts';
import type { DarajaSettings, StoreSettings } from './settings.ts';

const TIMEOUT_MS = 5_000;

export interface AccessToken {
  value: string;
  /** How long it may be used, in milliseconds. */
  freshForMs: number;
}

type Lease =
  | { kind: 'fresh'; token: AccessToken }
  /** Ask M-PESA now, and say with `keep` what came of it. */
  | { kind: 'ask'; lease: string }
  /** Somebody else is asking. */
  | { kind: 'wait' };

export interface TokenStore {
  /**
   * @param stale a token that M-PESA has called invalid
   */
  lease(stale: string | null): Promise<Lease>;
  /**
   * @param token what came of it; null when nothing did
   */
  keep(lease: string, token: AccessToken | null): Promise<void>;
}

/**
 * The database as the place of the token. Its methods throw when the database cannot be asked.
 * @param store where the database is, and the secret key
 * @param account whose token it is: other credentials have another one
 */
export function openTokenStore(store: StoreSettings, account: DarajaSettings): TokenStore {
  const client = new PostgrestClient<Database>(`${store.url}/rest/v1`, {
    headers: { apikey: store.secretKey, Authorization: `Bearer ${store.secretKey}` },
    timeout: TIMEOUT_MS,
    ...(store.fetch ? { fetch: store.fetch } : {}),
  });
  let digest: Promise<string> | null = null;
  const accountKey = () => {
    digest ??= digestOf(`${account.baseUrl} ${account.consumerKey} ${account.consumerSecret}`);
    return digest;
  };

  return {
    async lease(stale) {
      const { data, error } = await client.rpc('lease_daraja_token', {
        account: await accountKey(),
        ...(stale === null ? {} : { stale_token: stale }),
      });
      if (error) throw new Error(error.message);
      const answer = data as { token?: string; fresh_for_ms?: number; lease?: string };
      if (answer.token) {
        return { kind: 'fresh', token: { value: answer.token, freshForMs: answer.fresh_for_ms ?? 0 } };
      }
      return answer.lease ? { kind: 'ask', lease: answer.lease } : { kind: 'wait' };
    },
    async keep(lease, token) {
      const { error } = await client.rpc('store_daraja_token', {
        account: await accountKey(),
        lease,
        token: token?.value ?? null,
        fresh_for_ms: token?.freshForMs ?? 0,
      } as Database['public']['Functions']['store_daraja_token']['Args']);
      if (error) throw new Error(error.message);
    },
  };
}

async function digestOf(text: string): Promise<string> {
  const bytes = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
