import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { forgetOrders, rememberOrder } from '../../lib/orders/remembered-orders.ts';
import { findInterruptedOrder } from './order-states.ts';

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
  vi.stubGlobal('fetch', async () => answer());
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
