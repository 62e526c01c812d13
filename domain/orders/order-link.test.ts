import { expect, test } from 'vitest';
import { orderLink, readShortOrderLink, shortOrderLink } from './order-link.ts';

const shop = 'https://jani.example';
const number = 'JJ-20261121-1234';

test('a link contains the order and its key, or the order only', () => {
  expect(orderLink(shop, number, 'ab12')).toBe(`${shop}/track-order/${number}?key=ab12`);
  expect(orderLink(shop, number, 'ab12', 'receipt')).toBe(`${shop}/track-order/${number}/receipt?key=ab12`);
  expect(orderLink(shop, number, null)).toBe(`${shop}/track-order/${number}`);
});

test.each(['0123456789abcdef0123456789abcdef', 'ffffffffffffffffffffffffffffffff', '0'.repeat(32)])(
  'a short link leads to the same order and key %s',
  (accessKey) => {
    const link = shortOrderLink(shop, number, accessKey);
    expect(link.length).toBeLessThanOrEqual(shop.length + 39);
    expect(readShortOrderLink(link.split('/').at(-1) ?? '')).toEqual({ trackingNumber: number, accessKey });
    expect(shortOrderLink(shop, number, accessKey, 'receipt')).toBe(`${link}/receipt`);
  },
);

test('uses the full link without a short form', () => {
  expect(shortOrderLink(shop, number, null)).toBe(orderLink(shop, number, null));
  expect(shortOrderLink(shop, number, 'a key of another kind')).toContain('?key=a%20key');
});

test.each(['', '20261121-1234', '20261121-1234-abc', '20261121-12-0123456789012345678901', '../../admin'])(
  'rejects the short link %j',
  (code) => expect(readShortOrderLink(code)).toBeNull(),
);
