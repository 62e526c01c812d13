import { describe, expect, test } from 'vitest';
import { type CachedPage, compressPage, PageCache, pageKey } from './page-cache.ts';

const key = (path: string) => pageKey(new URL(path, 'http://shop'));
const page = (text: string, status = 200): Promise<CachedPage> =>
  compressPage(status, {}, Buffer.from(text), 'once');

describe('page keys', () => {
  test('name a page and the parameters it depends on, and nothing else', () => {
    expect(key('/shop?utm_source=x&sort=price&search=a%20b')).toBe('/shop?search=a%20b&sort=price');
    expect(key('/shop/mango-bottle?x=1')).toBe('/shop/mango-bottle?');
    expect(key('/?a=b')).toBe('/?');
  });

  test('exist for the data of a page too, apart from the page itself', () => {
    expect(key('/shop.data?search=x')).toBe('/shop.data?search=x');
    expect(key('/shop.data')).not.toBe(key('/shop'));
  });

  test.each([
    '/track-order/JJ-20261121-1234',
    '/track-order?tracking=JJ-20261121-1234',
    '/track-order/JJ-20261121-1234.data',
    '/admin/orders',
    '/shop/UPPER',
    '/rest/v1/products',
    `/shop?search=${'x'.repeat(600)}`,
  ])('%s is never kept', (path) => expect(key(path)).toBeNull());
});

describe('the page cache', () => {
  test('renders a page once for all who ask at once', async () => {
    const cache = new PageCache();
    let renders = 0;
    const render = async () => {
      renders += 1;
      return page('hello');
    };
    await Promise.all([cache.getOrRender('/', render), cache.getOrRender('/', render)]);
    await cache.getOrRender('/', render);
    expect(renders).toBe(1);
  });

  test('forgets all pages on a change, and keeps none that was being rendered meanwhile', async () => {
    const cache = new PageCache();
    let finish = (_: CachedPage) => {};
    const old = cache.getOrRender(
      '/',
      () =>
        new Promise((done) => {
          finish = done;
        }),
    );
    cache.clear();
    const fresh = cache.getOrRender('/', () => page('new'));
    finish(await page('old'));
    expect((await old).bodies.identity.toString()).toBe('old');
    expect((await fresh).bodies.identity.toString()).toBe('new');
    expect(cache.get('/')?.bodies.identity.toString()).toBe('new');
  });

  test('finds a kept page by the address of a request, and forgets that with the page', async () => {
    const cache = new PageCache();
    expect(cache.find('/shop?utm_source=x')).toBeUndefined();
    const kept = await cache.getOrRender('/shop?', () => page('shop'));
    for (const address of ['/shop?utm_source=x', '/shop', '/shop?utm_source=x'])
      expect(cache.find(address)).toBe(kept);
    for (const address of ['/shop?sort=price', 'http://[', '//shop', '/track-order/JJ-1']) {
      expect(cache.find(address)).toBeUndefined();
    }
    cache.clear();
    expect(cache.find('/shop')).toBeUndefined();
  });

  test('keeps no failure', async () => {
    const cache = new PageCache();
    await cache.getOrRender('/', () => page('sorry', 503));
    expect(cache.get('/')).toBeUndefined();
    await expect(cache.getOrRender('/', () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    expect((await cache.getOrRender('/', () => page('back'))).bodies.identity.toString()).toBe('back');
  });

  test('is bounded: the page unused the longest goes first', async () => {
    const cache = new PageCache(2);
    await cache.getOrRender('a', () => page('a'));
    await cache.getOrRender('b', () => page('b'));
    cache.get('a');
    await cache.getOrRender('c', () => page('c'));
    expect([
      cache.get('a') !== undefined,
      cache.get('b') !== undefined,
      cache.get('c') !== undefined,
    ]).toEqual([true, false, true]);
  });
});
