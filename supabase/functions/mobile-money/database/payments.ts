// The database's procedures for payments by prompt.
import type { DatabaseClient, Payment, Procedures } from './client.ts';

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
  }): Promise<{ isNew: boolean; payment: Payment; trackingNumber: string | null }>;
  /** Begins a KSh 1 test of a staff member. */
  beginTest(test: { phone: string; callbackSecret: string; requestedBy: string }): Promise<Payment>;
  /** Ends a pause of prompts if the settings with this digest are not those of the last call. */
  noteSettings(digest: string): Promise<void>;
  recordPush(push: Procedures['record_push']['Args']): Promise<Payment>;
  settle(settlement: Procedures['settle_payment']['Args']): Promise<{ outcome: string; payment: Payment }>;
  /** Stores the body of a callback that could not be settled. */
  storeFailedCallback(paymentId: string, body: string, sourceAddress: string | null): Promise<void>;
  listFailedCallbacks(atMost: number): Promise<{ id: number; paymentId: string; body: string }[]>;
  finishFailedCallback(id: number): Promise<void>;
  /**
   * Finds a payment.
   * @param reference M-PESA's checkout request id or the payment's own id
   * @param address IP address of the customer, whose unknown references are limited; null if unknown
   */
  find(reference: string, address: string | null): Promise<Payment | null>;
  /**
   * Returns the id of the payment with this callback secret.
   * @param address IP address of the caller, which may be any client; null if unknown
   */
  findBySecret(callbackSecret: string, address: string | null): Promise<string | null>;
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
    }) {
      const parameters = {
        order_id: orderId,
        tracking_number: trackingNumber,
        phone,
        callback_secret: callbackSecret,
        expected_cents: expectedCents,
        same_amount_seconds: sameAmountSeconds,
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
    async storeFailedCallback(paymentId, body, sourceAddress) {
      await call('store_failed_callback', { payment_id: paymentId, body, source_address: sourceAddress });
    },
    async listFailedCallbacks(atMost) {
      const callbacks = await call('list_failed_callbacks', { at_most: atMost });
      return callbacks.map(({ id, payment_id, body }) => ({ id, paymentId: payment_id, body }));
    },
    async finishFailedCallback(id) {
      await call('finish_failed_callback', { message_id: id });
    },
    find: async (reference, address) =>
      (await call('find_payment', { reference }, address)) as Payment | null,
    findBySecret: (callbackSecret, address) =>
      call('find_payment_by_secret', { callback_secret: callbackSecret }, address),
    leaseQueries: (atMost, perMinute) =>
      call('lease_payment_queries', { at_most: atMost, per_minute: perMinute }),
  };
}
