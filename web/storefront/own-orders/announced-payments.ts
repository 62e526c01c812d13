// Which payments this tab follows and has reported, so that each is reported once per tab, also after a reload.
import type { DeviceStorage, RememberedOrder } from '../../lib/remembered-orders.ts';
import { tabStorage } from '../order/order-memory.ts';

export interface FollowedPayment {
  paymentReference: string;
  orderId: string;
  trackingNumber: string;
  isReported: boolean;
}

const storageKey = 'jani.payments';
const mostPayments = 20;

/** Takes in the prompts that the device's orders wait for, and returns those this tab has not reported yet. */
export function paymentsToFollow(
  orders: readonly RememberedOrder[],
  storage: DeviceStorage | null = tabStorage(),
): FollowedPayment[] {
  const known = read(storage);
  const added = orders.flatMap(({ paymentReference, orderId, trackingNumber }) =>
    paymentReference !== null && !known.some((payment) => payment.paymentReference === paymentReference)
      ? [{ paymentReference, orderId, trackingNumber, isReported: false }]
      : [],
  );
  if (added.length > 0) write([...added, ...known], storage);
  return [...added, ...known].filter(({ isReported }) => !isReported);
}

export const announcedPayments = {
  /** @returns whether it was reported for the first time */
  add(paymentReference: string, storage: DeviceStorage | null = tabStorage()): boolean {
    const known = read(storage);
    const isFirst = !known.some(
      (payment) => payment.paymentReference === paymentReference && payment.isReported,
    );
    write(
      [
        { paymentReference, orderId: '', trackingNumber: '', isReported: true },
        ...known.filter((payment) => payment.paymentReference !== paymentReference),
      ],
      storage,
    );
    return isFirst;
  },
};

const shown = new Map<string, number>();

/** Orders whose payment an open dialog shows. */
export const shownPayments = {
  /** @returns a function that stops it */
  show(orderId: string): () => void {
    shown.set(orderId, (shown.get(orderId) ?? 0) + 1);
    return () => {
      const left = (shown.get(orderId) ?? 1) - 1;
      if (left > 0) shown.set(orderId, left);
      else shown.delete(orderId);
    };
  },
  has: (orderId: string): boolean => shown.has(orderId),
};

// Without storage one page still reports each payment once.
let withoutStorage: FollowedPayment[] = [];

function read(storage: DeviceStorage | null): FollowedPayment[] {
  try {
    if (!storage) return withoutStorage;
    const kept: unknown = JSON.parse(storage.getItem(storageKey) ?? '[]');
    return Array.isArray(kept) ? kept.filter(isFollowedPayment) : [];
  } catch {
    return withoutStorage;
  }
}

function write(payments: FollowedPayment[], storage: DeviceStorage | null): void {
  withoutStorage = payments.slice(0, mostPayments);
  try {
    storage?.setItem(storageKey, JSON.stringify(withoutStorage));
  } catch {
    // Read from memory then.
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
