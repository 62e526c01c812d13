// An order by its tracking number: loads it and merges live changes.
import type { PostgrestError } from '@supabase/postgrest-js';
import { type DiscountTerms, readTerms } from '../../../domain/orders/discount.ts';
import type { Store } from '../../../supabase/store.ts';
import type { OrderPaymentStatus } from '../../../supabase/types.ts';
import type { OrderFacts, PaymentCheck, ShownStatus } from '../../lib/orders/order-meaning.ts';

export interface TrackedItem {
  id: string;
  quantity: number;
  /** Cents. */
  unitPrice: number;
  name: string;
  imageUrl: string | null;
  category: string | null;
  /** Slug of the product's page; null if it is no longer sold. */
  slug: string | null;
}

const isPaymentCheck = (value: unknown): value is PaymentCheck =>
  value === 'review' || value === 'goes_back' || value === 'prompted' || value === 'unresolved';

export interface TrackedOrder extends OrderFacts {
  trackingNumber: string;
  /** Name of the order's realtime channel; gives no other access. */
  liveHandle: string;
  updatedAt: string;
  /** True without proof that the order is the caller's: name and phone are masked, and the address is missing. */
  isMasked: boolean;
  /** Required for paying; null while masked. */
  id: string | null;
  /** The access key, which replaces the phone's digits next time; null while masked. */
  accessKey: string | null;
  /** Whether it can only be paid without a prompt at the moment; false while masked. */
  arePromptsPaused: boolean;
  /** What the customer says to the rider; null where it is not asked for, and without the access key. */
  proofCode: string | null;
  promise: TrackedPromise;
  /** ISO date-times of the steps that are reached. */
  steps: TrackedSteps;
  /** Once the order is on its way; null while masked. */
  rider: TrackedRider | null;
  /** The customer's own; null while masked. */
  rating: Rating | null;
  /** Whether it can be given or changed now. */
  mayRate: boolean;
  /** Null for an order older than 30 days while masked. */
  details: OrderDetails | null;
}

/** ISO date-times. */
interface TrackedPromise {
  first: string | null;
  /** A later one that the customer was informed of. */
  again: string | null;
  /** Once the order is on its way, where it is known how long that takes. */
  atDoor: string | null;
}

interface TrackedSteps {
  paidAt: string | null;
  pickedUpAt: string | null;
  deliveredAt: string | null;
}

interface TrackedRider {
  firstName: string;
  /** Number plate, or the vehicle. */
  plate: string;
  /** In international form; null where none is known. */
  phone: string | null;
}

export interface Rating {
  stars: number;
  words: string | null;
  /** Whether the words may be shown to visitors. */
  mayQuote: boolean;
}

export interface OrderDetails {
  createdAt: string;
  /** Cents. */
  deliveryFee: number;
  /** What its code takes off: `total` is without it. */
  discountCents: number;
  /** Of its code; null while masked, and without one. */
  discount: DiscountTerms | null;
  total: number;
  customerName: string;
  /** Null without the access key. */
  customerEmail: string | null;
  customerPhone: string;
  address: string | null;
  deliveryNotes: string | null;
  /** Name of the area that was chosen. */
  areaName: string | null;
  /** The agreed day, such as `2026-12-01`. */
  deliveryDay: string | null;
  items: TrackedItem[];
}

export type OrderLookup =
  | { kind: 'found'; order: TrackedOrder }
  | { kind: 'missing' }
  /** Looked up by its order number, which can be guessed: the last digits of its phone show the order. */
  | { kind: 'needs digits'; orderNumber: string; status: ShownStatus }
  /** `isLimited`: too many lookups from this network; a lookup with proof still succeeds. */
  | { kind: 'failed'; message: string; isLimited: boolean };

const fallback = 'Failed to fetch order details';
export const failedToFetch = {
  kind: 'failed',
  message: fallback,
  isLimited: false,
} as const satisfies OrderLookup;

/**
 * A failed lookup. Without a code, or with one of these codes, the connection failed, and the message is not for
 * customers.
 */
export const failedLookup = ({ code, message, details }: PostgrestError) => ({
  kind: 'failed' as const,
  message: (code && !code.startsWith('PGRST00') && message) || fallback,
  isLimited: details === 'too_many_lookups',
});

/**
 * Looks up an order (docs/product.md#calls); does not throw.
 * @param proof reveals the order: its access key, or the last four digits of its phone (or the whole number)
 */
export async function lookUpOrder(
  tables: Store['tables'],
  trackingNumber: string,
  proof: { accessKey?: string | null; phoneLastFour?: string | null } = {},
): Promise<OrderLookup> {
  const { data, error } = await tables.rpc('track_order', {
    tracking_number: trackingNumber,
    access_key: proof.accessKey ?? null,
    phone_last_four: proof.phoneLastFour ?? null,
  });
  if (error) return failedLookup(error);
  if (data === null) return { kind: 'missing' };
  if (isRecord(data) && data.needs_digits === true) {
    return { kind: 'needs digits', orderNumber: text(data.order_number) ?? '', status: statusOf(data) };
  }
  const order = readTrackedOrder(data);
  return order ? { kind: 'found', order } : failedToFetch;
}

/** @returns null for an invalid response */
export function readTrackedOrder(answer: unknown): TrackedOrder | null {
  const facts = readOrderFacts(answer);
  if (!facts || !isRecord(answer)) return null;
  const { tracking_number: trackingNumber, live_handle: liveHandle, updated_at: updatedAt } = answer;
  if (typeof trackingNumber !== 'string' || typeof liveHandle !== 'string' || typeof updatedAt !== 'string') {
    return null;
  }
  return {
    ...facts,
    trackingNumber,
    liveHandle,
    updatedAt,
    isMasked: answer.is_masked !== false,
    id: text(answer.id),
    accessKey: text(answer.access_key),
    arePromptsPaused: answer.are_prompts_paused === true,
    proofCode: text(answer.proof_code),
    promise: {
      first: text(answer.promised_at),
      again: text(answer.promised_again_at),
      atDoor: text(answer.arrives_at),
    },
    steps: readSteps(answer.steps),
    rider: readRider(answer.rider),
    rating: readRating(answer.rating),
    mayRate: answer.may_rate === true,
    details: readDetails(answer),
  };
}

/** @returns null for a response without an order's state */
export function readOrderFacts(answer: unknown): OrderFacts | null {
  if (!isRecord(answer) || typeof answer.status !== 'string') return null;
  const { cancelled_because: reason, way_to_cancel: way } = answer;
  return {
    status: statusOf(answer),
    paymentStatus: (text(answer.payment_status) ?? 'unpaid') as OrderPaymentStatus,
    paymentCheck: isPaymentCheck(answer.payment_check) ? answer.payment_check : null,
    isRefunding: answer.is_refunding === true,
    cancelledBecause:
      reason === 'not_paid_in_time' || reason === 'by_shop' || reason === 'by_customer' ? reason : null,
    isCancelRequested: answer.cancel_requested === true,
    cancelAnswer: text(answer.cancel_answer),
    wayToCancel: way === 'at_once' || way === 'by_request' ? way : null,
    total: cents(answer.total_amount),
    paid: cents(answer.paid_cents),
    refunded: cents(answer.refunded_cents),
    partPaid: cents(answer.part_paid_cents),
    surplus: cents(answer.surplus_cents),
    partRefunded: cents(answer.part_refunded_cents),
    credit: cents(answer.credit_cents),
    awaitsAgreement: answer.awaits_agreement === true,
    paysCash: answer.pays_cash === true,
    paysCredit: answer.pays_credit === true,
    reservedUntil: text(answer.reserved_until),
    expiresAt: text(answer.expires_at),
    arrivesBy: text(answer.promised_again_at) ?? text(answer.promised_at),
  };
}

function readSteps(answer: unknown): TrackedSteps {
  const { paid_at, picked_up_at, delivered_at } = isRecord(answer) ? answer : {};
  return { paidAt: text(paid_at), pickedUpAt: text(picked_up_at), deliveredAt: text(delivered_at) };
}

function readRider(answer: unknown): TrackedRider | null {
  const firstName = isRecord(answer) ? text(answer.first_name) : null;
  return isRecord(answer) && firstName
    ? { firstName, plate: text(answer.plate) ?? '', phone: text(answer.phone) }
    : null;
}

const readRating = (answer: unknown): Rating | null =>
  isRecord(answer) && typeof answer.stars === 'number'
    ? { stars: answer.stars, words: text(answer.words), mayQuote: answer.may_quote === true }
    : null;

function readDetails(answer: Record<string, unknown>): OrderDetails | null {
  const { created_at: createdAt, total_amount: total } = answer;
  if (typeof createdAt !== 'string' || typeof total !== 'number') return null;
  return {
    createdAt,
    total,
    deliveryFee: typeof answer.delivery_fee === 'number' ? answer.delivery_fee : 0,
    discountCents: cents(answer.discount_cents) ?? 0,
    discount: readTerms(answer.discount),
    customerName: text(answer.customer_name) ?? '',
    customerEmail: text(answer.customer_email),
    customerPhone: text(answer.customer_phone) ?? '',
    address: text(answer.shipping_address),
    deliveryNotes: text(answer.delivery_notes),
    areaName: text(answer.area_name),
    deliveryDay: text(answer.delivery_day),
    items: Array.isArray(answer.order_items) ? answer.order_items.flatMap(readItem) : [],
  };
}

function readItem(item: unknown): TrackedItem[] {
  if (!isRecord(item) || typeof item.quantity !== 'number' || typeof item.unit_price !== 'number') return [];
  const product = isRecord(item.product) ? item.product : {};
  return [
    {
      id: String(item.id),
      quantity: item.quantity,
      unitPrice: item.unit_price,
      name: text(product.name) ?? 'Product',
      imageUrl: text(product.image_url),
      category: text(product.category),
      slug: text(product.slug),
    },
  ];
}

/** Merges another lookup into the shown order. The newer states count, and details that were revealed stay revealed. */
export function withLookup(shown: TrackedOrder, found: TrackedOrder): TrackedOrder {
  if (found.trackingNumber !== shown.trackingNumber) return found;
  const isOlder = Date.parse(found.updatedAt) < Date.parse(shown.updatedAt);
  const { status, paymentStatus, updatedAt } = isOlder ? shown : found;
  const { paymentCheck, isRefunding, cancelledBecause, isCancelRequested, awaitsAgreement } = found;
  const { arrivesBy, promise, steps } = found;
  return found.isMasked && !shown.isMasked
    ? {
        ...shown,
        status,
        paymentStatus,
        updatedAt,
        paymentCheck,
        isRefunding,
        cancelledBecause,
        isCancelRequested,
        awaitsAgreement,
        arrivesBy,
        promise,
        steps,
      }
    : { ...found, status, paymentStatus, updatedAt };
}

/** The order's status. One that a later version of the shop added is shown as it is. */
const statusOf = ({ status }: Record<string, unknown>) => (text(status) ?? '') as ShownStatus;

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const cents = (value: unknown): number | null => (typeof value === 'number' ? value : null);

const text = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null);
