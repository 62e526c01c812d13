// The call that places an order, and what can be read from its answer.
import { describeOrderFailure } from '../../../domain/order-failure.ts';
import type { OrderForm, OrderFormProblem } from '../../../domain/order-form.ts';
import { normalisePhone } from '../../../domain/phone.ts';
import { patience } from '../../lib/patience.ts';
import type { RememberedOrder } from '../../lib/remembered-orders.ts';
import type { Store } from '../../lib/store.ts';

export interface OrderRequest {
  productId: string;
  quantity: number;
  form: OrderForm;
  /** The total the shopper saw, in cents: another one in the database is asked about, not charged. */
  expectedTotal: number;
}

export type OrderFailure = {
  /** For the toast 'Order Failed'. */
  text: string;
  /** The field it is about, told beside it. */
  field: OrderFormProblem['field'] | null;
} & (
  | { kind: 'total_changed'; total: number; message: string }
  | { kind: 'not_enough_stock'; left: number }
  | { kind: 'out_of_stock' }
  /** The key was used up by an order with other details. */
  | { kind: 'key_reused' }
  | { kind: 'other' }
  | { kind: 'offline' }
);

export type OrderOutcome =
  | { isPlaced: true; order: RememberedOrder }
  | { isPlaced: false; failure: OrderFailure };

/** Everything that makes an order this order and no other, as one text. */
export function orderContent({ productId, quantity, form, expectedTotal }: OrderRequest): string {
  const { name, email, phone, location, building, unit } = form;
  return JSON.stringify([productId, quantity, name, email, phone, location, building, unit, expectedTotal]);
}

/**
 * Places an order. The same idempotency key again gives the same order, never a second one.
 * @returns the order, or why there is none; it does not throw
 */
export async function placeOrder(
  tables: Store['tables'],
  request: OrderRequest,
  idempotencyKey: string,
): Promise<OrderOutcome> {
  const { productId, quantity, form, expectedTotal } = request;
  const call = tables.rpc('place_order', {
    idempotency_key: idempotencyKey,
    product_id: productId,
    quantity,
    customer_name: plain(form.name),
    customer_email: form.email.replace(/\p{Cf}/gu, ''),
    customer_phone: normalisePhone(form.phone) ?? form.phone,
    delivery_location: plain(form.location),
    // More than can be counted there is more than there is: the answer is how many are left.
    expected_total: Math.min(expectedTotal, 2 ** 31 - 1),
    building: plain(form.building) || null,
    unit: plain(form.unit) || null,
  });
  // The order may be placed all the same: the next try then finds it.
  const { data, error } = await call.abortSignal(AbortSignal.timeout(patience));
  if (error) return { isPlaced: false, failure: describe(error) };
  const order = readPlacedOrder(data, productId);
  if (!order) {
    return { isPlaced: false, failure: { kind: 'other', text: describeOrderFailure(null), field: null } };
  }
  return { isPlaced: true, order };
}

/** Without what a paste brings along unseen, and the database refuses: signs that turn the writing, tabs and the like. */
const plain = (typed: string): string =>
  typed.replace(/[\u202a-\u202e\u2066-\u2069]/g, '').replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ');

const fieldOf: Record<string, OrderFormProblem['field']> = {
  name_invalid: 'name',
  name_too_long: 'name',
  email_invalid: 'email',
  email_too_long: 'email',
  phone_invalid: 'phone',
  location_invalid: 'location',
  address_too_long: 'location',
};

function describe(error: { message: string; details: string; hint: string }): OrderFailure {
  const text = describeOrderFailure(error);
  const field = (Object.hasOwn(fieldOf, error.details) && fieldOf[error.details]) || null;
  const hint = /^\d+$/.test(error.hint ?? '') ? Number(error.hint) : null;
  if (error.details === 'total_changed' && hint !== null) {
    return { kind: 'total_changed', total: hint, message: error.message, text, field };
  }
  if (error.details === 'not_enough_stock' && hint !== null) {
    return { kind: 'not_enough_stock', left: hint, text, field };
  }
  if (error.details === 'out_of_stock') return { kind: 'out_of_stock', text, field };
  return { kind: error.details === 'idempotency_key_reused' ? 'key_reused' : 'other', text, field };
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
    checkoutRequestId: null,
    placedAt: created_at,
    isPaymentOpen: true,
    isSetAside: false,
  };
}
