import { expect, test } from 'vitest';
import { createStore } from '../../lib/store.ts';
import { lookUpOrder, readTrackedOrder, type TrackedOrder, withLookUp, withNews } from './tracked-order.ts';

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

const asking = async (respond: () => Response | Promise<Response>) => {
  const asked: unknown[] = [];
  const { tables } = createStore(
    { url: 'http://shop.test', key: 'key' },
    {
      fetch: async (_url, init) => {
        asked.push(JSON.parse(String(init?.body)));
        return respond();
      },
    },
  );
  return { outcome: await lookUpOrder(tables, 'JJ-20261121-1234', { accessKey: 'secret' }), asked };
};

test('an order is found, and asked for with its proof', async () => {
  const { outcome, asked } = await asking(() => Response.json(answer));
  expect(outcome).toEqual({ kind: 'found', order });
  expect(asked).toEqual([
    { tracking_number: 'JJ-20261121-1234', access_key: 'secret', phone_last_four: null },
  ]);
});

test('no order is missing; a refusal is told in its words, a broken connection in the general ones', async () => {
  expect((await asking(() => Response.json(null))).outcome).toEqual({ kind: 'missing' });
  const refusal = { code: 'PT429', message: 'Too many look-ups', details: 'too_many_lookups', hint: '' };
  expect((await asking(() => Response.json(refusal, { status: 429 }))).outcome).toEqual({
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
    expect((await asking(respond)).outcome).toEqual({
      kind: 'failed',
      message: 'Failed to fetch order details',
      isLimited: false,
    });
  }
});

test('an item whose product is gone is called Product', () =>
  expect(
    readTrackedOrder({ ...answer, order_items: [{ id: 'i', quantity: 2, unit_price: 5, product: null }] })
      ?.details?.items,
  ).toEqual([
    { id: 'i', quantity: 2, unitPrice: 5, name: 'Product', imageUrl: null, category: null, slug: null },
  ]));

test('what is not said to be open counts as masked', () =>
  expect(readTrackedOrder({ ...answer, is_masked: undefined })?.isMasked).toBe(true));

test('a masked order has neither what paying needs nor what opens it', () =>
  expect(masked).toMatchObject({ id: null, accessKey: null, liveHandle: 'handle-1' }));

test('an old order is read without its details', () => {
  const { created_at: _, total_amount: __, order_items: ___, ...old } = shownToAll;
  expect(readTrackedOrder({ ...old, is_masked: true })).toMatchObject({ status: 'pending', details: null });
});

const news = { status: 'delivered', payment_status: 'paid', updated_at: '2026-11-21T10:00:00Z' };

test('news change the states and nothing else', () =>
  expect(withNews(order, news)).toEqual({
    ...order,
    status: 'delivered',
    paymentStatus: 'paid',
    updatedAt: news.updated_at,
  }));

test('news from before what is shown change nothing', () =>
  expect(withNews(order, { ...news, updated_at: '2026-11-21T08:59:59Z' })).toBe(order));

test('personal data that is shown does not hide again', () => {
  const later = { ...masked, status: 'processing', updatedAt: '2026-11-21T10:00:00Z' };
  expect(withLookUp(order, later)).toMatchObject({ status: 'processing', id: 'order-1' });
  expect(nameOf(withLookUp(order, later))).toBe('Amina Otieno');
  expect(withLookUp(masked, order)).toEqual(order);
});

test('that a payment is looked at reaches an open page, masked or not, and is over with it', () => {
  const checked = readTrackedOrder({ ...answer, payment_check: 'review' }) as TrackedOrder;
  expect(checked.paymentCheck).toBe('review');
  expect(withLookUp(order, { ...masked, paymentCheck: 'review' })).toEqual(checked);
  expect(withLookUp(checked, order).paymentCheck).toBeNull();
  expect(readTrackedOrder({ ...answer, payment_check: 'something new' })?.paymentCheck).toBeNull();
});

test('a look-up from before the last news reveals without turning back the clock', () => {
  const shown = withNews(masked, news);
  expect(withLookUp(shown, order)).toMatchObject({ status: 'delivered', isMasked: false });
  expect(nameOf(withLookUp(shown, order))).toBe('Amina Otieno');
});

test('another order takes the place of the shown one', () => {
  const other = { ...masked, trackingNumber: 'JJ-20261121-9999' };
  expect(withLookUp(order, other)).toBe(other);
});
