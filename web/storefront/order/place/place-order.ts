// Places an order and parses the response.
import { orderTotal } from '../../../../domain/money.ts';
import { normalisePhone } from '../../../../domain/phone.ts';
import { requestTimeoutMs } from '../../../../domain/timeout.ts';
import type { Store } from '../../../../supabase/store.ts';
import type { RememberedOrder } from '../../../lib/orders/remembered-orders.ts';
import type { OrderForm, OrderFormProblem } from '../form/order-form.ts';
import type { OrderFigures } from './order-change.ts';
import { describeOrderFailure } from './order-failure.ts';

export interface OrderRequest {
  productId: string;
  quantity: number;
  form: OrderForm;
  /** The shown amounts: if the database computes another total, the customer must confirm it. */
  shown: OrderFigures;
  /** The line or checkbox about age, terms and privacy notice was shown, and ticked if required. */
  acceptsTerms: boolean;
}

export type OrderFailure = {
  /** Text for the toast 'Order Failed'. */
  text: string;
  /** The field with the error. */
  field: OrderFormProblem['field'] | null;
} & (
  | {
      kind: 'total_changed';
      /** Missing if the database returned only the new total. */
      shown?: OrderFigures | undefined;
      now: OrderFigures & { total: number };
    }
  | { kind: 'not_enough_stock'; left: number }
  | { kind: 'out_of_stock' }
  /** The shop takes no orders now: the sentence that says why and until when. */
  | { kind: 'paused'; reason: string }
  /** More than M-PESA takes in one payment: the limit in cents. */
  | { kind: 'above_limit'; limit: number }
  /** The shop has stopped selling it. */
  | { kind: 'unavailable' }
  /** The idempotency key was used for an order with other details. */
  | { kind: 'key_reused' }
  /** There was no readable answer, so the order may have been placed. */
  | { kind: 'unanswered'; reason: string }
  | { kind: 'other'; reason: string }
  | { kind: 'offline' }
);

export type OrderOutcome =
  | { isPlaced: true; order: RememberedOrder }
  | { isPlaced: false; failure: OrderFailure };

/** All values that identify an order, as one text. */
export function orderContent({ productId, quantity, form, shown }: OrderRequest): string {
  const { name, email, phone, location, building, unit, notes } = form;
  const who = [name, email, phone, location, building, unit, notes];
  return JSON.stringify([productId, quantity, ...who, orderTotal(shown.price, quantity, shown.deliveryFee)]);
}

/**
 * Places an order. The same idempotency key returns the same order, never a second one.
 * @returns the order, or why it was not placed; does not throw
 */
export async function placeOrder(
  tables: Store['tables'],
  request: OrderRequest,
  idempotencyKey: string,
): Promise<OrderOutcome> {
  const { productId, quantity, form, shown, acceptsTerms } = request;
  const call = tables.rpc('place_order', {
    idempotency_key: idempotencyKey,
    product_id: productId,
    quantity,
    customer_name: plain(form.name),
    customer_email: form.email.replace(/\p{Cf}/gu, ''),
    customer_phone: normalisePhone(form.phone) ?? form.phone,
    delivery_location: plain(form.location),
    // An overflowing quantity exceeds the stock: the answer is the number of units left.
    expected_total: Math.min(orderTotal(shown.price, quantity, shown.deliveryFee), 2 ** 31 - 1),
    building: plain(form.building) || null,
    unit: plain(form.unit) || null,
    delivery_notes: plainLines(form.notes) || null,
    accepts_terms: acceptsTerms,
  });
  // The order may have been placed: the next attempt then finds it.
  const { data, error, status } = await call.abortSignal(AbortSignal.timeout(requestTimeoutMs));
  if (error) {
    const isAnswered = error.code !== '' && error.code !== undefined && status <= 500;
    return {
      isPlaced: false,
      failure: isAnswered ? describe(error, request) : otherFailure({}, 'unanswered'),
    };
  }
  const order = readPlacedOrder(data, productId);
  if (!order) {
    return { isPlaced: false, failure: otherFailure(null) };
  }
  return { isPlaced: true, order };
}

/** Removes invisible characters of pasted text that the database rejects: bidirectional controls, tabs and similar. */
const plain = (typed: string): string =>
  typed.replace(/[\u202a-\u202e\u2066-\u2069]/g, '').replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ');

/** The same for text with line breaks. */
const plainLines = (typed: string): string =>
  typed
    .split(/\r\n?|\n/)
    .map(plain)
    .join('\n')
    .trim();

const fieldOf: Record<string, OrderFormProblem['field']> = {
  name_invalid: 'name',
  name_too_long: 'name',
  email_invalid: 'email',
  email_too_long: 'email',
  phone_invalid: 'phone',
  location_invalid: 'location',
  address_too_long: 'location',
  notes_too_long: 'notes',
  terms_not_accepted: 'acceptsTerms',
};

/** What a refusal says about a field of the form, beside which it is shown. */
export const problemsOf = ({ field, text }: OrderFailure): Pick<OrderFormProblem, 'field' | 'text'>[] =>
  field ? [{ field, text: text.replace(/^Failed to create order: /, '') }] : [];

/** @param reason the sentence of the pause */
export const pausedBy = (reason: string): OrderFailure => ({
  kind: 'paused',
  text: reason,
  field: null,
  reason,
});

/** The shop's own text for a failure, or a general one. */
export function otherFailure(
  error: Parameters<typeof describeOrderFailure>[0],
  kind: 'unanswered' | 'other' = 'other',
): OrderFailure {
  const text = describeOrderFailure(error);
  return {
    kind,
    text,
    field: null,
    reason: text.replace(/^Failed to create order(?: item)?: /, ''),
  };
}

interface Refusal {
  message: string;
  details: string;
  hint: string;
  /** The current amounts (docs/error-codes.md). Earlier versions of the database return none. */
  quote?: unknown;
}

function describe(error: Refusal, { quantity, shown }: OrderRequest): OrderFailure {
  const other = otherFailure(error);
  const field = (Object.hasOwn(fieldOf, error.details) && fieldOf[error.details]) || null;
  const common = { text: other.text, field };
  const hint = /^\d+$/.test(error.hint ?? '') ? Number(error.hint) : null;
  switch (error.details) {
    case 'total_changed': {
      const now = readQuote(error.quote);
      if (now) return { kind: 'total_changed', shown, now, ...common };
      if (hint === null) break;
      const deliveryFee = hint - shown.price * quantity;
      return deliveryFee >= 0
        ? { kind: 'total_changed', now: { price: shown.price, deliveryFee, total: hint }, ...common }
        : { ...other, field };
    }
    case 'not_enough_stock':
      if (hint === null) break;
      return { kind: 'not_enough_stock', left: hint, ...common };
    case 'total_too_large':
      if (hint === null) break;
      return { kind: 'above_limit', limit: hint, ...common };
    case 'out_of_stock':
      return { kind: 'out_of_stock', ...common };
    case 'orders_paused':
      return pausedBy(error.message);
    case 'product_unavailable':
      return { kind: 'unavailable', ...common };
    case 'idempotency_key_reused':
      return { kind: 'key_reused', ...common };
  }
  return { ...other, field };
}

function readQuote(quote: unknown): (OrderFigures & { total: number }) | null {
  if (typeof quote !== 'object' || quote === null) return null;
  const { price, delivery_fee, total } = quote as Record<string, unknown>;
  return typeof price === 'number' && typeof delivery_fee === 'number' && typeof total === 'number'
    ? { price, deliveryFee: delivery_fee, total }
    : null;
}

function readPlacedOrder(answer: unknown, productId: string): RememberedOrder | null {
  if (typeof answer !== 'object' || answer === null) return null;
  const { id, tracking_number, access_key, total_amount, customer_phone, created_at } = answer as Record<
    string,
    unknown
  >;
  if (
    typeof id !== 'string' ||
    typeof tracking_number !== 'string' ||
    typeof access_key !== 'string' ||
    typeof total_amount !== 'number' ||
    typeof customer_phone !== 'string' ||
    typeof created_at !== 'string'
  ) {
    return null;
  }
  return {
    orderId: id,
    trackingNumber: tracking_number,
    accessKey: access_key,
    productId,
    total: total_amount,
    phone: customer_phone,
    paymentReference: null,
    placedAt: created_at,
    isPaymentOpen: true,
    isSetAside: false,
  };
}
