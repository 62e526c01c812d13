import { describe, expect, test } from 'vitest';
import { filesOf, keptAs, otherSizesOf, smallPicturesOf } from './what-is-kept.ts';

const shop = 'https://jani.example';
const kept = (address: string) => keptAs(new URL(address, shop), shop);

describe('what is kept', () => {
  test.each([
    '/',
    '/shop',
    '/shop?category=Mango',
    '/shop/mango-can',
    '/delivery',
    '/contact',
    '/track-order',
  ])('the page %s', (address) => expect(kept(address)).toBe('page'));
  test('the page of an order, whose personal data it masks', () =>
    expect(kept('/track-order/JJ-20261121-1234')).toBe('order'));
  test.each(['/assets/entry-3Kd_9.js', '/fonts/figtree.woff2', '/icon-192.png', '/favicon.svg'])(
    'the file %s',
    (address) => expect(kept(address)).toBe('file'),
  );
  test.each([
    '/art/mango-can-480.avif',
    '/storage/v1/object/public/product-images/products/a.png',
    '/storage/v1/render/image/public/product-images/products/a.png?width=480&height=480',
  ])('the picture %s', (address) => expect(kept(address)).toBe('picture'));
});

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
])('%s is never kept', (address) => expect(kept(address)).toBeNull());

test('a page names its files and the small pictures of its products', () => {
  const html = `<link rel="modulepreload" href="/assets/root-a1_B.js"><script>import("/assets/root-a1_B.js")</script>
    <source srcset="/art/mango-can-240.avif 240w, /art/mango-can-480.avif 480w"><img src="/art/hero-cold-tall-480.webp">`;
  expect(filesOf(html)).toEqual(['/assets/root-a1_B.js']);
  expect(smallPicturesOf(html, 9)).toEqual(['/art/mango-can-240.avif']);
});

test('a drawn picture has other sizes to stand in for it', () => {
  expect(otherSizesOf('/art/mango-can-960.webp')).toContain('/art/mango-can-240.avif');
  expect(otherSizesOf('/art/share.jpg')).toEqual([]);
});
