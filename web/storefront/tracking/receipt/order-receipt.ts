// Loads the receipt of an order.

import type { Store } from '../../../../supabase/store.ts';
import type { OrderFacts } from '../../../lib/orders/order-meaning.ts';
import {
  failedLookup,
  failedToFetch,
  type OrderDetails,
  type OrderLookup,
  readOrderFacts,
  readTrackedOrder,
  type TrackedOrder,
} from '../tracked-order.ts';

interface ReceiptItem {
  id: string;
  name: string;
  quantity: number;
  /** Cents. */
  unitPrice: number;
}

export interface ReceiptPayment {
  id: string;
  /** Cents. */
  chargeCents: number;
  /** M-PESA's receipt; null until known. */
  receipt: string | null;
  /** ISO date-times. */
  completedAt: string | null;
  refundedAt: string | null;
  refundReceipt: string | null;
  /** An overpayment, to be refunded. */
  isSurplus: boolean;
  isCash: boolean;
  isCredit: boolean;
  /** What of it went back in part. */
  partsBack: { cents: number; receipt: string | null; isCash: boolean; at: string | null }[];
  /** Cents of it that are kept for the customer. */
  credit: number;
}

export interface OrderReceipt
  extends OrderFacts,
    Pick<TrackedOrder, 'trackingNumber' | 'accessKey'>,
    Pick<
      OrderDetails,
      | 'createdAt'
      | 'deliveryFee'
      | 'discountCents'
      | 'discount'
      | 'customerName'
      | 'customerPhone'
      | 'address'
    > {
  /** Cents. */
  total: number;
  items: ReceiptItem[];
  payments: ReceiptPayment[];
}

export type ReceiptLookup =
  | { kind: 'found'; receipt: OrderReceipt }
  /** The order exists, but nothing proves that it is the caller's. */
  | { kind: 'closed' }
  | Exclude<OrderLookup, { kind: 'found' | 'needs digits' }>;

/**
 * Looks up a receipt; does not throw.
 * @param proof the order's access key, or the last four digits of its phone
 */
export async function lookUpReceipt(
  tables: Store['tables'],
  trackingNumber: string,
  proof: { accessKey?: string | null; phoneLastFour?: string | null },
): Promise<ReceiptLookup> {
  const { data, error } = await tables.rpc('order_receipt', {
    tracking_number: trackingNumber,
    access_key: proof.accessKey ?? null,
    phone_last_four: proof.phoneLastFour ?? null,
  });
  if (error) return failedLookup(error);
  if (data === null) return { kind: 'missing' };
  if (isRecord(data) && data.is_masked === true) return { kind: 'closed' };
  const receipt = readReceipt(data);
  return receipt ? { kind: 'found', receipt } : failedToFetch;
}

/** @returns null for an invalid response */
export function readReceipt(answer: unknown): OrderReceipt | null {
  const order = readTrackedOrder(answer);
  const facts = readOrderFacts(answer);
  if (!facts || facts.total === null) return null;
  if (!order?.details || order.isMasked || !isRecord(answer)) return null;
  const { trackingNumber, accessKey } = order;
  const { createdAt, deliveryFee, discountCents, discount, customerName, customerPhone, address } =
    order.details;
  return {
    ...facts,
    total: facts.total,
    trackingNumber,
    accessKey,
    createdAt,
    deliveryFee,
    discountCents,
    discount,
    customerName,
    customerPhone,
    address,
    items: records(answer.order_items).flatMap(({ id, name, quantity, unit_price }) =>
      typeof quantity === 'number' && typeof unit_price === 'number'
        ? [{ id: String(id), name: text(name) ?? 'Product', quantity, unitPrice: unit_price }]
        : [],
    ),
    payments: records(answer.payments).flatMap((payment) =>
      typeof payment.charge_cents === 'number'
        ? [
            {
              id: String(payment.id),
              chargeCents: payment.charge_cents,
              receipt: text(payment.receipt),
              completedAt: text(payment.completed_at),
              refundedAt: text(payment.refunded_at),
              refundReceipt: text(payment.refund_receipt),
              isSurplus: payment.is_surplus === true,
              isCash: payment.method === 'cash',
              isCredit: payment.method === 'credit',
              partsBack: records(payment.parts_back).flatMap(({ amount_cents, receipt, way, noted_at }) =>
                typeof amount_cents === 'number'
                  ? [
                      {
                        cents: amount_cents,
                        receipt: text(receipt),
                        isCash: way === 'cash',
                        at: text(noted_at),
                      },
                    ]
                  : [],
              ),
              credit: typeof payment.credit_cents === 'number' ? payment.credit_cents : 0,
            },
          ]
        : [],
    ),
  };
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const records = (value: unknown): Record<string, unknown>[] =>
  Array.isArray(value) ? value.filter(isRecord) : [];
const text = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null);
