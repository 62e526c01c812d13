// The payment procedures of the database, called over the table API with the secret key.
import { PostgrestClient, type PostgrestError } from '@supabase/postgrest-js';
import type { Database } from '../../types.ts';
import { visitorHeaders } from './sender.ts';
import type { StoreSettings } from './settings.ts';

const TIMEOUT_MS = 15_000;

export type Payment = Database['public']['Tables']['payments']['Row'];
type Procedures = Database['public']['Functions'];

/** The database said no, with a code of docs/error-codes.md and a sentence for people. */
export class StoreRefusal extends Error {
  override readonly name = 'StoreRefusal';
  readonly status: number;
  readonly code: string;
  constructor(message: string, status: number, code: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** The database could not be asked, or gave an answer that is no decision. */
export class StoreFailure extends Error {
  override readonly name = 'StoreFailure';
}

export interface PaymentStore {
  /** Opens an attempt, or gives the one that is open or has succeeded; `trackingNumber` only for a new one. */
  begin(attempt: {
    orderId: string;
    /** Must be the order's; a wrong pair is refused as an order that does not exist. */
    trackingNumber: string;
    phone: string;
    noticeSecret: string;
    /** Cents. */
    expectedCents: number;
    /** Where the customer is, to whom the limits apply; null when that is not known. */
    address: string | null;
  }): Promise<{ isNew: boolean; payment: Payment; trackingNumber: string | null }>;
  /** Opens a test with KSh 1, for a staff member. */
  beginTest(test: { phone: string; noticeSecret: string; requestedBy: string }): Promise<Payment>;
  recordPush(push: Procedures['record_push']['Args']): Promise<Payment>;
  settle(settlement: Procedures['settle_payment']['Args']): Promise<{ outcome: string; payment: Payment }>;
  /** Keeps a notice that could not be settled, word for word. */
  keepFailed(paymentId: string, body: string, sourceAddress: string | null): Promise<void>;
  /** Notices that were kept so, and can be tried again. */
  failedNotices(atMost: number): Promise<{ id: number; paymentId: string; body: string }[]>;
  finishFailed(id: number): Promise<void>;
  /**
   * By M-PESA's checkout request id, or by the payment's own.
   * @param address IP address of the customer, whose unknown references are limited; null when it is not known
   */
  find(reference: string, address: string | null): Promise<Payment | null>;
  /**
   * The payment whose notices come to this secret address.
   * @param sender IP address of the request, which anyone may have sent; null when it is not known
   */
  findBySecret(noticeSecret: string, sender: string | null): Promise<string | null>;
  /** Attempts to ask M-PESA about now; each is out of reach for the next caller. */
  leaseQueries(atMost: number, perMinute: number): Promise<Payment[]>;
}

/**
 * The database as the payment function sees it.
 * Every method throws StoreRefusal when the database decided against it, StoreFailure when it could not be asked.
 * @param settings where it is, and the secret key
 */
export function openPaymentStore(settings: StoreSettings): PaymentStore {
  const client = new PostgrestClient<Database>(`${settings.url}/rest/v1`, {
    headers: { apikey: settings.secretKey, Authorization: `Bearer ${settings.secretKey}` },
    timeout: TIMEOUT_MS,
    ...(settings.fetch ? { fetch: settings.fetch } : {}),
  });

  return {
    async begin({ orderId, trackingNumber, phone, noticeSecret, expectedCents, address }) {
      const call = client.rpc('begin_payment', {
        order_id: orderId,
        tracking_number: trackingNumber,
        phone,
        notice_secret: noticeSecret,
        expected_cents: expectedCents,
      });
      const begun = read(await forCaller(call, address)) as {
        is_new: boolean;
        payment: Payment;
        tracking_number?: string;
      };
      return {
        isNew: begun.is_new,
        payment: begun.payment,
        trackingNumber: begun.tracking_number ?? null,
      };
    },
    async beginTest({ phone, noticeSecret, requestedBy }) {
      const test = { phone, notice_secret: noticeSecret, requested_by: requestedBy };
      return rowOf(await client.rpc('begin_payment_test', test));
    },
    async recordPush(push) {
      return rowOf(await client.rpc('record_push', push));
    },
    async settle(settlement) {
      return read(await client.rpc('settle_payment', settlement)) as { outcome: string; payment: Payment };
    },
    async keepFailed(paymentId, body, sourceAddress) {
      read(
        await client.rpc('store_failed_callback', {
          payment_id: paymentId,
          body,
          ...(sourceAddress === null ? {} : { source_address: sourceAddress }),
        }),
      );
    },
    async failedNotices(atMost) {
      const found = (read(await client.rpc('list_failed_callbacks', { at_most: atMost })) ?? []) as {
        id: number;
        payment_id: string;
        body: string;
      }[];
      return found.map(({ id, payment_id, body }) => ({ id, paymentId: payment_id, body }));
    },
    async finishFailed(id) {
      read(await client.rpc('finish_failed_callback', { message_id: id }));
    },
    async find(reference, address) {
      return read(await forCaller(client.rpc('find_payment', { reference }), address)) as Payment | null;
    },
    async findBySecret(noticeSecret, sender) {
      const call = client.rpc('find_payment_by_secret', { notice_secret: noticeSecret });
      return read(await forCaller(call, sender)) as string | null;
    },
    async leaseQueries(atMost, perMinute) {
      const limits = { at_most: atMost, per_minute: perMinute };
      return read(await client.rpc('lease_payment_queries', limits)) ?? [];
    },
  };
}

/** The call counts for the customer's network, not for the function's: in the limits of the database and in the fair queues. */
export function forCaller<Call extends { setHeader(name: string, value: string): Call }>(
  call: Call,
  address: string | null,
): Call {
  return address ? call.setHeader(visitorHeaders.address, address) : call;
}

/**
 * The data of a procedure's answer.
 * @throws StoreRefusal when the database decided against it, StoreFailure for everything else
 */
export function read<Data>(answer: {
  data: Data | null;
  error: PostgrestError | null;
  status: number;
}): Data | null {
  const { data, error, status } = answer;
  if (!error) return data;
  // PT… is how our procedures refuse; everything else is trouble of the machinery.
  if (/^PT4\d\d$/.test(error.code ?? '')) throw new StoreRefusal(error.message, status, error.details);
  throw new StoreFailure(`${status} ${error.code ?? ''} ${error.message}`.trim());
}

/**
 * The row of a procedure that always returns one.
 * @throws as `read`
 */
function rowOf<Row>(answer: Parameters<typeof read<Row>>[0]): Row {
  const row = read(answer);
  if (row === null) throw new StoreFailure('The database returned no row');
  return row;
}
