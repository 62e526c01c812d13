// Ordinary shoppers: each opens a cached page, searches and orders, with its own IP address.
import { randomUUID } from 'node:crypto';
import { clientFrom } from './client.ts';

export interface ShopperTimes {
  /** Durations of requests in milliseconds, and the failed ones. */
  page: number[];
  search: number[];
  order: number[];
  failures: string[];
}

let shoppers = 0;

/**
 * Starts ten shoppers per second.
 * @param port of the shop
 * @param product the product to order; total in cents with the delivery fee
 */
export async function measureShoppers(
  port: number,
  publishableKey: string,
  product: { id: string; total: number },
  durationMs: number,
): Promise<ShopperTimes> {
  const times: ShopperTimes = { page: [], search: [], order: [], failures: [] };
  const until = performance.now() + durationMs;
  const visits: Promise<void>[] = [];
  while (performance.now() < until) {
    visits.push(visit(port, publishableKey, product, times));
    await new Promise((done) => setTimeout(done, 100));
  }
  await Promise.all(visits);
  return times;
}

async function visit(
  port: number,
  publishableKey: string,
  product: { id: string; total: number },
  times: ShopperTimes,
): Promise<void> {
  shoppers += 1;
  // No two of the last thousand shoppers share a /24.
  const address = `127.${100 + (Math.floor(shoppers / 250) % 100)}.${shoppers % 250}.9`;
  const client = clientFrom(port, address, 30_000);
  const note = (
    kind: 'page' | 'search' | 'order',
    { status, durationMs }: { status: number; durationMs: number },
  ) => {
    times[kind].push(durationMs);
    if (status !== 200) times.failures.push(`${kind}: ${status}`);
  };
  note('page', await client.send({ path: '/shop', headers: { 'accept-encoding': 'br' } }));
  // A new search text, so that the page is rendered.
  note(
    'search',
    await client.send({ path: `/shop?search=mango${shoppers}`, headers: { 'accept-encoding': 'br' } }),
  );
  note(
    'order',
    await client.send({
      method: 'POST',
      path: '/rest/v1/rpc/place_order',
      headers: { apikey: publishableKey, 'content-type': 'application/json' },
      body: JSON.stringify({
        idempotency_key: randomUUID(),
        product_id: product.id,
        quantity: 1,
        customer_name: 'Wanjiru Njeri',
        customer_email: 'wanjiru@example.com',
        customer_phone: `07${String(10_000_000 + shoppers)}`,
        delivery_location: 'Kilimani',
        expected_total: product.total,
      }),
    }),
  );
  client.close();
}

/** The percentage of all requests that took longer than a second. */
export function slowPercent({ page, search, order }: ShopperTimes): number {
  const all = [...page, ...search, ...order];
  return (100 * all.filter((durationMs) => durationMs > 1000).length) / all.length;
}

/** The median; NaN of an empty list. */
export function medianOf(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
