// The database's procedures for money that comes without a prompt, called over the table API with the secret key.
import { PostgrestClient, type PostgrestError } from '@supabase/postgrest-js';
import type { Database } from '../../types.ts';
import { forCaller, StoreFailure, StoreRefusal } from './payment-store.ts';
import type { StoreSettings } from './settings.ts';

const TIMEOUT_MS = 15_000;

type Procedures = Database['public']['Functions'];
type ToldMoney = Procedures['receive_mpesa_transaction']['Args'];

/** A stretch of M-PESA's statement that is ours to pull. */
interface StatementPull {
  id: number;
  from: Date;
  to: Date;
  /** Since when nobody has seen the statement, where that is more than 48 hours before. */
  missedSince: Date | null;
}

export interface TillStore {
  /** The secret part of the till's addresses; drawn when it is asked for the first time. `sender` as for payments. */
  secret(sender: string | null): Promise<string>;
  /** Keeps a confirmation word for word; gives its number. */
  keep(body: string, sourceAddress: string | null): Promise<number>;
  /** Confirmations that were kept and never taken up. */
  left(atMost: number): Promise<{ id: number; body: string }[]>;
  receive(money: ToldMoney): Promise<{ outcome: string; paymentId: string | null }>;
  /** What is wrong with money that somebody is about to pay; `accepted` for nothing. */
  judge(reference: string, offeredCents: number | null): Promise<'accepted' | 'reference' | 'amount'>;
  registered(kind: 'till' | 'statement'): Promise<void>;
  leasePull(everyMinutes: number): Promise<StatementPull | null>;
  /** False when the pull was taken from us. */
  extendPull(id: number): Promise<boolean>;
  finishPull(
    id: number,
    result: { payments: number; news: number; unreadable: number } | { problem: string },
  ): Promise<void>;
  /** Those of the receipts that no statement has told of. */
  unheard(receipts: readonly string[]): Promise<string[]>;
}

/**
 * The database as the till sees it.
 * Every method throws StoreRefusal when the database decided against it, StoreFailure when it could not be asked.
 * @param settings where it is, and the secret key
 */
export function openTillStore(settings: StoreSettings): TillStore {
  const client = new PostgrestClient<Database>(`${settings.url}/rest/v1`, {
    headers: { apikey: settings.secretKey, Authorization: `Bearer ${settings.secretKey}` },
    timeout: TIMEOUT_MS,
    ...(settings.fetch ? { fetch: settings.fetch } : {}),
  });

  return {
    async secret(sender) {
      return read(await forCaller(client.rpc('read_till_secret'), sender)) as string;
    },
    async keep(body, sourceAddress) {
      return read(
        await client.rpc('store_confirmation', {
          body,
          ...(sourceAddress === null ? {} : { source_address: sourceAddress }),
        }),
      ) as number;
    },
    async left(atMost) {
      return (read(await client.rpc('list_unprocessed_confirmations', { at_most: atMost })) ?? []) as {
        id: number;
        body: string;
      }[];
    },
    async receive(money) {
      const { outcome, payment } = read(await client.rpc('receive_mpesa_transaction', money)) as {
        outcome: string;
        payment: { id: string } | null;
      };
      return { outcome, paymentId: payment?.id ?? null };
    },
    async judge(reference, offeredCents) {
      return read(
        await client.rpc('judge_till_payment', { reference, offered_cents: offeredCents ?? 0 }),
      ) as 'accepted';
    },
    async registered(kind) {
      read(await client.rpc('record_mpesa_registration', { kind }));
    },
    async leasePull(everyMinutes) {
      const leased = read(await client.rpc('lease_statement_pull', { every: `${everyMinutes} minutes` })) as
        | Database['public']['Tables']['statement_pulls']['Row']
        | null;
      return (
        leased && {
          id: leased.id,
          from: new Date(leased.window_from),
          to: new Date(leased.window_to),
          missedSince: leased.missed_since ? new Date(leased.missed_since) : null,
        }
      );
    },
    async extendPull(id) {
      return read(await client.rpc('extend_statement_pull', { pull_id: id })) as boolean;
    },
    async finishPull(id, result) {
      read(await client.rpc('finish_statement_pull', { pull_id: id, ...result }));
    },
    async unheard(receipts) {
      return read(await client.rpc('receipts_not_in_statement', { receipts: [...receipts] })) as string[];
    },
  };
}

function read(answer: { data: unknown; error: PostgrestError | null; status: number }): unknown {
  const { data, error, status } = answer;
  if (!error) return data;
  if (/^PT4\d\d$/.test(error.code ?? '')) throw new StoreRefusal(error.message, status, error.details);
  throw new StoreFailure(`${status} ${error.code ?? ''} ${error.message}`.trim());
}
