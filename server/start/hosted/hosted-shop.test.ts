// A shop whose services run on another machine: pages, readiness, jobs and the check before the start.
import type { Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { createAdaptorServer } from '@hono/node-server';
import { StorageClient } from '@supabase/storage-js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type OpenShop, openShop, until } from '../../../scripts/tests/open-shop.ts';
import { createStore, type Store } from '../../../supabase/store.ts';
import { checkHostedProject } from './hosted-project.ts';
import { checkRealtime, createServiceWatch } from './hosted-services.ts';

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

const failing = async (
  changes: Partial<{ url: string; publishableKey: string; secretKey: string }> = {},
  options: { root?: string | null } = {},
) => {
  const address = { url: project.url, publishableKey: keys.publishable, secretKey: keys.secret };
  const requirements = await checkHostedProject(
    { ...address, ...changes },
    { environment: 'simulator', publicUrl: shop.url, root: process.cwd(), withProbe: true, ...options },
  );
  for (const { problem, remedy } of requirements) expect(Boolean(problem)).toBe(Boolean(remedy));
  return requirements.filter(({ problem }) => problem);
};
const problems = async (changes?: Parameters<typeof failing>[0]) =>
  (await failing(changes)).map(({ name }) => name);
/** A gateway before the project that answers some paths itself. */
async function openGateway(intercept: (path: string) => Response | null) {
  const gateway = createAdaptorServer({
    overrideGlobalObjects: false,
    fetch: async (request: Request) => {
      const { pathname, search } = new URL(request.url);
      const answer = intercept(pathname);
      if (answer) return answer;
      const body = ['GET', 'HEAD'].includes(request.method) ? null : await request.arrayBuffer();
      const headers = new Headers(request.headers);
      headers.delete('host');
      headers.delete('content-length');
      const passedOn = await fetch(`${project.url}${pathname}${search}`, {
        method: request.method,
        headers,
        body,
      });
      const range = passedOn.headers.get('content-range');
      return new Response(await passedOn.arrayBuffer(), {
        status: passedOn.status,
        headers: range ? { 'content-range': range } : {},
      });
    },
  }) as Server;
  gateway.on('upgrade', (request, socket, head) => {
    if (intercept(request.url ?? '')) {
      socket.destroy();
      return;
    }
    const { hostname, port } = new URL(project.url);
    const target = connect(Number(port), hostname, () => {
      const lines = Object.entries(request.headers).map(([name, value]) => `${name}: ${value}`);
      target.write(`GET ${request.url} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
      target.write(head);
      target.pipe(socket).pipe(target);
    });
    for (const end of [target, socket]) end.on('error', () => {});
  });
  await new Promise<void>((done) => gateway.listen(0, '127.0.0.1', done));
  const { port } = gateway.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close() {
      gateway.closeAllConnections();
      gateway.close();
    },
  };
}
const gone = () => new Response('upstream unavailable', { status: 503 });

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

test('names each service that does not answer or is set wrongly, with what to do', async () => {
  let intercept: (path: string) => Response | null = () => null;
  const gateway = await openGateway((path) => intercept(path));
  const names = async () => (await failing({ url: gateway.url })).map(({ name }) => name);
  try {
    expect(await names()).toEqual(['Catalogue']);
    intercept = (path) => (path.startsWith('/auth/') ? gone() : null);
    expect(await names()).toEqual(['Sign-in', 'Catalogue']);
    intercept = (path) => (path.startsWith('/storage/') ? gone() : null);
    expect(await names()).toEqual(['Storage', 'Catalogue']);
    intercept = (path) => (path.startsWith('/realtime/') ? gone() : null);
    const address = { url: gateway.url, publishableKey: keys.publishable, secretKey: keys.secret };
    expect(await checkRealtime(address, 500)).toMatchObject({
      problem: expect.stringContaining('realtime does not answer'),
    });
    intercept = (path) =>
      path === '/functions/v1/mobile-money/reach/check' ? new Response(null, { status: 401 }) : null;
    expect(await names()).toEqual(['Payment function', 'Catalogue']);
    const settings = { external: { email: false }, disable_signup: true, mailer_autoconfirm: false };
    intercept = (path) => (path === '/auth/v1/settings' ? Response.json(settings) : null);
    expect((await failing({ url: gateway.url }))[0]).toMatchObject({
      name: 'Sign-in',
      problem: expect.stringContaining('sign-in by email is off'),
      remedy: expect.stringContaining('Sign In / Providers'),
    });
    intercept = (path) =>
      path === '/auth/v1/settings'
        ? Response.json({ ...settings, external: { email: true }, disable_signup: false })
        : null;
    expect((await failing({ url: gateway.url }))[0]).toMatchObject({
      problem: 'anyone can create an account',
      remedy: expect.stringContaining('config push'),
    });
    intercept = (path) =>
      path.endsWith('/rpc/applied_migrations') ? Response.json(['20261126094000']) : null;
    expect((await failing({ url: gateway.url }))[0]).toMatchObject({
      name: 'Migrations',
      problem: expect.stringContaining('is missing'),
      remedy: expect.stringContaining('db push'),
    });
    intercept = (path) => (path === '/rest/v1/orders' ? Response.json([{ id: 'x' }]) : null);
    expect(await names()).toEqual(['Rights', 'Catalogue']);
  } finally {
    gateway.close();
  }
});

test('leaves no probe in the storage', async () => {
  const storage = new StorageClient(`${project.url}/storage/v1`, { apikey: keys.secret });
  const { data } = await storage.from('product-images').list('products');
  expect(data?.map(({ name }) => name).filter((name) => name.startsWith('hosted-check'))).toEqual([]);
});

test('goes on selling while sign-in and images are unavailable, and says so', async () => {
  let isBroken = false;
  const gateway = await openGateway((path) => (isBroken && /^\/(auth|storage)\//.test(path) ? gone() : null));
  const ask = createServiceWatch({ url: gateway.url, publishableKey: keys.publishable }, () => true, 0);
  expect(await ask()).toEqual({ auth: true, storage: true, realtime: true });
  isBroken = true;
  expect(await ask()).toEqual({ auth: false, storage: false, realtime: true });
  gateway.close();
  expect(await ask()).toEqual({ auth: false, storage: false, realtime: true });
  expect(await (await fetch(`${shop.url}/readyz`)).text()).toBe('ready\n');
});

test('runs jobs without errors, and is not ready while the project is unavailable', async () => {
  expect(shop.problems()).toEqual([]);
  expect((await fetch(`${shop.url}/readyz`)).status).toBe(200);
  await project.kill();
  await until(async () => (await fetch(`${shop.url}/readyz`)).status === 503, 'the shop is not ready');
  expect((await fetch(`${shop.url}/healthz`)).status).toBe(200);
  const page = await fetch(`${shop.url}/shop/passion-bottle`);
  expect(page.status).toBe(503);
  expect(await page.text()).toContain(`>Reference: ${page.headers.get('x-request-id')}</p>`);
});
