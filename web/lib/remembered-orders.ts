// What this device knows of the orders placed on it: enough to go on paying after a reload and to show their details.

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
  checkoutRequestId: string | null;
  /** ISO date-times. */
  placedAt: string;
  /** Null when no units were held for it when it was placed. */
  reservedUntil: string | null;
  /** When it is cancelled unless it is paid; missing in orders stored by earlier versions. */
  expiresAt?: string;
  /** False once the payment has come to its end: paid, cancelled or given up. */
  isPaymentOpen: boolean;
  /** True once the customer closed the payment dialog on purpose: it is then offered, but does not open by itself. */
  isSetAside: boolean;
  /** What was ordered, to order it again; orders from before this was kept have none. */
  ordered?: { slug: string; name: string; quantity: number };
}

/** The part of the browser's storage that is needed. */
export type DeviceStorage = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>;

const storageKey = 'jani.orders';
const keptOrders = 20;
// The server cancels an unpaid order long before this; it only keeps stale offers from piling up on the device.
const openFor = 24 * 60 * 60 * 1000;

/** The browser's lasting storage; null on the server and where it is switched off. */
export function deviceStorage(): DeviceStorage | null {
  try {
    return typeof window === 'undefined' ? null : window.localStorage;
  } catch {
    return null;
  }
}

/** Every order this device remembers, newest first. Anything unreadable counts as nothing. */
export function rememberedOrders(storage = deviceStorage()): RememberedOrder[] {
  try {
    const kept: unknown = JSON.parse(storage?.getItem(storageKey) ?? '[]');
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
  prompt: { checkoutRequestId: string; phone: string } | null,
  storage = deviceStorage(),
): void {
  change(orderId, prompt ?? { checkoutRequestId: null }, storage);
}

/** Notes that an order needs no more paying on this device. */
export function closePayment(orderId: string, storage = deviceStorage()): void {
  change(orderId, { isPaymentOpen: false, checkoutRequestId: null }, storage);
}

/** What the device knows of the order with a tracking number, null when nothing. */
export function rememberedOrder(trackingNumber: string, storage = deviceStorage()): RememberedOrder | null {
  return rememberedOrders(storage).find((order) => order.trackingNumber === trackingNumber) ?? null;
}

/** Notes that the customer left the payment dialog, so that it waits to be asked for. */
export function setPaymentAside(orderId: string, storage = deviceStorage()): void {
  change(orderId, { isSetAside: true }, storage);
}

/**
 * The newest order of a product that was placed on this device and is neither paid nor cancelled as far as it knows.
 * @param now milliseconds since 1970
 */
export function unpaidOrderOf(
  productId: string,
  storage = deviceStorage(),
  now = Date.now(),
): RememberedOrder | null {
  return (
    rememberedOrders(storage).find(
      (order) =>
        order.productId === productId && order.isPaymentOpen && now - Date.parse(order.placedAt) < openFor,
    ) ?? null
  );
}

/**
 * The payment of a product that was interrupted, by a reload for instance: its dialog is to open again by itself.
 * @returns with a checkoutRequestId when a prompt is open, so that its outcome can be asked for; null when there is none
 */
export function pendingPaymentFor(
  productId: string,
  storage = deviceStorage(),
  now = Date.now(),
): RememberedOrder | null {
  const order = unpaidOrderOf(productId, storage, now);
  return order && !order.isSetAside ? order : null;
}

/** Forgets every order: they can then be looked up by number like anybody's. */
export function forgetOrders(storage = deviceStorage()): void {
  try {
    storage?.removeItem(storageKey);
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
    storage?.setItem(storageKey, JSON.stringify(orders.slice(0, keptOrders)));
  } catch {
    // A full or forbidden storage must not stop an order: it is only not remembered.
  }
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
    (order.checkoutRequestId === null || typeof order.checkoutRequestId === 'string') &&
    (order.reservedUntil === null || typeof order.reservedUntil === 'string') &&
    (order.expiresAt === undefined || typeof order.expiresAt === 'string') &&
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
