// The database's procedures for payments without a prompt (C2B) and for M-PESA's statement.
import type { C2bVersion } from '../daraja/c2b-registration.ts';
import type { DatabaseClient, Procedures } from './client.ts';

/** A leased period of M-PESA's statement. */
interface StatementPull {
  id: number;
  from: Date;
  to: Date;
  /** Start of the missed period if the last pull was more than 48 hours ago. */
  missedSince: Date | null;
}

export interface TillStore {
  /** Returns the secret part of the till's callback URLs, which the first call creates. `address` as for payments. */
  readSecret(address: string | null): Promise<string>;
  /** Stores the body of a confirmation and returns its id. */
  storeConfirmation(body: string, sourceAddress: string | null): Promise<number>;
  listUnprocessedConfirmations(atMost: number): Promise<{ id: number; body: string }[]>;
  receive(
    transaction: Procedures['receive_mpesa_transaction']['Args'],
  ): Promise<{ outcome: string; paymentId: string | null }>;
  /** Checks a payment before it is made: `accepted`, or the problem. */
  validate(reference: string, offeredCents: number | null): Promise<'accepted' | 'reference' | 'amount'>;
  /** Counts a registration by staff. Throws a ProcedureError after too many within an hour. */
  beginRegistration(): Promise<void>;
  recordRegistration(kind: 'till' | 'statement', version?: C2bVersion): Promise<void>;
  /** The registration of the till's addresses, whose version is null if it was not recorded; null without one. */
  readRegistration(): Promise<{ registeredAt: Date; version: C2bVersion | null } | null>;
  leasePull(everyMinutes: number): Promise<StatementPull | null>;
  /** Extends the lease. Returns false if another process has taken it. */
  extendPull(id: number): Promise<boolean>;
  finishPull(
    id: number,
    result:
      | { payments: number; new_payments: number; unreadable: number; problem?: string }
      | { problem: string },
  ): Promise<void>;
  /** Returns the receipts that no statement has listed yet. */
  listNewReceipts(receipts: readonly string[]): Promise<string[]>;
}

/** Creates the procedures. They throw as `DatabaseClient.call`. */
export function openTillStore({ call }: DatabaseClient): TillStore {
  return {
    readSecret: (address) => call('read_till_secret', {}, address),
    storeConfirmation: (body, sourceAddress) =>
      call('store_confirmation', { body, source_address: sourceAddress }),
    listUnprocessedConfirmations: (atMost) => call('list_unprocessed_confirmations', { at_most: atMost }),
    async receive(transaction) {
      const { outcome, payment } = await call('receive_mpesa_transaction', transaction);
      // Null where no payment matches.
      return { outcome, paymentId: payment?.id ?? null };
    },
    validate: async (reference, offeredCents) =>
      (await call('validate_till_payment', { reference, offered_cents: offeredCents ?? 0 })) as
        | 'accepted'
        | 'reference'
        | 'amount',
    async beginRegistration() {
      await call('begin_till_registration', {});
    },
    async recordRegistration(kind, version) {
      await call('record_mpesa_registration', { kind, ...(version ? { api_version: version } : {}) });
    },
    async readRegistration() {
      const [known] = await call('till_registration', {});
      if (!known) return null;
      return { registeredAt: new Date(known.registered_at), version: known.api_version as C2bVersion | null };
    },
    async leasePull(everyMinutes) {
      const [leased] = await call('lease_statement_pull', { every: `${everyMinutes} minutes` });
      if (!leased) return null;
      return {
        id: leased.id,
        from: new Date(leased.window_from),
        to: new Date(leased.window_to),
        missedSince: leased.missed_since ? new Date(leased.missed_since) : null,
      };
    },
    extendPull: (id) => call('extend_statement_pull', { pull_id: id }),
    async finishPull(id, result) {
      await call('finish_statement_pull', { pull_id: id, ...result });
    },
    listNewReceipts: (receipts) => call('receipts_not_in_statement', { receipts: [...receipts] }),
  };
}
