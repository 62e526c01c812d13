import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { forgetOrders, rememberedOrders, rememberOrder } from '../../lib/orders/remembered-orders.ts';
import { findInterruptedOrder, loadOrderStates } from './order-states.ts';

const shop = { url: 'https://jani.example', key: 'publishable' };
const order = {
  orderId: 'order-1',
  trackingNumber: 'JJ-20261121-1001',
  accessKey: 'key-1',
  productId: 'mango',
  total: 95_100,
  phone: '+254712345678',
  paymentReference: null,
  placedAt: '2026-11-21T09:00:00.000Z',
  isPaymentOpen: true,
  isSetAside: false,
};
let answer: () => Response;
let asked: string[] = [];

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.parse('2026-11-21T09:01:00Z') });
  const stored = new Map<string, string>();
  vi.stubGlobal('window', {
    localStorage: {
      getItem: (key: string) => stored.get(key) ?? null,
      setItem: (key: string, value: string) => void stored.set(key, value),
      removeItem: (key: string) => void stored.delete(key),
    },
    dispatchEvent: () => true,
  });
  vi.stubGlobal('navigator', { onLine: true });
  vi.stubGlobal('fetch', async (_: unknown, init?: RequestInit) => {
    asked = JSON.parse(String(init?.body)).access_keys;
    return answer();
  });
  rememberOrder(order);
});
afterEach(() => {
  forgetOrders();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

const find = async () => (await findInterruptedOrder(shop, 'mango'))?.orderId;
const unpaid = { tracking_number: order.trackingNumber, status: 'pending', payment_status: 'unpaid' };

test('the state of an order stays known for two minutes while the shop does not answer', async () => {
  answer = () => Response.json([unpaid]);
  expect(await find()).toBe('order-1');
  answer = () => Response.json({ message: 'unavailable' }, { status: 503 });
  vi.setSystemTime('2026-11-21T09:02:59Z');
  expect(await find()).toBe('order-1');
  vi.setSystemTime('2026-11-21T09:03:01Z');
  expect(await find()).toBeUndefined();
});

test('an order that was cancelled in the meantime is not paid further', async () => {
  answer = () => Response.json([{ ...unpaid, status: 'cancelled' }]);
  expect(await find()).toBeUndefined();
});

test('an order that ended comes back when it is under way again', async () => {
  const later = { ...order, orderId: 'order-2', trackingNumber: 'JJ-20261121-1002', accessKey: 'key-2' };
  rememberOrder(later);
  const paid = { ...unpaid, status: 'processing', payment_status: 'paid' };
  const second = { ...paid, tracking_number: later.trackingNumber };
  const ended = () => rememberedOrders().flatMap(({ orderId, isOver }) => (isOver ? [orderId] : []));
  answer = () => Response.json([second, { ...unpaid, status: 'cancelled' }]);
  await loadOrderStates(shop);
  expect(ended()).toEqual(['order-1']);
  answer = () => Response.json([second, paid]);
  vi.setSystemTime('2026-11-22T09:00:00Z');
  await loadOrderStates(shop);
  expect(asked).toEqual(['key-2', 'key-1']);
  expect(ended()).toEqual([]);
});
