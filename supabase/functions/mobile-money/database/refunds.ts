// The database's procedures for refunds.
import type { DatabaseClient, Procedures, Refund } from './client.ts';

/** A refund to send, or one whose state to query. */
export interface RefundJob {
  work: 'send' | 'query';
  refund: Refund;
  /** The secret part of its callback URLs. */
  secret: string;
}

export type RefundSettlement = Procedures['settle_reversal']['Args'] & {
  result: 'succeeded' | 'already_reversed' | 'not_reversed' | 'failed' | 'pending';
};

export interface RefundStore {
  /** Leases refunds, each to one caller. A refund is leased for sending only once. */
  lease(atMost: number): Promise<RefundJob[]>;
  recordPush(push: Procedures['record_reversal_push']['Args']): Promise<void>;
  settle(settlement: RefundSettlement): Promise<{ outcome: string; refund: Refund }>;
  /** Returns the id of the refund with this callback secret. `address` as for payments. */
  findBySecret(secret: string, address: string | null): Promise<string | null>;
}

/** Creates the procedures. They throw as `DatabaseClient.call`. */
export function openRefundStore({ call }: DatabaseClient): RefundStore {
  return {
    lease: async (atMost) => (await call('lease_refunds', { at_most: atMost })) as RefundJob[],
    async recordPush(push) {
      await call('record_reversal_push', push);
    },
    settle: (settlement) => call('settle_reversal', settlement),
    findBySecret: (secret, address) => call('find_refund_by_secret', { result_secret: secret }, address),
  };
}
