// The database's procedures for payments by prompt.
import type { PaymentResult } from '../../../../domain/mpesa/payment-result.ts';
import type { DatabaseClient, Payment, Procedures } from './client.ts';

/** A callback as it was received. */
export interface StoredCallback {
  id: number;
  paymentId: string;
  body: string;
}

export type PaymentSettlement = Procedures['settle_payment']['Args'] & { result: PaymentResult };

export interface PaymentStore {
  /** Begins a payment, or returns the order's open or completed one. `trackingNumber` is set only for a new payment. */
  begin(attempt: {
    orderId: string;
    /** Must belong to the order; otherwise the order does not exist. */
    trackingNumber: string;
    phone: string;
    callbackSecret: string;
    /** Cents. */
    expectedCents: number;
    /** How long M-PESA refuses the same amount from one phone; 0: it does not. */
    sameAmountSeconds: number;
    /** IP address of the customer, for the limits; null if unknown. */
    address: string | null;
    /** User id of the staff member who sends it, whose network is not limited; null: the customer does. */
    requestedBy: string | null;
  }): Promise<{ isNew: boolean; payment: Payment; trackingNumber: string | null }>;
  /** Begins a KSh 1 test of a staff member. */
  beginTest(test: { phone: string; callbackSecret: string; requestedBy: string }): Promise<Payment>;
  /** Ends a pause of prompts if the settings with this digest are not those of the last call. */
  noteSettings(digest: string): Promise<void>;
  recordPush(push: Procedures['record_push']['Args']): Promise<Payment>;
  settle(settlement: PaymentSettlement): Promise<{ outcome: string; payment: Payment }>;
  /**
   * Stores a callback before it is settled.
   * @param address IP address of the caller, which may be any client unless the secret `isSigned`; null if unknown
   * @returns null if no payment has this secret
   */
  storeCallback(
    callbackSecret: string,
    body: string,
    address: string | null,
    options: { isSigned: boolean },
  ): Promise<Pick<StoredCallback, 'id' | 'paymentId'> | null>;
  listUnsettledCallbacks(atMost: number): Promise<StoredCallback[]>;
  /**
   * Finds a payment.
   * @param reference M-PESA's checkout request id or the payment's own id
   * @param address IP address of the customer, whose unknown references are limited; null if unknown
   */
  find(reference: string, address: string | null): Promise<Payment | null>;
  /** Leases open payments whose state is to be queried now, each to one caller. */
  leaseQueries(atMost: number, perMinute: number): Promise<Payment[]>;
}

/** Creates the procedures. They throw as `DatabaseClient.call`. */
export function openPaymentStore({ call }: DatabaseClient): PaymentStore {
  return {
    async begin({
      orderId,
      trackingNumber,
      phone,
      callbackSecret,
      expectedCents,
      sameAmountSeconds,
      address,
      requestedBy,
    }) {
      const parameters = {
        order_id: orderId,
        tracking_number: trackingNumber,
        phone,
        callback_secret: callbackSecret,
        expected_cents: expectedCents,
        same_amount_seconds: sameAmountSeconds,
        ...(requestedBy === null ? {} : { requested_by: requestedBy }),
      };
      const begun = (await call('begin_payment', parameters, address)) as {
        is_new: boolean;
        payment: Payment;
        tracking_number?: string;
      };
      return { isNew: begun.is_new, payment: begun.payment, trackingNumber: begun.tracking_number ?? null };
    },
    beginTest: ({ phone, callbackSecret, requestedBy }) =>
      call('begin_payment_test', { phone, callback_secret: callbackSecret, requested_by: requestedBy }),
    async noteSettings(digest) {
      await call('note_mpesa_settings', { digest });
    },
    recordPush: (push) => call('record_push', push),
    settle: (settlement) => call('settle_payment', settlement),
    async storeCallback(callbackSecret, body, address, { isSigned }) {
      const stored = await call(
        'store_callback',
        { callback_secret: callbackSecret, body, ...(address === null ? {} : { source_address: address }) },
        isSigned ? null : address,
      );
      const [message] = stored;
      return message ? { id: message.message_id, paymentId: message.payment_id } : null;
    },
    async listUnsettledCallbacks(atMost) {
      const callbacks = await call('list_unsettled_callbacks', { at_most: atMost });
      return callbacks.map(({ id, payment_id, body }) => ({ id, paymentId: payment_id, body }));
    },
    find: async (reference, address) =>
      (await call('find_payment', { reference }, address)) as Payment | null,
    leaseQueries: (atMost, perMinute) =>
      call('lease_payment_queries', { at_most: atMost, per_minute: perMinute }),
  };
}
