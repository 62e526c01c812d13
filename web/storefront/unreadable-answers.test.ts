// Catalogue pages when a gateway answers instead of the table service.
import { RouterContextProvider } from 'react-router';
import { expect, test } from 'vitest';
import { createStore } from '../../supabase/store.ts';
import { shopContext } from '../lib/shop-context.ts';
import { loader as root } from '../root.tsx';
import { loader as sitemap } from './discovery/sitemap.ts';
import { loader as home } from './home/home-page.tsx';
import { loader as product } from './product/product-page.tsx';
import { loader as shop } from './shop/shop-page.tsx';

type Loader = (of: never) => Promise<unknown>;

test.each([
  ['nothing', ''],
  ['null', 'null'],
  ['a record', '{}'],
  ['a text', '"welcome"'],
  ['rows of another table', '[{"id":1},2]'],
  ['half of an answer', '[{"slug":'],
  ['a page', '<!doctype html><p>Welcome to the hotel'],
])('%s with status 200 results in 503 on every catalogue page', async (_, body) => {
  const context = new RouterContextProvider();
  const store = createStore(
    { url: 'http://shop.test', key: 'key' },
    { fetch: async () => new Response(body) },
  );
  context.set(shopContext, { store, config: {}, addCacheTags() {}, cacheUntil() {}, onError() {} } as never);
  const request = new Request('http://shop.test/shop');
  const of = { context, request, params: { slug: 'mango-can' } } as never;
  for (const loader of [root, home, shop, product, sitemap] as Loader[]) {
    const answer = await loader(of).catch((thrown: unknown) => thrown);
    expect(answer instanceof Response ? answer : (answer as { init: unknown }).init).toMatchObject({
      status: 503,
    });
  }
});
