import { describe, expect, test } from 'vitest';
import {
  buildFilesIn,
  cacheKindOf,
  isWholePage,
  orderPageOf,
  otherRenderingsOf,
  smallImagesIn,
} from './cacheable-urls.ts';

const shop = 'https://jani.example';
const kindOf = (address: string) => cacheKindOf(new URL(address, shop), shop);

describe('cached for offline reading', () => {
  test.each([
    '/',
    '/shop',
    '/shop?category=Mango',
    '/shop/mango-can',
    '/flavors/mango',
    '/brands/embu-fresh',
    '/delivery',
    '/contact',
    '/track-order',
  ])('the page %s', (address) => expect(kindOf(address)).toBe('page'));
  test('the page of an order, with masked personal data', () =>
    expect(kindOf('/track-order/JJ-20261121-1234')).toBe('order'));
  test.each(['/assets/entry-3Kd_9.js', '/fonts/figtree.woff2', '/icon-192.png', '/favicon.svg'])(
    'the file %s',
    (address) => expect(kindOf(address)).toBe('file'),
  );
  test.each([
    '/art/mango-can-480.avif',
    '/storage/v1/object/public/product-images/products/a.png',
    '/storage/v1/render/image/public/product-images/products/a.png?width=480&height=480',
  ])('the image %s', (address) => expect(kindOf(address)).toBe('image'));
});

test.each([
  ['/shop', true],
  ['/shop?utm_source=flyer', true],
  ['/shop?category=Mango', false],
  ['/shop?search=mango&utm_source=flyer', false],
  ['/shop?page=2', false],
])('whether %s is cached as the page of its path: %s', (address, isWhole) =>
  expect(isWholePage(new URL(address, shop))).toBe(isWhole),
);

test.each([
  '/admin',
  '/admin/orders',
  '/admin/login',
  '/rest/v1/products?select=*',
  '/rest/v1/rpc/track_order',
  '/functions/v1/mobile-money',
  '/auth/v1/user',
  '/realtime/v1/websocket',
  '/storage/v1/object/authenticated/private/a.png',
  '/storage/v1/object/public/other-bucket/a.png',
  '/storage/v1/object/sign/product-images/a.png?token=x',
  '/track-order/JJ-20261121-1234?key=0123',
  '/track-order?tracking=JJ-20261121-1234',
  '/track-order?key=0123',
  '/shop.data',
  '/track-order/JJ-20261121-1234.data',
  '/api/event',
  '/sw.js',
  '/manifest.webmanifest',
  '/newsletter',
  'https://elsewhere.example/shop',
])('never caches %s', (address) => expect(kindOf(address)).toBeNull());

test.each([
  '/track-order/JJ-20261121-1234',
  '/track-order/JJ-20261121-1234?key=0123',
  '/track-order/JJ-20261121-1234/receipt?key=0123',
  '/track-order/JJ-20261121-1234/pay',
  '/t/20261121-1234-AbCdEfGhIjKlMnOpQrStUv',
  '/track-order?tracking=JJ-20261121-1234',
])('%s is read offline as the page of its order', (address) =>
  expect(orderPageOf(new URL(address, shop), shop)).toBe('/track-order/JJ-20261121-1234'),
);

test.each([
  '/shop',
  '/track-order',
  '/track-order/x',
  '/t/x',
  'https://elsewhere.example/track-order/JJ-20261121-1234',
])('%s is not the page of an order', (address) =>
  expect(orderPageOf(new URL(address, shop), shop)).toBeNull(),
);

test('finds the files of a page and the small images of its products', () => {
  const html = `<link rel="modulepreload" href="/assets/root-a1_B.js"><script>import("/assets/root-a1_B.js")</script>
    <source srcset="/art/mango-can-240.avif 240w, /art/mango-can-480.avif 480w"><img src="/art/hero-cold-tall-480.webp">`;
  expect(buildFilesIn(html)).toEqual(['/assets/root-a1_B.js']);
  expect(smallImagesIn(html, 9)).toEqual(['/art/mango-can-240.avif']);
});

test('lists other sizes of the shop’s own images only', () => {
  expect(otherRenderingsOf('/art/mango-can-960.webp')).toContain('/art/mango-can-240.avif');
  expect(otherRenderingsOf('/art/share.jpg')).toEqual([]);
});
