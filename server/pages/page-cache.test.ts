import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { type CachedPage, finishPage, PageCache, pageKey } from './page-cache.ts';

const key = (path: string) => pageKey(new URL(path, 'http://shop'));
const page = async (text: string, status = 200, tags: string[] = []): Promise<CachedPage> =>
  finishPage(status, {}, Buffer.from(text), tags);
const textOf = (found: CachedPage | undefined) => found?.bodies.identity.toString();

describe('page keys', () => {
  test('do not exist for a path that names another host', () => {
    expect(pageKey(new URL('http://shop.example//evil.example/shop'))).toBeNull();
    expect(pageKey(new URL('http://shop.example//_.data'))).toBeNull();
  });

  test('contain a path and the parameters the page depends on, and nothing else', () => {
    expect(key('/shop?utm_source=x&sort=price&search=a%20b')).toBe('/shop?search=a%20b&sort=price');
    expect(key('/shop/mango-bottle?x=1')).toBe('/shop/mango-bottle?');
    expect(key('/flavors/mango?page=2&x=1')).toBe('/flavors/mango?page=2');
    expect(key('/brands/embu-fresh?page=1')).toBe('/brands/embu-fresh?');
    expect(key('/?a=b')).toBe('/?');
  });

  test('omit an unknown sort, and a filter beside a sort', () => {
    expect(key('/shop?sort=price')).toBe('/shop?sort=price');
    expect(key('/shop?sort=odd&filter=price')).toBe('/shop?');
    expect(key('/shop?filter=odd')).toBe('/shop?');
    expect(key('/shop?filter=brand')).toBe('/shop?filter=brand');
  });

  test('omit an invalid page number', () => {
    expect(key('/shop?page=2&sort=price')).toBe('/shop?sort=price&page=2');
    for (const odd of ['1', '0', '-2', '02', '2.0', '2x', 'x', '1000', '9'.repeat(40), '']) {
      expect(key(`/shop?page=${odd}`), odd).toBe('/shop?');
    }
  });

  test('truncate a search to the maximum of the form, never within a character', () => {
    expect(key(`/shop?search=${'x'.repeat(600)}`)).toBe(`/shop?search=${'x'.repeat(100)}`);
    expect(key(`/shop?search=${'x'.repeat(99)}%F0%9F%A7%83`)).toBe(`/shop?search=${'x'.repeat(99)}`);
  });

  test('differ for a page and its data', () => {
    expect(key('/shop.data?search=x')).toBe('/shop.data?search=x');
    expect(key('/shop.data')).not.toBe(key('/shop'));
    // Part of a parameter's value must not become another parameter: some make a page personal.
    const smuggled = key('/track-order.data?_routes=x%26tracking=JJ-20261121-1234%26key=secret%23');
    const { searchParams } = new URL(smuggled ?? '', 'http://shop');
    expect([...searchParams]).toEqual([['_routes', 'x&tracking=JJ-20261121-1234&key=secret#']]);
  });

  test.each([
    '/track-order/JJ-20261121-1234',
    '/track-order?tracking=JJ-20261121-1234',
    '/track-order?key=secret',
    '/track-order/JJ-20261121-1234.data',
    '/track-order/JJ-20261121-1234/pay',
    '/shop/mango-bottle/order?quantity=2',
    '/admin/orders',
    '/shop/UPPER',
    '/rest/v1/products',
    `/shop?brand=${'x'.repeat(600)}`,
  ])('%s is never cached', (path) => expect(key(path)).toBeNull());
});

describe('the page cache', () => {
  test('renders a page once for concurrent requests', async () => {
    const cache = new PageCache();
    let renders = 0;
    const render = async () => {
      renders += 1;
      return page('hello');
    };
    await Promise.all([
      cache.getOrRender('/', 'identity', render),
      cache.getOrRender('/', 'identity', render),
    ]);
    await cache.getOrRender('/', 'identity', render);
    expect(renders).toBe(1);
  });

  test('drops all pages on a change, and stores none that was being rendered', async () => {
    const cache = new PageCache();
    let finish = (_: CachedPage) => {};
    const old = cache.getOrRender(
      '/',
      'identity',
      () =>
        new Promise((done) => {
          finish = done;
        }),
    );
    cache.clear();
    const fresh = cache.getOrRender('/', 'identity', () => page('new'));
    finish(await page('old'));
    expect((await old).bodies.identity.toString()).toBe('old');
    expect((await fresh).bodies.identity.toString()).toBe('new');
    expect(cache.get('/')?.bodies.identity.toString()).toBe('new');
  });

  test('drops only pages that depend on a changed tag', async () => {
    const cache = new PageCache();
    await cache.getOrRender('/shop/mango?', 'identity', () =>
      page('mango', 200, ['settings', 'mango', 'passion']),
    );
    await cache.getOrRender('/shop/tamarind?', 'identity', () =>
      page('tamarind', 200, ['settings', 'tamarind']),
    );
    await cache.getOrRender('/unnamed?', 'identity', () => page('unnamed'));
    expect([cache.find('/shop/mango'), cache.find('/shop/tamarind')].map(textOf)).toEqual([
      'mango',
      'tamarind',
    ]);
    cache.forget([]);
    expect(textOf(cache.get('/unnamed?'))).toBe('unnamed');
    cache.forget(['passion']);
    expect(cache.find('/shop/mango')).toBeUndefined();
    expect(textOf(cache.find('/shop/tamarind'))).toBe('tamarind');
    // A page without tags depends on everything.
    expect(cache.get('/unnamed?')).toBeUndefined();
    cache.forget(['settings']);
    expect(cache.find('/shop/tamarind')).toBeUndefined();
  });

  test('neither stores nor shares a render whose tags change during it; other renders are stored', async () => {
    const cache = new PageCache();
    const finish = new Map<string, (page: CachedPage) => void>();
    const begin = (key: string) =>
      cache.getOrRender(key, 'identity', () => new Promise((done) => finish.set(key, done)));
    const [mango, tamarind] = [begin('mango'), begin('tamarind')];
    cache.forget(['mango']);
    const fresh = cache.getOrRender('mango', 'identity', () => page('new mango', 200, ['mango']));
    expect(textOf(await fresh)).toBe('new mango');
    finish.get('mango')?.(await page('old mango', 200, ['mango']));
    finish.get('tamarind')?.(await page('tamarind', 200, ['tamarind']));
    expect(textOf(await mango)).toBe('old mango');
    await tamarind;
    expect(textOf(cache.get('mango'))).toBe('new mango');
    expect(textOf(cache.get('tamarind'))).toBe('tamarind');
  });

  test('drops a page at the time at which it changes by itself', async () => {
    const cache = new PageCache();
    const until = (expiresAt: number) => async () => finishPage(200, {}, Buffer.from('page'), [], expiresAt);
    await cache.getOrRender('/shop?', 'identity', until(Date.now() + 60_000));
    expect(textOf(cache.get('/shop?'))).toBe('page');
    await cache.getOrRender('/over?', 'identity', until(Date.now() - 1));
    expect(cache.find('/over')).toBeUndefined();
    expect(cache.get('/over?')).toBeUndefined();
    cache.clear();
    expect(cache.bytes).toBe(0);
  });

  test('stores nothing while changes are not received', async () => {
    const cache = new PageCache();
    await cache.getOrRender('/', 'identity', () => page('before'));
    cache.pause();
    expect(cache.get('/')).toBeUndefined();
    expect(textOf(await cache.getOrRender('/', 'identity', () => page('during the pause')))).toBe(
      'during the pause',
    );
    expect(cache.get('/')).toBeUndefined();
    let finish = (_: CachedPage) => {};
    const overtaken = cache.getOrRender('/', 'identity', () => new Promise((done) => (finish = done)));
    cache.resume();
    finish(await page('of an unknown time'));
    await overtaken;
    expect(cache.get('/')).toBeUndefined();
    await cache.getOrRender('/', 'identity', () => page('after'));
    expect(textOf(cache.get('/'))).toBe('after');
  });

  test('finds a stored page by the URL of a request, until the page is dropped', async () => {
    const cache = new PageCache();
    expect(cache.find('/shop?utm_source=x')).toBeUndefined();
    const stored = await cache.getOrRender('/shop?', 'identity', () => page('shop'));
    for (const address of ['/shop?utm_source=x', '/shop', '/shop?utm_source=x'])
      expect(cache.find(address)).toBe(stored);
    for (const address of [
      '/shop?sort=price',
      'http://[',
      '//shop',
      '//evil/shop',
      '/\\evil/shop',
      '/track-order/JJ-1',
    ]) {
      expect(cache.find(address)).toBeUndefined();
    }
    cache.clear();
    expect(cache.find('/shop')).toBeUndefined();
  });

  test('stores no error pages', async () => {
    const cache = new PageCache();
    await cache.getOrRender('/', 'identity', () => page('sorry', 503));
    expect(cache.get('/')).toBeUndefined();
    await expect(cache.getOrRender('/', 'identity', () => Promise.reject(new Error('no')))).rejects.toThrow(
      'no',
    );
    expect((await cache.getOrRender('/', 'identity', () => page('back'))).bodies.identity.toString()).toBe(
      'back',
    );
  });

  test('drops the least recently used page above its limit of bytes', async () => {
    const cache = new PageCache(40_000);
    const large = (name: string) => page(name.padEnd(10_000));
    await cache.getOrRender('a', 'identity', () => large('a'));
    await cache.getOrRender('b', 'identity', () => large('b'));
    cache.get('a');
    await cache.getOrRender('c', 'identity', () => large('c'));
    expect(['a', 'b', 'c'].filter((name) => cache.get(name))).toEqual(['a', 'c']);
    await cache.getOrRender('d', 'identity', () => page('d'.padEnd(100_000)));
    expect(['a', 'c', 'd'].filter((name) => cache.get(name))).toEqual(['a', 'c']);
    expect(cache.bytes).toBeLessThan(40_000);
    cache.clear();
    expect(cache.bytes).toBe(0);
  });

  test('counts a hit by URL as a use of the page', async () => {
    const cache = new PageCache(40_000);
    const store = (path: string) =>
      cache.getOrRender(`${path}?`, 'identity', () => page(path.padEnd(10_000)));
    for (const path of ['/shop/a', '/shop/b']) await store(path);
    for (const path of ['/shop/a', '/shop/b', '/shop/a']) cache.find(path);
    await store('/shop/c');
    expect(['/shop/a', '/shop/b', '/shop/c'].filter((path) => cache.find(path))).toEqual([
      '/shop/a',
      '/shop/c',
    ]);
  });

  test('2,000 URLs with parameters fill only the part for such pages, and drop no other page', async () => {
    const cache = new PageCache(1_000_000);
    await cache.getOrRender('/?', 'identity', () => page('home'));
    for (let n = 0; n < 2000; n += 1) {
      const found = key(`/shop?search=${n}&sort=odd-${n}`);
      await cache.getOrRender(found ?? '', 'identity', () => page('found'.padEnd(10_000)));
    }
    expect(cache.bytes).toBeGreaterThan(150_000);
    expect(cache.bytes).toBeLessThan(210_000);
    expect(textOf(cache.get('/?'))).toBe('home');
    expect([0, 1998, 1999].map((n) => textOf(cache.get(`/shop?search=${n}`))?.trim())).toEqual([
      undefined,
      'found',
      'found',
    ]);
  });

  test('compresses a page without parameters better once it was sent', async () => {
    const cache = new PageCache();
    const words = Array.from({ length: 5000 }, (_, n) => `<li>${(n * 7919) % 1000}`).join('');
    const [plain, searched] = await Promise.all([
      cache.getOrRender('/?', 'br', () => page(words)),
      cache.getOrRender('/shop?search=a', 'br', () => page(words)),
    ]);
    await expect.poll(() => cache.get('/?')?.bodies.br?.length).toBeLessThan(plain.bodies.br?.length ?? 0);
    expect(cache.get('/?')?.etag).toBe(plain.etag);
    expect(Object.keys(cache.get('/?')?.bodies ?? {}).sort()).toEqual(['br', 'gzip', 'identity']);
    expect(cache.get('/shop?search=a')).toBe(searched);
  });

  test('compresses a page with parameters only in requested encodings', async () => {
    const cache = new PageCache();
    const ask = (encoding: 'br' | 'gzip') =>
      cache.getOrRender('/shop?search=a', encoding, () => page('found'.repeat(1000)));
    const { bodies } = await ask('br');
    expect(Object.keys(bodies).sort()).toEqual(['br', 'identity']);
    const before = cache.bytes;
    expect((await ask('gzip')).bodies).toBe(bodies);
    expect(gunzipSync(bodies.gzip ?? '').toString()).toBe('found'.repeat(1000));
    expect(brotliDecompressSync(bodies.br ?? '').toString()).toBe('found'.repeat(1000));
    expect(cache.bytes - before).toBe(bodies.gzip?.length);
  });
});
