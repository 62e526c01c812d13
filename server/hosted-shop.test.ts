// A shop whose services run on another machine: pages, readiness, jobs and the check before the start.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type OpenShop, openShop, until } from '../scripts/open-shop.ts';
import { createStore, type Store } from '../web/lib/store.ts';
import { checkHostedProject } from './hosted-project.ts';

let project: OpenShop;
let shop: OpenShop;
let keys: { publishable: string; secret: string };
let store: Store;

beforeAll(async () => {
  project = await openShop();
  keys = await project.keys();
  store = createStore({ url: project.url, key: keys.secret });
  shop = await openShop({
    SUPABASE_URL: project.url,
    SUPABASE_PUBLISHABLE_KEY: keys.publishable,
    SUPABASE_SECRET_KEY: keys.secret,
    MPESA_ENV: 'simulator',
  });
});
afterAll(async () => {
  await shop?.close();
  await project?.close();
});

const problems = async (
  changes: Partial<{ url: string; publishableKey: string; secretKey: string }> = {},
) => {
  const address = { url: project.url, publishableKey: keys.publishable, secretKey: keys.secret };
  const requirements = await checkHostedProject({ ...address, ...changes }, 'simulator');
  return requirements.filter(({ problem }) => problem).map(({ name }) => name);
};

test('refreshes pages when their rows change', async () => {
  await until(async () => shop.output().includes('following the tables'), 'the shop follows the tables');
  const page = async () => (await fetch(`${shop.url}/shop/mango-bottle`)).text();
  const [etag] = [(await fetch(`${shop.url}/shop/mango-bottle`)).headers.get('etag')];
  for (const tagline of ['Fresh this morning', 'Fresh this evening']) {
    const { error } = await store.tables.from('products').update({ tagline }).eq('slug', 'mango-bottle');
    expect(error).toBeNull();
    await until(async () => (await page()).includes(tagline), `the page shows "${tagline}"`, 3000);
  }
  expect((await fetch(`${shop.url}/shop/mango-bottle`)).headers.get('etag')).not.toBe(etag);
});

test('accepts a complete project, and names missing and wrong parts', async () => {
  expect(await problems()).toEqual([]);
  expect(await problems({ secretKey: keys.publishable })).toEqual(['Secret key']);
  expect(await problems({ publishableKey: 'sb_publishable_wrong' })).toEqual(['Publishable key']);
  expect(await problems({ url: 'http://127.0.0.1:9' })).toEqual(['Project']);
  const { error } = await store.tables.from('products').update({ is_active: false }).neq('name', '');
  expect(error).toBeNull();
  expect(await problems()).toEqual(['Catalogue']);
});

test('runs jobs without errors, and is not ready while the project is unavailable', async () => {
  expect(shop.problems()).toEqual([]);
  expect((await fetch(`${shop.url}/readyz`)).status).toBe(200);
  await project.kill();
  expect((await fetch(`${shop.url}/readyz`)).status).toBe(503);
  expect((await fetch(`${shop.url}/healthz`)).status).toBe(200);
  const page = await fetch(`${shop.url}/shop/passion-bottle`);
  expect(page.status).toBe(503);
  expect(await page.text()).toContain(`>Reference: ${page.headers.get('x-request-id')}</p>`);
});
