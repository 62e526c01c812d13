import { expect, test, vi } from 'vitest';
import { createStore } from '../../../../supabase/store.ts';
import {
  changeDrinks,
  type OrderRequest,
  orderContent,
  placeOrder,
  placeSameOrder,
  problemsOf,
} from './place-order.ts';

const mango = {
  productId: 'a0000000-0000-4000-8000-000000000001',
  name: 'Mango Bottle',
  quantity: 2,
  price: 95_000,
};
const ginger = {
  productId: 'a0000000-0000-4000-8000-000000000002',
  name: 'Ginger Can',
  quantity: 1,
  price: 50_000,
};
const request: OrderRequest = {
  drinks: [mango],
  deliveryFee: 100,
  form: {
    name: 'Amina Otieno',
    email: 'amina@example.com',
    phone: '0712345678',
    location: 'Westlands',
    building: '',
    unit: '4B',
    notes: 'Blue gate\r\ncall on arrival',
    areaId: '',
    mapPoint: '',
  },
  acceptsTerms: true,
};

const storeAnswering = (answer: () => Response | Promise<Response>) => {
  const requests: { url: string; body: Record<string, unknown> }[] = [];
  const { tables } = createStore(
    { url: 'http://shop.test', key: 'key' },
    {
      fetch: async (url, init) => {
        requests.push({ url: String(url), body: JSON.parse(String(init?.body)) });
        return answer();
      },
    },
  );
  return { tables, requests };
};
const place = async (answer: () => Response | Promise<Response>, change: Partial<OrderRequest> = {}) => {
  const { tables, requests } = storeAnswering(answer);
  return { outcome: await placeOrder(tables, { ...request, ...change }, 'the-key'), requests };
};
const refusing = (status: number, body: object) => () => Response.json(body, { status });

const placed = () =>
  Response.json({
    id: 'order-1',
    tracking_number: 'JJ-20261121-1234',
    access_key: 'secret',
    total_amount: 190100,
    customer_phone: '+254712345678',
    reserved_until: null,
    expires_at: '2026-11-21T09:15:00Z',
    created_at: '2026-11-21T09:00:00Z',
  });

test('sends the order with its key and the shown total, and stores it as placed', async () => {
  const { outcome, requests } = await place(placed);
  expect(outcome).toMatchObject({
    isPlaced: true,
    order: {
      orderId: 'order-1',
      trackingNumber: 'JJ-20261121-1234',
      accessKey: 'secret',
      total: 190100,
      phone: '+254712345678',
      paymentReference: null,
      isPaymentOpen: true,
    },
  });
  expect(requests).toMatchObject([
    {
      url: 'http://shop.test/rest/v1/rpc/place_order',
      body: {
        idempotency_key: 'the-key',
        product_id: mango.productId,
        quantity: 2,
        expected_total: 190100,
        building: null,
        unit: '4B',
        accepts_terms: true,
        delivery_notes: 'Blue gate\ncall on arrival',
      },
    },
  ]);
});

test('sends several drinks as one list, with the total of all and one fee', async () => {
  const { requests } = await place(placed, { drinks: [mango, ginger] });
  expect(requests[0]?.body).toMatchObject({
    items: [
      { product_id: mango.productId, quantity: 2 },
      { product_id: ginger.productId, quantity: 1 },
    ],
    expected_total: 240_100,
  });
  expect(requests[0]?.body).not.toHaveProperty('quantity');
});

const discount = { code: 'JANI10', percent: 10, amount_cents: null, minimum_cents: 0 };

test('sends the discount code with the total without its discount', async () => {
  const { requests } = await place(placed, { drinks: [mango, ginger], discount });
  expect(requests[0]?.body).toMatchObject({ discount_code: 'JANI10', expected_total: 240_100 - 24_000 });
  const { requests: plain } = await place(placed);
  // Earlier versions of the database have no such argument.
  expect(plain[0]?.body).not.toHaveProperty('discount_code');
});

test('a refused code is a problem of its field', async () => {
  const message = 'This discount code is not valid, or it has ended';
  const refusal = { code: 'PT409', details: 'discount_invalid', message, hint: '' };
  const { outcome } = await place(refusing(409, refusal), { discount });
  expect(outcome).toMatchObject({ failure: { field: 'discountCode' } });
  expect(outcome.isPlaced ? [] : problemsOf(outcome.failure)).toEqual([
    { field: 'discountCode', text: 'This discount code is not valid, or it has ended' },
  ]);
});

test('the same order with another code is another order', () => {
  const contents = [
    request,
    { ...request, discount },
    { ...request, discount: { ...discount, code: 'OTHER' } },
  ];
  expect(new Set(contents.map(orderContent)).size).toBe(3);
});

test('a refusal says what is left of each drink', async () => {
  const items = [
    { product_id: mango.productId, price: 95_000, units_left: 1 },
    { product_id: ginger.productId, price: null, units_left: null },
  ];
  const body = {
    code: 'PT409',
    message: 'Only 1 left in stock of Mango Bottle',
    details: 'not_enough_stock',
    hint: '1',
    product_id: mango.productId,
    quote: { delivery_fee: 100, total: 190_100, items },
  };
  expect((await place(refusing(409, body), { drinks: [mango, ginger] })).outcome).toMatchObject({
    failure: {
      kind: 'not_enough_stock',
      left: 1,
      stock: {
        [mango.productId]: { unitsLeft: 1, isOff: false },
        [ginger.productId]: { unitsLeft: 0, isOff: true },
      },
      text: 'Failed to create order item: Only 1 left in stock of Mango Bottle',
    },
  });
});

test('changes the drinks of an order with its access key, and reports why it cannot', async () => {
  const order = { orderId: 'order-1', accessKey: 'secret' };
  const { tables, requests } = storeAnswering(placed);
  expect(await changeDrinks(tables, order, [mango, ginger], 300)).toMatchObject({
    isPlaced: true,
    order: { orderId: 'order-1', total: 190_100 },
  });
  expect(requests).toEqual([
    {
      url: 'http://shop.test/rest/v1/rpc/change_order_items',
      body: {
        order_id: 'order-1',
        access_key: 'secret',
        items: [
          { product_id: mango.productId, quantity: 2 },
          { product_id: ginger.productId, quantity: 1 },
        ],
        expected_total: 240_300,
      },
    },
  ]);
  const begun = { code: 'PT409', message: 'A payment has begun', details: 'payment_begun', hint: '' };
  expect(await changeDrinks(storeAnswering(refusing(409, begun)).tables, order, [mango], 300)).toMatchObject({
    isPlaced: false,
    failure: { kind: 'fixed', reason: 'A payment has begun' },
  });
});

test('a changed total is returned with what changed and the current amounts', async () => {
  const body = { code: 'PT409', message: 'The price has changed', details: 'total_changed', hint: '200100' };
  const quote = { price: 100_000, delivery_fee: 100, total: 200_100, units_left: 9 };
  const now = { prices: { [mango.productId]: 100_000 }, deliveryFee: 100, total: 200_100 };
  expect((await place(refusing(409, { ...body, quote }))).outcome).toEqual({
    isPlaced: false,
    failure: {
      kind: 'total_changed',
      changes: ['One is now KSh 1,000.00 (it was KSh 950.00).'],
      now,
      stock: { [mango.productId]: { unitsLeft: 9, isOff: false } },
      text: 'Failed to create order item: The price has changed',
      field: null,
    },
  });
  // Earlier versions of the database return the new total only.
  expect((await place(refusing(409, body))).outcome).toMatchObject({
    failure: {
      kind: 'total_changed',
      changes: [],
      now: { prices: { [mango.productId]: 95_000 }, deliveryFee: 10_100, total: 200_100 },
    },
  });
});

test('a drink that is no longer sold is a distinct failure', async () => {
  const body = { code: 'PT404', message: 'This product is not available', details: 'product_unavailable' };
  expect((await place(refusing(404, body))).outcome).toMatchObject({ failure: { kind: 'unavailable' } });
});

test('missing stock is returned as the number of units left', async () => {
  const body = { code: 'PT409', message: 'Only 3 left in stock', details: 'not_enough_stock', hint: '3' };
  expect((await place(refusing(409, body))).outcome).toMatchObject({
    failure: { kind: 'not_enough_stock', left: 3, text: 'Failed to create order item: Only 3 left in stock' },
  });
});

test('a total above the payment limit is returned with the limit', async () => {
  const body = {
    code: 'PT400',
    message: 'M-PESA takes at most …',
    details: 'total_too_large',
    hint: '25000000',
  };
  expect((await place(refusing(400, body))).outcome).toMatchObject({
    failure: { kind: 'above_limit', limit: 25_000_000, field: null },
  });
});

test('cleans pasted text, and reports a key that was used for another order', async () => {
  const { outcome, requests } = await place(
    refusing(409, {
      message: 'This idempotency key belongs to another order',
      details: 'idempotency_key_reused',
      hint: null,
      code: 'PT409',
    }),
    {
      form: {
        ...request.form,
        name: '\u202aAmina\tOtieno\u202c',
        email: 'amina@example.com\u200b',
        phone: '\u202a+254 (0)712 345 678\u202c',
      },
      drinks: [{ ...mango, quantity: 999_999_999 }],
    },
  );
  expect(requests).toMatchObject([
    {
      body: {
        customer_name: 'Amina Otieno',
        customer_email: 'amina@example.com',
        customer_phone: '+254712345678',
        expected_total: 2_147_483_647,
      },
    },
  ]);
  expect(outcome).toMatchObject({ isPlaced: false, failure: { kind: 'key_reused' } });
});

test('an error of a field names the field', async () => {
  const body = { code: 'PT400', message: 'The name is longer', details: 'name_too_long', hint: '' };
  expect((await place(refusing(400, body))).outcome).toMatchObject({
    failure: { kind: 'other', field: 'name', text: 'Failed to create order: The name is longer' },
  });
});

test('without a readable answer the order is not reported as failed', async () => {
  const text = 'Failed to place order. Please try again.';
  const gateway = () => new Response('<!doctype html><p>Bad gateway', { status: 502 });
  const shed = refusing(503, { code: 'PGRST003', message: 'No connection', details: null, hint: null });
  for (const answer of [() => Promise.reject(new TypeError('fetch failed')), gateway, shed]) {
    expect((await place(answer)).outcome).toMatchObject({ failure: { kind: 'unanswered', text } });
  }
  const rolledBack = refusing(500, { code: 'XX000', message: 'internal', details: null, hint: null });
  expect((await place(rolledBack)).outcome).toMatchObject({ failure: { kind: 'other', text } });
});

test('an answer without an order is a failure with a general message', async () => {
  expect((await place(() => Response.json({ id: 'order-1' }))).outcome).toMatchObject({
    failure: { kind: 'other', text: 'Order was not created successfully' },
  });
});

test('times out without an answer, and rejects an invalid one', async () => {
  const text = 'Failed to place order. Please try again.';
  const html = () => new Response('<!doctype html><p>Welcome to the hotel', { status: 200 });
  expect((await place(html)).outcome).toMatchObject({ isPlaced: false, failure: { text } });

  const longest = vi.spyOn(AbortSignal, 'timeout').mockImplementation(() => AbortSignal.abort());
  const { tables } = createStore(
    { url: 'http://shop.test', key: 'key' },
    {
      fetch: (_url, init) =>
        init?.signal?.aborted ? Promise.reject(init.signal.reason) : new Promise(() => {}),
    },
  );
  expect(await placeOrder(tables, request, 'the-key')).toMatchObject({ isPlaced: false, failure: { text } });
  expect(longest).toHaveBeenCalledWith(30_000);
  longest.mockRestore();
});

test('reports the order under way that repeats the same one already', async () => {
  const hint = 'JJ-20261121-1234';
  const refusal = {
    code: 'PT409',
    message: `You have just ordered this: ${hint}`,
    details: 'order_repeated',
    hint,
  };
  const { tables } = storeAnswering(refusing(409, refusal));
  expect(await placeSameOrder(tables, 'secret', request, 'the-key')).toEqual({ runningNumber: hint });
});

test('every change of the order changes its content', () => {
  const content = orderContent(request);
  expect(orderContent({ ...request, form: { ...request.form } })).toBe(content);
  for (const changed of [
    { ...request, drinks: [{ ...mango, quantity: 3 }] },
    { ...request, drinks: [{ ...mango, productId: 'another' }] },
    { ...request, drinks: [{ ...mango, price: 1 }] },
    { ...request, drinks: [mango, ginger] },
    { ...request, deliveryFee: 0 },
    { ...request, form: { ...request.form, notes: 'Green gate' } },
    { ...request, form: { ...request.form, unit: '4C' } },
  ]) {
    expect(orderContent(changed)).not.toBe(content);
  }
});
