// What this device stores about the orders placed on it: enough to ask the server about them, to go on paying after a reload
// and to order again. What their state is, only the server knows.
import { ordersKey } from './stored-orders.ts';

export interface RememberedOrder {
  orderId: string;
  trackingNumber: string;
  /** Shows the order's personal data on the tracking page. */
  accessKey: string;
  productId: string;
  /** Cents. */
  total: number;
  /** The one paid with last, at first the customer's. */
  phone: string;
  /** The prompt that was sent last, null when none is known. */
  paymentReference: string | null;
  /** ISO date-time. */
  placedAt: string;
  /** False once the server reported that there is nothing left to pay. While true, only the server knows. */
  isPaymentOpen: boolean;
  /** True once the customer closed the payment dialog on purpose: it is then offered, but does not open by itself. */
  isSetAside: boolean;
  /** What was ordered, to order it again; orders from before this was kept have none. */
  ordered?: { slug: string; name: string; quantity: number };
}

/** The part of the browser's storage that is needed. */
export type DeviceStorage = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>;

const keptOrders = 20;

/** The browser's lasting storage; null on the server and where it is switched off. */
export function deviceStorage(): DeviceStorage | null {
  try {
    return typeof window === 'undefined' ? null : window.localStorage;
  } catch {
    return null;
  }
}

/** Calls back whenever what is stored changes, in this tab or another. Returns what ends it. */
export function onStoredOrdersChange(callback: () => void): () => void {
  const ended = new AbortController();
  const { signal } = ended;
  addEventListener(ordersKey, callback, { signal });
  addEventListener('storage', ({ key }) => (!key || key === ordersKey) && callback(), { signal });
  return () => ended.abort();
}

/** Every order this device remembers, newest first. Anything unreadable counts as nothing. */
export function rememberedOrders(storage = deviceStorage()): RememberedOrder[] {
  try {
    const kept: unknown = JSON.parse(storage?.getItem(ordersKey) ?? '[]');
    return Array.isArray(kept) ? kept.filter(isRememberedOrder) : [];
  } catch {
    return [];
  }
}

/** Keeps an order, in the place of what was known of it before. */
export function rememberOrder(order: RememberedOrder, storage = deviceStorage()): void {
  const others = rememberedOrders(storage).filter(({ orderId }) => orderId !== order.orderId);
  keep([order, ...others], storage);
}

/**
 * Notes which prompt is open for an order. An unknown order stays unknown.
 * @param prompt null when there is none any more
 */
export function rememberPrompt(
  orderId: string,
  prompt: { paymentReference: string; phone: string } | null,
  storage = deviceStorage(),
): void {
  change(orderId, prompt ?? { paymentReference: null }, storage);
}

/** Notes that there is nothing left to pay for an order. */
export function closePayment(orderId: string, storage = deviceStorage()): void {
  change(orderId, { isPaymentOpen: false, paymentReference: null }, storage);
}

/** What the device knows of the order with a tracking number, null when nothing. */
export function rememberedOrder(trackingNumber: string, storage = deviceStorage()): RememberedOrder | null {
  return rememberedOrders(storage).find((order) => order.trackingNumber === trackingNumber) ?? null;
}

/** Notes that the customer left the payment dialog, so that it waits to be asked for. */
export function setPaymentAside(orderId: string, storage = deviceStorage()): void {
  change(orderId, { isSetAside: true }, storage);
}

/** The orders whose state matters: the newest one, and those that may have to be paid. At most 20. */
export function ordersToAskAbout(storage = deviceStorage()): RememberedOrder[] {
  return rememberedOrders(storage).filter((order, index) => index === 0 || order.isPaymentOpen);
}

/** The newest order of a product whose payment was interrupted, by a reload for instance. It may be over by now. */
export function interruptedOrderOf(productId: string, storage = deviceStorage()): RememberedOrder | null {
  return (
    rememberedOrders(storage).find(
      (order) => order.productId === productId && order.isPaymentOpen && !order.isSetAside,
    ) ?? null
  );
}

/** Forgets every order: they can then be looked up by number like anybody's. */
export function forgetOrders(storage = deviceStorage()): void {
  try {
    storage?.removeItem(ordersKey);
    announce();
  } catch {
    // Storage that cannot be written holds nothing of ours.
  }
}

function change(orderId: string, changes: Partial<RememberedOrder>, storage: DeviceStorage | null): void {
  const orders = rememberedOrders(storage);
  if (!orders.some((order) => order.orderId === orderId)) return;
  keep(
    orders.map((order) => (order.orderId === orderId ? { ...order, ...changes } : order)),
    storage,
  );
}

function keep(orders: RememberedOrder[], storage: DeviceStorage | null): void {
  try {
    storage?.setItem(ordersKey, JSON.stringify(orders.slice(0, keptOrders)));
    announce();
  } catch {
    // A full or forbidden storage must not stop an order: it is only not remembered.
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
    (order.ordered === undefined || isOrdered(order.ordered))
  );
}

function isOrdered(value: unknown): boolean {
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
