import { expect, test } from 'vitest';
import { emptyForm } from '../../../lib/orders/order-contents.ts';

import { placedOrderCookie, readSameOrder } from './same-order.ts';

const mango = {
  productId: 'a0000000-0000-4000-8000-000000000001',
  name: 'Mango',
  quantity: 2,
  price: 95_000,
};
const order = {
  drinks: [mango],
  deliveryFee: 100,
  form: { ...emptyForm, name: 'Amina', email: 'a@b.example', phone: '0712345678', location: 'Westlands' },
  acceptsTerms: true,
};
const placed = { trackingNumber: 'JJ-20261121-1234', accessKey: '0123456789abcdef0123456789abcdef' };
const url = new URL('https://jani.example/shop/mango-bottle/order');
const cookieOf = async () => (await placedOrderCookie(order, 'key-1', placed, url)).split(';')[0] ?? '';

test('recognises the same order from a form with another key', async () => {
  const cookie = await cookieOf();
  expect(await readSameOrder(`a=b; ${cookie}; c=d`, order, 'key-2')).toEqual(placed);
  expect(await readSameOrder(cookie, order, 'key-1'), 'the same form sent twice').toBeNull();
});

test.each([
  ['another quantity', { drinks: [{ ...mango, quantity: 3 }] }],
  ['another drink', { drinks: [{ ...mango, productId: 'a0000000-0000-4000-8000-000000000002' }] }],
  ['another drink beside it', { drinks: [mango, { ...mango, productId: 'ginger' }] }],
  ['another location', { form: { ...order.form, location: 'Karen' } }],
])('an order with %s is a new one', async (_, change) => {
  expect(await readSameOrder(await cookieOf(), { ...order, ...change }, 'key-2')).toBeNull();
});

test('ignores unreadable cookies', async () => {
  const cookie = await cookieOf();
  for (const bad of [
    null,
    '',
    'placed-order=',
    'placed-order=a.b.c.d',
    cookie.replace('JJ-', 'XX-'),
    cookie.slice(0, -1),
  ]) {
    expect(await readSameOrder(bad, order, 'key-2')).toBeNull();
  }
});

test('only order forms receive the cookie, and scripts do not', async () => {
  expect(await placedOrderCookie(order, 'key', placed, url)).toMatch(
    /; Path=\/shop; Max-Age=3600; HttpOnly; SameSite=Lax; Secure$/,
  );
});
