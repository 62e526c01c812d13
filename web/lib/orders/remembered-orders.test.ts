import { beforeEach, expect, test } from 'vitest';
import type { DeviceStorage } from '../browser/browser-storage.ts';
import {
  closePayment,
  describeOrdered,
  endOrder,
  forgetDetailsOfOrders,
  forgetOrders,
  interruptedOrderOf,
  orderedDrinks,
  ordersToLoad,
  ordersWithDetails,
  type RememberedOrder,
  rememberDrinks,
  rememberedOrder,
  rememberedOrders,
  rememberOrder,
  rememberPrompt,
  reopenOrder,
  setPaymentAside,
  toOrdered,
  unitsOrdered,
} from './remembered-orders.ts';

let stored: Map<string, string>;
let storage: DeviceStorage;
beforeEach(() => {
  stored = new Map();
  storage = {
    getItem: (key) => stored.get(key) ?? null,
    setItem: (key, value) => void stored.set(key, value),
    removeItem: (key) => void stored.delete(key),
  };
});

const placedAt = '2026-11-21T09:00:00.000Z';
const order = (number: number, changes: Partial<RememberedOrder> = {}): RememberedOrder => ({
  orderId: `order-${number}`,
  trackingNumber: `JJ-20261121-${1000 + number}`,
  accessKey: `key-${number}`,
  productId: 'mango',
  total: 95100,
  phone: '+254712345678',
  paymentReference: null,
  placedAt,
  isPaymentOpen: true,
  isSetAside: false,
  ...changes,
});

test('finds an order by its tracking number', () => {
  rememberOrder(order(1), storage);
  rememberOrder(order(2), storage);
  expect(rememberedOrder('JJ-20261121-1001', storage)?.accessKey).toBe('key-1');
  expect(rememberedOrder('JJ-20261121-9999', storage)).toBeNull();
});

test('storing an order again replaces it', () => {
  rememberOrder(order(1), storage);
  rememberOrder(order(1, { phone: '+254112345678' }), storage);
  expect(rememberedOrders(storage).map(({ phone }) => phone)).toEqual(['+254112345678']);
});

test('stores only the twenty newest', () => {
  for (let number = 1; number <= 25; number += 1) rememberOrder(order(number), storage);
  const numbers = rememberedOrders(storage).map(({ orderId }) => orderId);
  expect([numbers.length, numbers[0], numbers.at(-1)]).toEqual([20, 'order-25', 'order-6']);
});

test('finds the newest interrupted payment of a product, with its prompt', () => {
  rememberOrder(order(1), storage);
  rememberOrder(order(2, { productId: 'passion' }), storage);
  rememberOrder(order(3), storage);
  rememberPrompt('order-3', { paymentReference: 'ws_CO_1', phone: '0112345678' }, storage);
  expect(interruptedOrderOf('mango', storage)).toMatchObject({
    orderId: 'order-3',
    paymentReference: 'ws_CO_1',
    phone: '0112345678',
  });
  expect(interruptedOrderOf('hibiscus', storage)).toBeNull();
  rememberPrompt('order-3', null, storage);
  expect(interruptedOrderOf('mango', storage)?.paymentReference).toBeNull();
});

test('a closed payment is not interrupted, but its order is stored', () => {
  rememberOrder(order(1, { paymentReference: 'ws_CO_1' }), storage);
  closePayment('order-1', storage);
  expect(interruptedOrderOf('mango', storage)).toBeNull();
  expect(rememberedOrder('JJ-20261121-1001', storage)?.accessKey).toBe('key-1');
});

test('a payment that the customer closed does not resume by itself, but its state is loaded', () => {
  rememberOrder(order(1), storage);
  setPaymentAside('order-1', storage);
  rememberOrder(order(2), storage);
  closePayment('order-2', storage);
  rememberOrder(order(3), storage);
  closePayment('order-3', storage);
  expect(interruptedOrderOf('mango', storage)).toBeNull();
  expect(ordersToLoad(storage).map(({ orderId }) => orderId)).toEqual(['order-3', 'order-2', 'order-1']);
});

test('loads every order under way and the newest one, paid or not', () => {
  for (const number of [1, 2, 3, 4]) rememberOrder(order(number), storage);
  closePayment('order-2', storage);
  const endedAt = Date.parse(placedAt);
  endOrder('order-3', storage, endedAt);
  endOrder('order-4', storage, endedAt);
  const idsAt = (now: number) => ordersToLoad(storage, now).map(({ orderId }) => orderId);
  const twoDays = 2 * 86_400_000;
  expect(idsAt(endedAt + twoDays)).toEqual(['order-4', 'order-2', 'order-1']);
  // Late money may pay it, and staff may take back how it ended.
  expect(idsAt(endedAt + twoDays - 1)).toEqual(['order-4', 'order-3', 'order-2', 'order-1']);
  reopenOrder('order-3', storage);
  expect(idsAt(endedAt + twoDays)).toEqual(['order-4', 'order-3', 'order-2', 'order-1']);
});

test('does not load an order that an earlier version stored as ended', () => {
  rememberOrder(order(1, { isOver: true }), storage);
  rememberOrder(order(2), storage);
  expect(ordersToLoad(storage).map(({ orderId }) => orderId)).toEqual(['order-2']);
});

test('reads the format of earlier versions', () => {
  stored.set('jani.orders', JSON.stringify([{ ...order(1), reservedUntil: placedAt, expiresAt: placedAt }]));
  expect(rememberedOrders(storage)).toHaveLength(1);
});

test('a change of an unknown order does nothing', () => {
  rememberPrompt('order-1', { paymentReference: 'ws_CO_1', phone: '0112345678' }, storage);
  closePayment('order-1', storage);
  expect(stored.size).toBe(0);
});

test.each(['', 'no json', '{"orderId":"x"}', '[null, 1, {"orderId":"x"}]'])(
  'unreadable storage (%j) counts as empty',
  (text) => {
    stored.set('jani.orders', text);
    expect(rememberedOrders(storage)).toEqual([]);
  },
);

test('deleting leaves no data', () => {
  rememberOrder(order(1), storage);
  forgetOrders(storage);
  expect(stored.size).toBe(0);
});

test('orders under way whose details are forgotten are tracked, and fill in no other order', () => {
  rememberOrder(order(1), storage);
  rememberOrder(order(3), storage);
  endOrder('order-3', storage);
  forgetDetailsOfOrders(storage);
  expect(rememberedOrder('JJ-20261121-1003', storage)).toBeNull();
  rememberOrder(order(2), storage);
  endOrder('order-1', storage);
  expect(ordersWithDetails(storage).map(({ orderId }) => orderId)).toEqual(['order-2']);
  expect(rememberedOrder('JJ-20261121-1001', storage)?.accessKey).toBe('key-1');
});

test('works without storage', () => {
  const refusing: DeviceStorage = {
    getItem: () => {
      throw new Error('denied');
    },
    setItem: () => {
      throw new Error('full');
    },
    removeItem: () => {
      throw new Error('denied');
    },
  };
  for (const broken of [refusing, null]) {
    rememberOrder(order(1), broken);
    forgetOrders(broken);
    expect(rememberedOrders(broken)).toEqual([]);
  }
});

test('stores the further drinks of an order, and keeps orders of earlier versions', () => {
  const mango = { slug: 'mango', name: 'Mango', quantity: 2 };
  const ginger = { slug: 'ginger', name: 'Ginger', quantity: 1 };
  const ordered = toOrdered([mango, ginger]);
  rememberOrder(order(1), storage);
  rememberOrder(order(2, { ordered: mango }), storage);
  rememberOrder(order(3, { ordered }), storage);
  const [several, one, unknown] = rememberedOrders(storage);
  expect(orderedDrinks(several?.ordered)).toEqual([mango, ginger]);
  expect(orderedDrinks(one?.ordered)).toEqual([mango]);
  expect(orderedDrinks(unknown?.ordered)).toEqual([]);
  expect(describeOrdered({ ...mango })).toBe('2 × Mango');
  expect(describeOrdered({ ...mango, others: [ginger] })).toBe('2 × Mango and 1 more drink');
  expect(describeOrdered({ ...mango, others: [ginger, mango] })).toBe('2 × Mango and 2 more drinks');
  expect(toOrdered([])).toBeUndefined();
  // Another value in its place: the order cannot be trusted.
  rememberOrder(order(4, { ordered: { ...mango, others: [{ ...ginger, slug: '../admin' }] } }), storage);
  expect(rememberedOrder('JJ-20261121-1004', storage)).toBeNull();
});

test('knows the units of a product in each stored order', () => {
  const ordered = toOrdered([
    { slug: 'mango', name: 'Mango', quantity: 2 },
    { slug: 'ginger', name: 'Ginger', quantity: 3 },
  ]);
  expect(unitsOrdered(order(1, { ordered }), { id: 'another', slug: 'ginger' })).toBe(3);
  expect(unitsOrdered(order(1, { ordered }), { id: 'mango', slug: 'hibiscus' })).toBe(0);
  expect(unitsOrdered(order(1), { id: 'mango', slug: 'mango' })).toBe(1);
});

test('changed drinks replace the stored ones, and a prompt is remembered once it was sent', () => {
  rememberOrder(order(1, { ordered: { slug: 'mango', name: 'Mango', quantity: 1 } }), storage);
  const ordered = toOrdered([{ slug: 'ginger', name: 'Ginger', quantity: 1 }]);
  rememberDrinks('order-1', { ordered, total: 200_100 }, storage);
  expect(rememberedOrders(storage)).toMatchObject([{ ordered: { slug: 'ginger' }, total: 200_100 }]);
  rememberPrompt('order-1', { paymentReference: 'ws_1', phone: '0712345678' }, storage);
  rememberPrompt('order-1', null, storage);
  expect(rememberedOrders(storage)).toMatchObject([{ paymentReference: null, wasPrompted: true }]);
});
