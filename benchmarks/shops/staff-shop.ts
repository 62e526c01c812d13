// A shop to measure, with a signed-in staff member.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openShop, until } from '../../scripts/tests/open-shop.ts';

type Headers = Record<string, string>;
export interface StaffShop {
  /** URL of its first process. */
  url: string;
  /** Headers of requests. */
  asStaff: Headers;
  asOwner: Headers;
  /** A product for orders. */
  productId: string;
  get(path: string, headers: Headers): Promise<Response>;
  /** Headers with the secret key. */
  send(method: 'POST' | 'PATCH', path: string, body: unknown): Promise<Response>;
  /** Inserts rows into a table in batches. */
  insert(table: string, count: number, atOnce: number, rowOf: (index: number) => object): Promise<void>;
  /** Restarts the first process. Milliseconds until it is ready. */
  restart(): Promise<number>;
  close(): Promise<void>;
}

const email = 'owner@jani.example';
const password = 'correct horse battery';

/**
 * @param environment further settings, such as DATABASE_URL
 * @param processes of the shop, on one database; each request goes to the next one. Default: 1
 * @param fill adds rows to the database while no process runs
 */
export async function openStaffShop(
  environment: Record<string, string>,
  processes = 1,
  fill?: (dataDir: string) => Promise<void>,
): Promise<StaffShop> {
  const dataDir = await mkdtemp(join(tmpdir(), 'jani-bench-'));
  const settings = { ...environment, ADMIN_EMAIL: email, ADMIN_PASSWORD: password };
  const shop = await openShop(settings, { dataDir });
  if (fill) {
    await shop.close();
    await fill(dataDir);
    await shop.restart();
  }
  const shops = [shop];
  while (shops.length < processes) {
    const shared = { PUBLIC_URL: shop.url, SIMULATOR_PORT: new URL(shop.simulatorUrl).port };
    shops.push(await openShop({ ...settings, ...shared, BACKUPS: 'off' }, { dataDir }));
  }
  let requests = 0;
  const nextUrl = () => {
    requests += 1;
    return shops[requests % shops.length]?.url;
  };
  const { publishable, secret } = await shop.keys();
  const send = (method: string, path: string, headers: Headers, body: unknown) =>
    fetch(`${nextUrl()}${path}`, {
      method,
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
  const asOwner = { apikey: secret };
  let token = '';
  // The shop creates the first account while it starts.
  await until(async () => {
    const path = '/auth/v1/token?grant_type=password';
    const signIn = await send('POST', path, { apikey: publishable }, { email, password });
    token = ((await signIn.json()) as { access_token: string }).access_token;
    return signIn.ok;
  }, 'the first account exists');
  const productId = 'bbbbbbbb-0000-4000-8000-00000000000b';
  const opened: StaffShop = {
    url: shop.url,
    asStaff: { apikey: publishable, authorization: `Bearer ${token}` },
    asOwner,
    productId,
    get: (path, headers) => fetch(`${nextUrl()}${path}`, { headers }),
    send: (method, path, body) => send(method, path, asOwner, body),
    async insert(table, count, atOnce, rowOf) {
      for (let added = 0; added < count; added += atOnce) {
        const rows = Array.from({ length: Math.min(atOnce, count - added) }, (_, index) =>
          rowOf(added + index + 1),
        );
        const answer = await send('POST', `/rest/v1/${table}`, asOwner, rows);
        if (!answer.ok) throw new Error(`rows of ${table} were not added: ${await answer.text()}`);
      }
    },
    async restart() {
      await shop.close();
      const begun = performance.now();
      await shop.restart();
      return performance.now() - begun;
    },
    async close() {
      for (const each of shops.toReversed()) await each.close();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
  await opened.insert('products', 1, 1, () => ({
    id: productId,
    name: 'Bench',
    slug: 'bench',
    price: 95_000,
    stock_quantity: 1_000_000,
  }));
  return opened;
}
