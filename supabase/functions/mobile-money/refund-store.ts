// The procedures of refunds, called over the table API with the secret key.
import { PostgrestClient } from '@supabase/postgrest-js';
import type { Database } from '../../types.ts';
import { forCaller, read } from './payment-store.ts';
import type { StoreSettings } from './settings.ts';

const TIMEOUT_MS = 15_000;

type Refund = Database['public']['Tables']['refunds']['Row'];
type Procedures = Database['public']['Functions'];

/** What is to be done for a refund: sent, once; or asked about. */
export interface RefundWork {
  work: 'send' | 'ask';
  refund: Refund;
  /** The unguessable part of the addresses at which M-PESA tells of it. */
  secret: string;
}

export interface RefundStore {
  /** Work to do now; each is out of reach for the next caller, and sending comes up only once. */
  lease(atMost: number): Promise<RefundWork[]>;
  recordPush(push: Procedures['record_reversal_push']['Args']): Promise<void>;
  settle(settlement: Procedures['settle_reversal']['Args']): Promise<{ outcome: string; refund: Refund }>;
  /** The refund whose results come to this secret address; `sender` as for payments. */
  findBySecret(secret: string, sender: string | null): Promise<string | null>;
  /** Whether the bearer of a token is staff, as the database judges it; the token may be anything. */
  isStaff(token: string): Promise<boolean>;
}

/**
 * The database as refunds see it. Its methods throw StoreRefusal and StoreFailure, as those of the payments.
 * @param settings where it is, and the secret key
 */
export function openRefundStore(settings: StoreSettings): RefundStore {
  const connect = (authorization: string) =>
    new PostgrestClient<Database>(`${settings.url}/rest/v1`, {
      headers: { apikey: settings.secretKey, Authorization: authorization },
      timeout: TIMEOUT_MS,
      ...(settings.fetch ? { fetch: settings.fetch } : {}),
    });
  const client = connect(`Bearer ${settings.secretKey}`);

  return {
    async lease(atMost) {
      return (read<unknown>(await client.rpc('lease_refunds', { at_most: atMost })) ?? []) as RefundWork[];
    },
    async recordPush(push) {
      read(await client.rpc('record_reversal_push', push));
    },
    async settle(settlement) {
      return read(await client.rpc('settle_reversal', settlement)) as { outcome: string; refund: Refund };
    },
    async findBySecret(secret, sender) {
      const call = client.rpc('find_refund_by_secret', { notice_secret: secret });
      return read(await forCaller(call, sender)) as string | null;
    },
    async isStaff(token) {
      const { data, error } = await connect(`Bearer ${token}`).rpc('is_admin');
      return !error && data === true;
    },
  };
}
