import { expect, test } from 'vitest';
import type { RememberedOrder } from '../../lib/orders/remembered-orders.ts';
import { describeOffer, orderedOf, readSameAgain } from './same-again-offer.ts';

const earlier = { trackingNumber: 'JJ-20261121-1001', accessKey: 'key' } as RememberedOrder;
const mango = { product_id: 'p1', slug: 'mango', name: 'Mango', quantity: 2, price: 90_000 };
const lime = { product_id: 'p2', slug: 'lime', name: 'Lime', quantity: 1, price: 10_000 };
const answer = {
  tracking_number: earlier.trackingNumber,
  items: [mango],
  place: 'Mpaka Road',
  area_id: null,
  delivery_fee: 10_050,
  total: 190_050,
};
const read = (change: object) => readSameAgain({ ...answer, ...change }, [earlier]);

test('says drinks, place and what M-PESA will ask for', () => {
  const offer = read({});
  expect(offer && describeOffer(offer)).toBe('2 × Mango to Mpaka Road, KSh 1,901.00');
  const several = read({ items: [mango, lime] });
  expect(several && describeOffer(several)).toBe('2 × Mango and 1 more drink to Mpaka Road, KSh 1,901.00');
  expect(several && orderedOf(several)).toEqual({
    slug: 'mango',
    name: 'Mango',
    quantity: 2,
    others: [{ slug: 'lime', name: 'Lime', quantity: 1 }],
  });
});

test.each([
  ['nothing', null],
  ['a refusal', { code: 'PT429', message: 'Too many look-ups.' }],
  ['an order of another device', { ...answer, tracking_number: 'JJ-20261121-1002' }],
  ['no drinks', { ...answer, items: [] }],
  ['a drink that cannot be read', { ...answer, items: [mango, { ...lime, price: null }] }],
  ['no total', { ...answer, total: null }],
])('offers nothing after an answer with %s', (_, given) =>
  expect(readSameAgain(given, [earlier])).toBeNull(),
);
