// Places an order, or changes the drinks of an unpaid one, and parses the response.
import type { DeliveryArea } from '../../../../domain/deliveries/delivery-area.ts';
import { type DiscountTerms, discountOn } from '../../../../domain/orders/discount.ts';
import { requestTimeoutMs } from '../../../../domain/timeout.ts';
import type { Store } from '../../../../supabase/store.ts';
import { orderTotal, subtotalOf } from '../../../lib/orders/order-contents.ts';
import {
  detailsToSend,
  fieldOfRefusal,
  type OrderForm,
  type OrderFormProblem,
} from '../../../lib/orders/order-form.ts';
import type { RememberedOrder } from '../../../lib/orders/remembered-orders.ts';
import type { OrderLine, Stock } from '../lines/order-lines.ts';
import { describeOrderChange, type OrderFigures } from './order-change.ts';
import { describeOrderFailure } from './order-failure.ts';

export interface RequestedDrink {
  productId: string;
  name: string;
  quantity: number;
  /** The shown price in cents: if the database computes another total, the customer must confirm it. */
  price: number;
}

/** @param prices shown instead of the product's own, by its id */
export const requestedDrinks = (
  lines: readonly OrderLine[],
  prices: OrderFigures['prices'] = {},
): RequestedDrink[] =>
  lines.map(({ product: { id, name, price }, quantity }) => ({
    productId: id,
    name,
    quantity,
    price: prices[id] ?? price,
  }));

export interface OrderRequest {
  drinks: readonly RequestedDrink[];
  /** The shown one, in cents. */
  deliveryFee: number;
  /** The code that was applied. */
  discount?: DiscountTerms | null | undefined;
  /** The chosen or recognised one, whose fee was shown. */
  area?: Pick<DeliveryArea, 'id'> | null | undefined;
  form: OrderForm;
  /** The line or checkbox about age, terms and privacy notice was shown, and ticked if required. */
  acceptsTerms: boolean;
}

export type OrderFailure = {
  /** Text for the toast 'Order Failed'. */
  text: string;
  /** The field with the error. */
  field: OrderFormProblem['field'] | null;
  /** What is left of the drinks by their products' ids, as the refusal says. */
  stock?: Readonly<Record<string, Stock>>;
} & (
  | {
      kind: 'total_changed';
      /** The changed figures as sentences; empty if the database returned only the new total. */
      changes: readonly string[];
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
  /** An order that was placed cannot have other drinks any more: its payment has begun, or it has ended. */
  | { kind: 'fixed'; reason: string }
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
export function orderContent({ drinks, deliveryFee, discount, area, form }: OrderRequest): string {
  const { name, email, phone, location, building, unit, notes, mapPoint } = form;
  const where = [...(area ? [area.id] : []), ...(mapPoint ? [mapPoint] : [])];
  const who = [name, email, phone, location, building, unit, notes];
  const what = drinks.flatMap(({ productId, quantity }) => [productId, quantity]);
  const code = discount ? [discount.code] : [];
  return JSON.stringify([...what, ...who, ...where, ...code, totalOf(drinks, deliveryFee, discount)]);
}

const itemsOf = (drinks: readonly RequestedDrink[]) =>
  drinks.map(({ productId, quantity }) => ({ product_id: productId, quantity }));

/** What the code takes off these drinks, in cents. 0 without a code or below its minimum. */
export const discountOf = (
  drinks: readonly { price: number; quantity: number }[],
  deliveryFee: number,
  discount: DiscountTerms | null | undefined,
): number => (discount ? discountOn(discount, subtotalOf(drinks), deliveryFee) : 0);

const totalOf = (
  drinks: readonly RequestedDrink[],
  deliveryFee: number,
  discount: DiscountTerms | null | undefined,
): number => orderTotal(drinks, deliveryFee, discountOf(drinks, deliveryFee, discount));

/** An overflowing quantity exceeds the stock: the answer is the number of units left. */
const expectedTotal = (...order: Parameters<typeof totalOf>): number =>
  Math.min(totalOf(...order), 2 ** 31 - 1);

/**
 * Places an order. The same idempotency key returns the same order, never a second one.
 * @returns the order, or why it was not placed; does not throw
 */
export async function placeOrder(
  tables: Store['tables'],
  request: OrderRequest,
  idempotencyKey: string,
): Promise<OrderOutcome> {
  const { drinks, deliveryFee, discount, area, form, acceptsTerms } = request;
  const [first] = drinks;
  const call = tables.rpc('place_order', {
    idempotency_key: idempotencyKey,
    // One drink in the form that earlier versions of the page send: an order whose answer they lost is found by its key.
    ...(first && drinks.length === 1
      ? { product_id: first.productId, quantity: first.quantity }
      : { items: itemsOf(drinks) }),
    ...detailsToSend(form),
    expected_total: expectedTotal(drinks, deliveryFee, discount),
    accepts_terms: acceptsTerms,
    // Earlier versions of the database have no such argument.
    ...(discount ? { discount_code: discount.code } : {}),
    ...(area ? { area_id: area.id } : {}),
  });
  const answer = await call.abortSignal(AbortSignal.timeout(requestTimeoutMs));
  return readOutcome(answer, { drinks, deliveryFee, discount });
}

/**
 * Places a delivered order again, with the details that the database has. Repeating a request with the same key is safe.
 * @returns the order, why it was not placed, or the order under way that repeats it already; does not throw
 */
export async function placeSameOrder(
  tables: Store['tables'],
  accessKey: string,
  { drinks, deliveryFee }: Pick<OrderRequest, 'drinks' | 'deliveryFee'>,
  idempotencyKey: string,
): Promise<OrderOutcome | { runningNumber: string }> {
  const call = tables.rpc('order_again', {
    access_key: accessKey,
    idempotency_key: idempotencyKey,
    expected_total: expectedTotal(drinks, deliveryFee, null),
    accepts_terms: true,
  });
  const answer = await call.abortSignal(AbortSignal.timeout(requestTimeoutMs));
  return answer.error?.details === 'order_repeated'
    ? { runningNumber: answer.error.hint }
    : readOutcome(answer, { drinks, deliveryFee });
}

/**
 * Replaces the drinks of an order whose payment has not begun. Repeating a request is safe.
 * @param deliveryFee of the order, in cents
 * @param discount of the order's code
 * @returns the changed order, or why it was not changed; does not throw
 */
export async function changeDrinks(
  tables: Store['tables'],
  { orderId, accessKey }: { orderId: string; accessKey: string },
  drinks: readonly RequestedDrink[],
  deliveryFee: number,
  discount: DiscountTerms | null = null,
): Promise<OrderOutcome> {
  const call = tables.rpc('change_order_items', {
    order_id: orderId,
    access_key: accessKey,
    items: itemsOf(drinks),
    expected_total: expectedTotal(drinks, deliveryFee, discount),
  });
  const answer = await call.abortSignal(AbortSignal.timeout(requestTimeoutMs));
  return readOutcome(answer, { drinks, deliveryFee, discount });
}

type ShownOrder = Pick<OrderRequest, 'drinks' | 'deliveryFee' | 'discount'>;

function readOutcome(
  { data, error, status }: { data: unknown; error: (Refusal & { code: string }) | null; status: number },
  shown: ShownOrder,
): OrderOutcome {
  if (error) {
    const isAnswered = error.code !== '' && error.code !== undefined && status <= 500;
    // Otherwise the order may have been placed: the next attempt then finds it.
    const failure = isAnswered ? describe(error, shown) : otherFailure({}, 'unanswered');
    return { isPlaced: false, failure };
  }
  const order = readPlacedOrder(data, shown.drinks[0]?.productId ?? '');
  return order ? { isPlaced: true, order } : { isPlaced: false, failure: otherFailure(null) };
}

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

function describe(error: Refusal, { drinks, deliveryFee, discount }: ShownOrder): OrderFailure {
  const other = otherFailure(error);
  const field = (Object.hasOwn(fieldOfRefusal, error.details) && fieldOfRefusal[error.details]) || null;
  const quote = readQuote(error.quote, drinks);
  const common = { text: other.text, field, ...(quote ? { stock: quote.stock } : {}) };
  /** Earlier versions of the database return no quote; their orders have one drink. */
  const withStock = (stock: Stock) =>
    drinks[0] && !quote ? { ...common, stock: { [drinks[0].productId]: stock } } : common;
  const hint = /^\d+$/.test(error.hint ?? '') ? Number(error.hint) : null;
  switch (error.details) {
    case 'total_changed': {
      const prices = Object.fromEntries(drinks.map(({ productId, price }) => [productId, price]));
      if (quote) {
        // Without a code, the database quotes none.
        const shown = discount ? { discount: discountOf(drinks, deliveryFee, discount) } : {};
        const changes = describeOrderChange({ prices, deliveryFee, ...shown }, quote.now, drinks);
        return { kind: 'total_changed', changes, now: quote.now, ...common };
      }
      if (hint === null) break;
      const newFee = hint - subtotalOf(drinks) + discountOf(drinks, deliveryFee, discount);
      return newFee >= 0
        ? { kind: 'total_changed', changes: [], now: { prices, deliveryFee: newFee, total: hint }, ...common }
        : { ...other, field };
    }
    case 'not_enough_stock':
      if (hint === null) break;
      return { kind: 'not_enough_stock', left: hint, ...withStock({ unitsLeft: hint, isOff: false }) };
    case 'total_too_large':
      if (hint === null) break;
      return { kind: 'above_limit', limit: hint, ...common };
    case 'out_of_stock':
      return { kind: 'out_of_stock', ...withStock({ unitsLeft: 0, isOff: false }) };
    case 'orders_paused':
      return pausedBy(error.message);
    case 'product_unavailable':
      return { kind: 'unavailable', ...withStock({ unitsLeft: 0, isOff: true }) };
    case 'idempotency_key_reused':
      return { kind: 'key_reused', ...common };
    case 'payment_begun':
    case 'order_already_paid':
    case 'order_cancelled':
    case 'order_in_work':
    case 'order_not_found':
      return { kind: 'fixed', reason: error.message, text: error.message, field };
  }
  return { ...other, field };
}

interface Quote {
  now: OrderFigures & { total: number };
  stock: Record<string, Stock>;
}

/** @returns null for an answer without the current amounts */
function readQuote(quote: unknown, drinks: readonly RequestedDrink[]): Quote | null {
  if (typeof quote !== 'object' || quote === null) return null;
  const { delivery_fee, total, items, discount } = quote as Record<string, unknown>;
  // Of one drink, earlier versions of the database return the amounts without a list.
  const listed = Array.isArray(items) ? items : [{ ...quote, product_id: drinks[0]?.productId }];
  const prices: Record<string, number> = {};
  const stock: Record<string, Stock> = {};
  for (const { product_id, price, units_left } of listed as Record<string, unknown>[]) {
    if (typeof product_id !== 'string') return null;
    if (typeof price === 'number') prices[product_id] = price;
    // Without a price, the shop has stopped selling it.
    stock[product_id] = { unitsLeft: Number(units_left ?? 0), isOff: typeof price !== 'number' };
  }
  if (typeof delivery_fee !== 'number' || typeof total !== 'number') return null;
  const discounted = typeof discount === 'number' ? { discount } : {};
  return { now: { prices, deliveryFee: delivery_fee, ...discounted, total }, stock };
}

function readPlacedOrder(answer: unknown, productId: string): RememberedOrder | null {
  if (typeof answer !== 'object' || answer === null) return null;
  const {
    id,
    tracking_number,
    access_key,
    total_amount,
    discount_cents,
    customer_phone,
    created_at,
    awaits_agreement,
  } = answer as Record<string, unknown>;
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
    ...(typeof discount_cents === 'number' ? { discountCents: discount_cents } : {}),
    phone: customer_phone,
    paymentReference: null,
    placedAt: created_at,
    isPaymentOpen: true,
    isSetAside: false,
    ...(awaits_agreement === true ? { awaitsAgreement: true } : {}),
  };
}
