// Payments that this tab watches and has announced, so that each is announced once per tab, also after a reload.
import { type DeviceStorage, tabStorage } from '../../lib/browser/browser-storage.ts';
import type { RememberedOrder } from '../../lib/orders/remembered-orders.ts';

export interface FollowedPayment {
  paymentReference: string;
  orderId: string;
  trackingNumber: string;
  isReported: boolean;
}

/** Topic of the toast about an order's payment. */
export const paymentTopic = (orderId: string): string => `payment of ${orderId}`;

const storageKey = 'jani.payments';
const maxPayments = 20;

/** Adds the open prompts of the device's orders, and returns those that this tab has not announced yet. */
export function paymentsToFollow(
  orders: readonly RememberedOrder[],
  storage: DeviceStorage | null = tabStorage(),
): FollowedPayment[] {
  const followed = read(storage);
  const added = orders.flatMap(({ paymentReference, orderId, trackingNumber }) =>
    paymentReference !== null && !followed.some((payment) => payment.paymentReference === paymentReference)
      ? [{ paymentReference, orderId, trackingNumber, isReported: false }]
      : [],
  );
  if (added.length > 0) write([...added, ...followed], storage);
  return [...added, ...followed].filter(({ isReported }) => !isReported);
}

export const announcedPayments = {
  /** @returns whether it was announced for the first time */
  add(paymentReference: string, storage: DeviceStorage | null = tabStorage()): boolean {
    const followed = read(storage);
    const isFirst = !followed.some(
      (payment) => payment.paymentReference === paymentReference && payment.isReported,
    );
    write(
      [
        { paymentReference, orderId: '', trackingNumber: '', isReported: true },
        ...followed.filter((payment) => payment.paymentReference !== paymentReference),
      ],
      storage,
    );
    return isFirst;
  },
};

const openDialogs = new Map<string, number>();

/** Orders whose payment is shown in an open dialog. */
export const shownPayments = {
  /** @returns a function to call when the dialog closes */
  show(orderId: string): () => void {
    openDialogs.set(orderId, (openDialogs.get(orderId) ?? 0) + 1);
    return () => {
      const openCount = (openDialogs.get(orderId) ?? 1) - 1;
      if (openCount > 0) openDialogs.set(orderId, openCount);
      else openDialogs.delete(orderId);
    };
  },
  has: (orderId: string): boolean => openDialogs.has(orderId),
};

// Fallback without storage: a page still announces each payment once.
let withoutStorage: FollowedPayment[] = [];

function read(storage: DeviceStorage | null): FollowedPayment[] {
  try {
    if (!storage) return withoutStorage;
    const stored: unknown = JSON.parse(storage.getItem(storageKey) ?? '[]');
    return Array.isArray(stored) ? stored.filter(isFollowedPayment) : [];
  } catch {
    return withoutStorage;
  }
}

function write(payments: FollowedPayment[], storage: DeviceStorage | null): void {
  withoutStorage = payments.slice(0, maxPayments);
  try {
    storage?.setItem(storageKey, JSON.stringify(withoutStorage));
  } catch {
    // Then `read` returns the fallback.
  }
}

function isFollowedPayment(value: unknown): value is FollowedPayment {
  if (typeof value !== 'object' || value === null) return false;
  const { paymentReference, orderId, trackingNumber, isReported } = value as Record<string, unknown>;
  return (
    [paymentReference, orderId, trackingNumber].every((text) => typeof text === 'string') &&
    typeof isReported === 'boolean'
  );
}
