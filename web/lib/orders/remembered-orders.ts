// The orders placed on this device, as stored in the browser: enough to load their state, to resume a payment after a reload
// and to order again. The state of an order comes only from the server.
import { type DeviceStorage, deviceStorage, onStoredElsewhere } from '../browser/browser-storage.ts';
import { ordersKey } from './stored-orders.ts';

/** A drink of an order, to order it again. */
export interface OrderedDrink {
  slug: string;
  name: string;
  quantity: number;
}

export interface RememberedOrder {
  orderId: string;
  trackingNumber: string;
  /** Shows the order's personal data on the tracking page. */
  accessKey: string;
  /** The product on whose page it was placed, and where its payment continues. */
  productId: string;
  /** Cents. */
  total: number;
  /** What its discount code takes off, in cents: `total` is without it. Missing without a code. */
  discountCents?: number | undefined;
  /** The phone of the last payment; before one, the customer's. */
  phone: string;
  /** The last prompt; null if unknown. */
  paymentReference: string | null;
  /** True once a prompt was sent: the drinks of the order cannot change any more. */
  wasPrompted?: boolean;
  /** True if fee and day were to be agreed on when it was placed. */
  awaitsAgreement?: boolean;
  /** ISO date-time. */
  placedAt: string;
  /** False once the server reported that there is nothing left to pay. While true, only the server knows. */
  isPaymentOpen: boolean;
  /** True while it is delivered, cancelled or refunded, as the server reported last. */
  isOver?: boolean;
  /** ISO date-time at which the device learned that it is over. Orders stored by older versions have none. */
  overSince?: string;
  /** True once the customer had their details forgotten: it is tracked, but fills no form. */
  areDetailsForgotten?: boolean;
  /** True once the customer closed the payment dialog on purpose: it is then offered, but does not open by itself. */
  isSetAside: boolean;
  /** The first drink, and the others if there are several. Orders stored by older versions have none. */
  ordered?: (OrderedDrink & { others?: OrderedDrink[] }) | undefined;
}

/** The drinks of an order in the order in which they were chosen; none if unknown. */
export function orderedDrinks(ordered: RememberedOrder['ordered']): OrderedDrink[] {
  if (!ordered) return [];
  const { others = [], ...first } = ordered;
  return [first, ...others];
}

/** As `RememberedOrder.ordered`. */
export function toOrdered([first, ...others]: readonly OrderedDrink[]): RememberedOrder['ordered'] {
  return first && { ...first, ...(others.length > 0 ? { others } : {}) };
}

/** The drinks in a few words, such as `2 × Mango` or `2 × Mango and 2 more drinks`. */
export function describeOrdered({ quantity, name, others = [] }: NonNullable<RememberedOrder['ordered']>) {
  const more = others.length === 1 ? '1 more drink' : `${others.length} more drinks`;
  return `${quantity} × ${name}${others.length > 0 ? ` and ${more}` : ''}`;
}

/** How many units of a product an order contains. Of an order stored by an older version only the product is known. */
export function unitsOrdered(
  { ordered, productId }: RememberedOrder,
  product: { id: string; slug: string },
): number {
  if (!ordered) return productId === product.id ? 1 : 0;
  return orderedDrinks(ordered).find(({ slug }) => slug === product.slug)?.quantity ?? 0;
}

const maxOrders = 20;

/** Calls back when the stored orders change, in this tab or another. Returns a function that stops it. */
export function onStoredOrdersChange(callback: () => void): () => void {
  const stop = onStoredElsewhere(ordersKey, callback);
  addEventListener(ordersKey, callback);
  return () => {
    removeEventListener(ordersKey, callback);
    stop();
  };
}

/** All stored orders, newest first. Unreadable data counts as none. */
export function rememberedOrders(storage = deviceStorage()): RememberedOrder[] {
  try {
    const stored: unknown = JSON.parse(storage?.getItem(ordersKey) ?? '[]');
    return Array.isArray(stored) ? stored.filter(isRememberedOrder) : [];
  } catch {
    return [];
  }
}

/** Stores an order, replacing its earlier entry. */
export function rememberOrder(order: RememberedOrder, storage = deviceStorage()): void {
  const others = rememberedOrders(storage).filter(({ orderId }) => orderId !== order.orderId);
  writeOrders([order, ...others], storage);
}

/**
 * Stores the open prompt of an order. Ignores unknown orders.
 * @param prompt null to remove it
 */
export function rememberPrompt(
  orderId: string,
  prompt: { paymentReference: string; phone: string } | null,
  storage = deviceStorage(),
): void {
  change(orderId, prompt ? { ...prompt, wasPrompted: true } : { paymentReference: null }, storage);
}

/** Stores the changed drinks of an order. */
export function rememberDrinks(
  orderId: string,
  drinks: Pick<RememberedOrder, 'ordered' | 'total' | 'discountCents'>,
  storage = deviceStorage(),
): void {
  change(orderId, drinks, storage);
}

/** Marks an order as having nothing left to pay. */
export function closePayment(orderId: string, storage = deviceStorage()): void {
  change(orderId, { isPaymentOpen: false, paymentReference: null }, storage);
}

/** Marks an order as delivered, cancelled or refunded. */
export function endOrder(orderId: string, storage = deviceStorage(), now = Date.now()): void {
  const overSince = new Date(now).toISOString();
  change(orderId, { isPaymentOpen: false, paymentReference: null, isOver: true, overSince }, storage);
}

/** Marks an order as under way again: late money paid it, or staff took back how it ended. */
export function reopenOrder(orderId: string, storage = deviceStorage()): void {
  change(orderId, { isOver: false }, storage);
}

/** The stored order with a tracking number, or null. */
export function rememberedOrder(trackingNumber: string, storage = deviceStorage()): RememberedOrder | null {
  return rememberedOrders(storage).find((order) => order.trackingNumber === trackingNumber) ?? null;
}

/** Marks that the customer closed the payment dialog, so that it does not open by itself. */
export function setPaymentAside(orderId: string, storage = deviceStorage()): void {
  change(orderId, { isSetAside: true }, storage);
}

/** For how long the state of an order is still loaded after it ended, in ms: M-PESA reports payments up to two days late. */
const mayReopenMs = 2 * 24 * 3_600_000;

/** The orders whose state is loaded: the newest one, those that are under way, and those that may be again. At most 20. */
export function ordersToLoad(storage = deviceStorage(), now = Date.now()): RememberedOrder[] {
  return rememberedOrders(storage).filter(
    ({ isOver, overSince = '' }, index) =>
      index === 0 || !isOver || now - Date.parse(overSince) < mayReopenMs,
  );
}

/**
 * The newest order of a product whose payment was interrupted, for example by a reload. The payment may have ended
 * since.
 */
export function interruptedOrderOf(productId: string, storage = deviceStorage()): RememberedOrder | null {
  return (
    rememberedOrders(storage).find(
      (order) => order.productId === productId && order.isPaymentOpen && !order.isSetAside,
    ) ?? null
  );
}

/** The orders whose details fill in another one, newest first. */
export const ordersWithDetails = (storage = deviceStorage()): RememberedOrder[] =>
  rememberedOrders(storage).filter(({ areDetailsForgotten }) => !areDetailsForgotten);

/**
 * Deletes the stored orders that are over, whose pages show the details. Those under way can still be tracked here, and fill in no
 * other order.
 */
export function forgetDetailsOfOrders(storage = deviceStorage()): void {
  writeOrders(
    rememberedOrders(storage)
      .filter(({ isOver }) => !isOver)
      .map((order) => ({ ...order, areDetailsForgotten: true })),
    storage,
  );
}

/** Deletes all stored orders. Customers can still track them by number. */
export function forgetOrders(storage = deviceStorage()): void {
  try {
    storage?.removeItem(ordersKey);
    announce();
  } catch {
    // Storage that cannot be written counts as empty.
  }
}

function change(orderId: string, changes: Partial<RememberedOrder>, storage: DeviceStorage | null): void {
  const orders = rememberedOrders(storage);
  if (!orders.some((order) => order.orderId === orderId)) return;
  writeOrders(
    orders.map((order) => (order.orderId === orderId ? { ...order, ...changes } : order)),
    storage,
  );
}

function writeOrders(orders: RememberedOrder[], storage: DeviceStorage | null): void {
  try {
    storage?.setItem(ordersKey, JSON.stringify(orders.slice(0, maxOrders)));
    announce();
  } catch {
    // Full or disabled storage must not fail an order: the order is then not stored.
  }
}

function announce(): void {
  if (typeof window !== 'undefined') window.dispatchEvent(new Event(ordersKey));
}

function isRememberedOrder(value: unknown): value is RememberedOrder {
  if (typeof value !== 'object' || value === null) return false;
  const order = value as Record<keyof RememberedOrder, unknown>;
  const texts = [
    order.orderId,
    order.trackingNumber,
    order.accessKey,
    order.productId,
    order.phone,
    order.placedAt,
  ];
  return (
    texts.every((text) => typeof text === 'string') &&
    Number.isInteger(order.total) &&
    (order.paymentReference === null || typeof order.paymentReference === 'string') &&
    typeof order.isPaymentOpen === 'boolean' &&
    typeof order.isSetAside === 'boolean' &&
    (order.wasPrompted === undefined || typeof order.wasPrompted === 'boolean') &&
    (order.isOver === undefined || typeof order.isOver === 'boolean') &&
    (order.areDetailsForgotten === undefined || typeof order.areDetailsForgotten === 'boolean') &&
    (order.overSince === undefined || typeof order.overSince === 'string') &&
    (order.ordered === undefined || isOrdered(order.ordered))
  );
}

function isOrdered(value: unknown): boolean {
  if (!isOrderedDrink(value)) return false;
  const { others } = value as { others?: unknown };
  return others === undefined || (Array.isArray(others) && others.every(isOrderedDrink));
}

function isOrderedDrink(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { slug, name, quantity } = value as Record<string, unknown>;
  return (
    typeof slug === 'string' &&
    /^[a-z0-9-]{1,200}$/.test(slug) &&
    typeof name === 'string' &&
    Number.isInteger(quantity) &&
    Number(quantity) >= 1
  );
}
