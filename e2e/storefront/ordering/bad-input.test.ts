// Invalid requests over HTTP get a clear error and change nothing.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type OpenShop, openShop } from '../../../scripts/tests/open-shop.ts';

let shop: OpenShop;
let keys: { publishable: string; secret: string };
const mango = 'a0000000-0000-4000-8000-000000000001';
const good = {
  product_id: mango,
  quantity: 1,
  customer_name: 'Amina Otieno',
  customer_email: 'amina@example.com',
  customer_phone: '0712345678',
  delivery_location: 'Westlands',
  expected_total: 95100,
};

beforeAll(async () => {
  shop = await openShop();
  keys = await shop.keys();
});
afterAll(async () => {
  const problems = shop.problems();
  await shop.close();
  expect(problems, "the server's log").toEqual([]);
});

const send = (path: string, body: unknown, headers: Record<string, string> = {}) =>
  fetch(`${shop.url}${path}`, {
    method: 'POST',
    headers: { apikey: keys.publishable, 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
const placeOrder = (changes: Record<string, unknown> = {}, headers: Record<string, string> = {}) =>
  send('/rest/v1/rpc/place_order', { idempotency_key: crypto.randomUUID(), ...good, ...changes }, headers);

/** All data that a request could change. */
async function state(): Promise<unknown> {
  const read = async (path: string) =>
    (await fetch(`${shop.url}/rest/v1/${path}`, { headers: { apikey: keys.secret } })).json();
  return {
    products: await read('products?select=id,stock_quantity,price&order=id'),
    orders: await read('orders?select=*&order=id'),
    items: await read('order_items?select=*&order=id'),
    payments: await read('payments?select=*&order=id'),
    deliveries: await read('deliveries?select=*&order=id'),
  };
}

/** Expects an error with a readable message and unchanged data. */
async function expectRefusal(request: () => Promise<Response>, status: number, sentence: RegExp) {
  const before = await state();
  const answer = await request();
  const body = (await answer.json()) as { message?: string; error?: string };
  expect({ status: answer.status, sentence: body.message ?? body.error }).toEqual({
    status,
    sentence: expect.stringMatching(sentence),
  });
  expect(await state()).toEqual(before);
}

describe('an order', () => {
  test('with valid input is placed (positive control)', async () => {
    const answer = await placeOrder();
    expect(answer.status).toBe(200);
    expect(await answer.json()).toMatchObject({
      total_amount: 95100,
      charge_cents: 95100,
      status: 'pending',
    });
  });

  test.each([
    ['an unknown product', { product_id: crypto.randomUUID() }, 404, /not available/],
    ['a product id that is none', { product_id: 'mango' }, 400, /uuid/],
    ['quantity 0', { quantity: 0, expected_total: 100 }, 400, /at least 1/],
    ['a negative quantity', { quantity: -3, expected_total: -284900 }, 400, /at least 1/],
    ['a fractional quantity', { quantity: 1.5 }, 400, /integer/],
    ['a huge quantity', { quantity: 99999999999 }, 400, /integer|range/],
    ['a quantity above stock', { quantity: 5000, expected_total: 475000100 }, 409, /Only \d+ left in stock/],
    ['a wrong expected total', { expected_total: 100 }, 409, /price has changed/],
    ['an over-long name', { customer_name: 'A'.repeat(121) }, 400, /longer than 120/],
    ['an over-long e-mail', { customer_email: `${'a'.repeat(250)}@x.ke` }, 400, /longer than 254/],
    ['an over-long address', { delivery_location: 'W'.repeat(201) }, 400, /too long/],
    ['over-long notes', { delivery_notes: 'n'.repeat(501) }, 400, /longer than 500/],
    ['a foreign phone', { customer_phone: '+15551234567' }, 400, /valid Kenyan phone number/],
    ['no idempotency key', { idempotency_key: null }, 400, /idempotency key/],
    ['a price of its own', { price: 1 }, 404, /Could not find the function/],
  ])('with %s is rejected', async (_, changes, status, sentence) => {
    await expectRefusal(() => placeOrder(changes), status, sentence);
  });

  test('for an inactive product is rejected', async () => {
    const patched = await fetch(`${shop.url}/rest/v1/products?slug=eq.mango-can`, {
      method: 'PATCH',
      headers: { apikey: keys.secret, 'content-type': 'application/json', prefer: 'return=representation' },
      body: JSON.stringify({ is_active: false }),
    });
    const [{ id, price } = { id: '', price: 0 }] = (await patched.json()) as { id: string; price: number }[];
    await expectRefusal(
      () => placeOrder({ product_id: id, expected_total: price + 100 }),
      404,
      /not available/,
    );
  });

  test('from another origin is rejected', async () => {
    await expectRefusal(() => placeOrder({}, { origin: 'https://evil.example' }), 403, /other sites/);
    expect((await placeOrder({}, { origin: shop.url })).status).toBe(200);
  });

  test('that is not JSON is rejected', async () => {
    await expectRefusal(() => send('/rest/v1/rpc/place_order', '{"quantity": 1,'), 400, /json/i);
  });

  test('whose body never ends is rejected', async () => {
    await expectRefusal(
      () => placeOrder({ delivery_notes: 'n'.repeat(2_000_000) }),
      413,
      /long|large|limit/i,
    );
  });

  test('without a key, with a forged token, or inserted directly into the table, is rejected', async () => {
    await expectRefusal(() => placeOrder({}, { apikey: '' }), 401, /API key/);
    const forged = `${btoa('{"alg":"none"}')}.${btoa('{"role":"service_role"}')}.`;
    await expectRefusal(() => placeOrder({}, { apikey: forged }), 401, /key|alg/i);
    await expectRefusal(() => send('/rest/v1/orders', { total_amount: 1 }), 401, /permission denied/);
  });
});

describe('a payment', () => {
  const mobileMoney = (body: unknown) => send('/functions/v1/mobile-money', body);

  test.each([
    ['malformed JSON', '{"action":', 400],
    ['no action', {}, 400],
    ['an unknown action', { action: 'refund' }, 400],
    ['an unknown attempt', { action: 'check-status', checkoutRequestId: 'ws_CO_nothing' }, 404],
    ['the work of the server itself', { action: 'query-open' }, 401],
  ])('call with %s is rejected', async (_, body, status) => {
    await expectRefusal(() => mobileMoney(body), status, /\w/);
  });

  test('is not recorded by a forged callback', async () => {
    const placed = (await (await placeOrder({ customer_phone: '0718000001' })).json()) as Record<
      string,
      string
    >;
    const started = await mobileMoney({
      action: 'initiate',
      phoneNumber: '0718001037',
      amount: 95100,
      trackingNumber: placed.tracking_number,
      orderId: placed.id,
    });
    const { checkoutRequestId } = (await started.json()) as { checkoutRequestId: string };
    const forged = {
      Body: {
        stkCallback: {
          MerchantRequestID: 'x',
          CheckoutRequestID: checkoutRequestId,
          ResultCode: 0,
          ResultDesc: 'ok',
          CallbackMetadata: {
            Item: [
              { Name: 'Amount', Value: 951 },
              { Name: 'MpesaReceiptNumber', Value: 'UKL1234567' },
            ],
          },
        },
      },
    };
    for (const secret of ['0'.repeat(64), 'x', checkoutRequestId]) {
      const answer = await send(`/functions/v1/mobile-money/notice/${secret}`, forged);
      expect(answer.status).toBe(404);
    }
    const paid = await fetch(`${shop.url}/rest/v1/orders?id=eq.${placed.id}&select=payment_status`, {
      headers: { apikey: keys.secret },
    });
    expect(await paid.json()).toEqual([{ payment_status: 'unpaid' }]);
  });
});

test.each(['', '/order'])('responds 404 to a product URL of 4,000 characters%s', async (end) => {
  const status = async (slug: string) => (await fetch(`${shop.url}/shop/${slug}${end}`)).status;
  expect([await status('a'.repeat(4000)), await status('mango-bottle')]).toEqual([404, 200]);
});

// In the query string of a procedure call these are filters, not arguments.
test.each([
  ['/shop?search=fts(english).a%26', 200],
  ['/shop?search=eq.mango', 200],
  ['/shop?brand=sl.[', 200],
  ['/shop?category=not.fts.%27', 200],
  ['/shop/fts(x).a', 404],
  ['/shop/eq.mango-bottle', 404],
])('takes a text that looks like a filter as text: %s', async (path, status) => {
  expect((await fetch(`${shop.url}${path}`)).status).toBe(status);
});
