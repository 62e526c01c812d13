import { expect, test } from 'vitest';
import { createStore } from '../../../supabase/store.ts';
import { lookUpOrder, readTrackedOrder, type TrackedOrder, withLookup } from './tracked-order.ts';

const answer = {
  id: 'order-1',
  access_key: 'secret',
  live_handle: 'handle-1',
  tracking_number: 'JJ-20261121-1234',
  status: 'pending',
  payment_status: 'unpaid',
  delivery_fee: 100,
  total_amount: 95100,
  created_at: '2026-11-21T09:00:00Z',
  updated_at: '2026-11-21T09:00:00Z',
  is_masked: false,
  customer_name: 'Amina Otieno',
  customer_phone: '+254712345678',
  shipping_address: 'Westlands',
  delivery_notes: null,
  order_items: [
    {
      id: 'item-1',
      quantity: 1,
      unit_price: 95000,
      product: {
        name: 'Embu Fresh Mango',
        image_url: '/art/x.webp',
        category: 'Mango',
        slug: 'mango-bottle',
      },
    },
  ],
};
const order = readTrackedOrder(answer) as TrackedOrder;
const { id: _, access_key: __, shipping_address: ___, delivery_notes: ____, ...shownToAll } = answer;
const masked = readTrackedOrder({
  ...shownToAll,
  is_masked: true,
  customer_name: 'A••• O•••',
  customer_phone: '0712 ••• •••',
}) as TrackedOrder;
const nameOf = (shown: TrackedOrder) => shown.details?.customerName;

const lookUp = async (respond: () => Response | Promise<Response>) => {
  const requests: unknown[] = [];
  const { tables } = createStore(
    { url: 'http://shop.test', key: 'key' },
    {
      fetch: async (_url, init) => {
        requests.push(JSON.parse(String(init?.body)));
        return respond();
      },
    },
  );
  return { outcome: await lookUpOrder(tables, 'JJ-20261121-1234', { accessKey: 'secret' }), requests };
};

test('finds an order, and sends the proof', async () => {
  const { outcome, requests } = await lookUp(() => Response.json(answer));
  expect(outcome).toEqual({ kind: 'found', order });
  expect(requests).toEqual([
    { tracking_number: 'JJ-20261121-1234', access_key: 'secret', phone_last_four: null },
  ]);
});

test('distinguishes a missing order, a refusal and a broken connection', async () => {
  expect((await lookUp(() => Response.json(null))).outcome).toEqual({ kind: 'missing' });
  const refusal = { code: 'PT429', message: 'Too many look-ups', details: 'too_many_lookups', hint: '' };
  expect((await lookUp(() => Response.json(refusal, { status: 429 }))).outcome).toEqual({
    kind: 'failed',
    message: 'Too many look-ups',
    isLimited: true,
  });
  const withoutDatabase = {
    code: 'PGRST000',
    message: 'Database connection error.',
    details: null,
    hint: null,
  };
  for (const respond of [
    () => Promise.reject(new TypeError('fetch failed')),
    () => Response.json({}),
    () => Response.json(withoutDatabase, { status: 503 }),
  ]) {
    expect((await lookUp(respond)).outcome).toEqual({
      kind: 'failed',
      message: 'Failed to fetch order details',
      isLimited: false,
    });
  }
});

test('an item without a product is named Product', () =>
  expect(
    readTrackedOrder({ ...answer, order_items: [{ id: 'i', quantity: 2, unit_price: 5, product: null }] })
      ?.details?.items,
  ).toEqual([
    { id: 'i', quantity: 2, unitPrice: 5, name: 'Product', imageUrl: null, category: null, slug: null },
  ]));

test('an order counts as masked by default', () =>
  expect(readTrackedOrder({ ...answer, is_masked: undefined })?.isMasked).toBe(true));

test('a masked order has neither id nor access key', () =>
  expect(masked).toMatchObject({ id: null, accessKey: null, liveHandle: 'handle-1' }));

test('an old masked order has no details', () => {
  const { created_at: _, total_amount: __, order_items: ___, ...old } = shownToAll;
  expect(readTrackedOrder({ ...old, is_masked: true })).toMatchObject({ status: 'pending', details: null });
});

const delivered = {
  status: 'delivered',
  paymentStatus: 'paid',
  updatedAt: '2026-11-21T10:00:00Z',
} as const;

test('a masked lookup changes the states and reveals nothing', () => {
  expect(withLookup(order, { ...masked, ...delivered })).toEqual({ ...order, ...delivered });
  expect(withLookup(masked, order)).toEqual(order);
});

test('the states of a lookup that is older than the shown order are ignored', () =>
  expect(withLookup(order, { ...masked, ...delivered, updatedAt: '2026-11-21T08:59:59Z' })).toEqual(order));

test('a payment review appears on and disappears from an open page, masked or not', () => {
  const checked = readTrackedOrder({ ...answer, payment_check: 'review' }) as TrackedOrder;
  expect(checked.paymentCheck).toBe('review');
  expect(withLookup(order, { ...masked, paymentCheck: 'review' })).toEqual(checked);
  expect(withLookup(checked, order).paymentCheck).toBeNull();
  expect(readTrackedOrder({ ...answer, payment_check: 'something new' })?.paymentCheck).toBeNull();
});

test('an older lookup reveals the details without reverting the state', () => {
  const shown = { ...masked, ...delivered };
  expect(withLookup(shown, order)).toMatchObject({ status: 'delivered', isMasked: false });
  expect(nameOf(withLookup(shown, order))).toBe('Amina Otieno');
});

test('another order replaces the shown one', () => {
  const other = { ...masked, trackingNumber: 'JJ-20261121-9999' };
  expect(withLookup(order, other)).toBe(other);
});

test('reads how an order can be cancelled, and what became of a request', () => {
  expect(order).toMatchObject({ wayToCancel: null, isCancelRequested: false, cancelAnswer: null });
  expect(
    readTrackedOrder({ ...answer, way_to_cancel: 'at_once', cancelled_because: 'by_customer' }),
  ).toMatchObject({ wayToCancel: 'at_once', cancelledBecause: 'by_customer' });
  // A way of a later version is not offered.
  expect(readTrackedOrder({ ...answer, way_to_cancel: 'by_mail' })).toMatchObject({ wayToCancel: null });
  const asked = readTrackedOrder({ ...answer, cancel_requested: true }) as TrackedOrder;
  expect(asked).toMatchObject({ isCancelRequested: true });
  expect(withLookup(order, { ...masked, isCancelRequested: true })).toMatchObject({
    isCancelRequested: true,
  });
});

test('reads times of steps, the promise, the rider and the rating, and nothing from other values', () => {
  const full = readTrackedOrder({
    ...answer,
    promised_at: '2026-11-21T10:00:00Z',
    promised_again_at: '2026-11-21T10:20:00Z',
    arrives_at: '2026-11-21T10:10:00Z',
    steps: { paid_at: '2026-11-21T09:05:00Z' },
    rider: { first_name: 'Brian', plate: 'KMEH 123A', phone: '+254711000001' },
    rating: { stars: 4, words: null },
    may_rate: true,
  });
  expect(full).toMatchObject({
    arrivesBy: '2026-11-21T10:20:00Z',
    promise: { first: '2026-11-21T10:00:00Z', again: '2026-11-21T10:20:00Z', atDoor: '2026-11-21T10:10:00Z' },
    steps: { paidAt: '2026-11-21T09:05:00Z', pickedUpAt: null, deliveredAt: null },
    rider: { firstName: 'Brian', plate: 'KMEH 123A', phone: '+254711000001' },
    rating: { stars: 4, words: null },
    mayRate: true,
  });
  for (const value of [null, 'text', 4, [], { stars: 'many', first_name: 3 }]) {
    expect(readTrackedOrder({ ...answer, steps: value, rider: value, rating: value })).toMatchObject({
      steps: { paidAt: null, pickedUpAt: null, deliveredAt: null },
      rider: null,
      rating: null,
      mayRate: false,
    });
  }
});

test('takes promise and steps from a lookup without proof, and keeps what was revealed', () => {
  const revealed = readTrackedOrder({
    ...answer,
    rating: { stars: 4, words: null },
    may_rate: true,
  }) as TrackedOrder;
  const found = { ...masked, steps: { ...masked.steps, paidAt: '2026-11-21T09:05:00Z' } };
  expect(withLookup(revealed, found)).toMatchObject({
    steps: found.steps,
    rating: { stars: 4, words: null },
  });
});
