// The state of the orders stored on this device: loaded in one request and shared by all parts of a page.
import { useEffect, useSyncExternalStore } from 'react';
import { createStore, type StoreAddress } from '../../../supabase/store.ts';
import { describeOrder, isOver, type OrderFacts, type OrderMeaning } from '../../lib/orders/order-meaning.ts';
import {
  closePayment,
  endOrder,
  interruptedOrderOf,
  onStoredOrdersChange,
  ordersToLoad,
  type RememberedOrder,
  rememberedOrders,
  reopenOrder,
} from '../../lib/orders/remembered-orders.ts';
import { readOrderFacts } from '../tracking/tracked-order.ts';

export interface OwnOrder {
  order: RememberedOrder;
  /** Null until the server has answered, or if it does not have the order. */
  meaning: OrderMeaning | null;
}

export interface OwnOrders {
  /** Newest first. */
  orders: OwnOrder[];
  /** Of the last request; `waiting` before its response. */
  answer: 'waiting' | 'answered' | 'failed' | 'offline';
}

const timeoutMs = 10_000;
/** How long a response is shown while later requests fail, in ms. */
const answerLifetimeMs = 120_000;
const unknown: OwnOrders = { orders: [], answer: 'waiting' };

let current = unknown;
let answeredAt = 0;
const factsByKey = new Map<string, OrderFacts>();
const listeners = new Set<() => void>();

/** The orders of this device. Empty during server rendering and hydration. */
export const useOwnOrders = (): OwnOrders =>
  useSyncExternalStore(
    subscribe,
    () => current,
    () => unknown,
  );

/** The orders of this device that can be paid, newest first. */
export const useUnpaidOrders = (): Known[] =>
  useOwnOrders()
    .orders.filter(isKnown)
    .filter(({ meaning }) => meaning.canPay);

interface Known extends OwnOrder {
  meaning: OrderMeaning;
}
const isKnown = (own: OwnOrder): own is Known => own.meaning !== null;

/** Neither delivered nor cancelled nor refunded, as the server has answered. */
export const isUnderWay = ({ meaning }: OwnOrder): boolean => meaning !== null && !isOver(meaning);

/** The meaning of an order's state; null if unknown. */
export function useOwnMeaning(trackingNumber: string): OrderMeaning | null {
  const { orders } = useOwnOrders();
  return orders.find(({ order }) => order.trackingNumber === trackingNumber)?.meaning ?? null;
}

/** Payments made within this time are shown again after a reload, in ms. */
const paidRecentlyMs = 1_800_000;

/**
 * The order of a product whose payment this device left open.
 * @returns null if there is none or it has ended
 */
export async function findInterruptedOrder(
  address: StoreAddress,
  productId: string,
): Promise<RememberedOrder | null> {
  const order = interruptedOrderOf(productId);
  if (!order) return null;
  await loadOrderStates(address);
  const ownOrder = current.orders.find(
    ({ order: { trackingNumber } }) => trackingNumber === order.trackingNumber,
  );
  const hasJustPaid =
    ownOrder?.meaning?.kind === 'preparing' && Date.parse(order.placedAt) > Date.now() - paidRecentlyMs;
  return ownOrder?.meaning?.canPay || hasJustPaid ? order : null;
}

let isRequested = false;
let loading: Promise<void> | null = null;

/**
 * Loads the state of the stored orders. Calls during a request result in one more request.
 * @returns after the newest response; does not throw
 */
export function loadOrderStates(address: StoreAddress): Promise<void> {
  isRequested = true;
  loading ??= (async () => {
    while (isRequested) {
      isRequested = false;
      await load(address);
    }
  })().finally(() => {
    loading = null;
  });
  return loading;
}

/** Loads the orders again and again while the page is visible. */
export function useOrderPolling(address: StoreAddress, isPolling: boolean, intervalMs: number): void {
  useEffect(() => {
    if (!isPolling) return;
    const poll = () => document.visibilityState === 'visible' && void loadOrderStates(address);
    const timer = setInterval(poll, intervalMs);
    return () => clearInterval(timer);
  }, [address, isPolling, intervalMs]);
}

async function load(address: StoreAddress): Promise<void> {
  const orders = ordersToLoad();
  if (orders.length === 0) return show('answered');
  const { data, error } = await createStore(address)
    .tables.rpc('orders_by_access_key', { access_keys: orders.map(({ accessKey }) => accessKey) })
    .abortSignal(AbortSignal.timeout(timeoutMs));
  if (error || !Array.isArray(data)) {
    if (Date.now() - answeredAt > answerLifetimeMs) factsByKey.clear();
    return show(navigator.onLine ? 'failed' : 'offline');
  }
  answeredAt = Date.now();
  for (const { trackingNumber } of orders) factsByKey.delete(trackingNumber);
  for (const answer of data) {
    const facts = readOrderFacts(answer);
    const number = (answer as { tracking_number?: unknown } | null)?.tracking_number;
    if (facts && typeof number === 'string') factsByKey.set(number, facts);
  }
  show('answered');
  for (const { order, meaning } of current.orders) {
    if (meaning && isOver(meaning) && !order.isOver) endOrder(order.orderId);
    else if (meaning && !isOver(meaning) && order.isOver) reopenOrder(order.orderId);
    else if (order.isPaymentOpen && meaning && isEnded(meaning)) closePayment(order.orderId);
  }
}

const isEnded = ({ kind }: OrderMeaning): boolean =>
  kind !== 'unpaid' && kind !== 'paying' && kind !== 'checking';

function show(answer: OwnOrders['answer']): void {
  const now = Date.now();
  current = {
    answer,
    orders: rememberedOrders().map((order) => {
      const facts = factsByKey.get(order.trackingNumber);
      return { order, meaning: facts ? describeOrder(facts, now) : null };
    }),
  };
  for (const listener of listeners) listener();
}

let stopListening = () => {};

function subscribe(listener: () => void): () => void {
  if (listeners.size === 0) {
    showStored();
    stopListening = onStoredOrdersChange(showStored);
  }
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) stopListening();
  };
}

/** Called when the stored orders change, in this tab or another. */
function showStored(): void {
  show(current.answer);
}
