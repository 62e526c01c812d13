// Latency by size of the shop: each call at 100,000 orders and 10,000 products, and at 1,000 and 30, alternately.
import { randomUUID } from 'node:crypto';
import { pgbouncer, startThrowawayPgbouncer } from '../scripts/throwaway-pgbouncer.ts';
import { startThrowawayPostgresql } from '../scripts/throwaway-postgresql.ts';
import { openStaffShop, type StaffShop } from './staff-shop.ts';

/** A line of the result: medians in milliseconds. */
export interface GrowthRow {
  name: string;
  smallMs: number;
  largeMs: number;
}
interface Size {
  orders: number;
  products: number;
}
interface Point {
  name: string;
  /** Runs before each call, not measured. */
  prepare?(shop: StaffShop, round: number): Promise<unknown>;
  call(shop: StaffShop, round: number): Promise<Response>;
}

const dayMs = 24 * 60 * 60 * 1000;
/** Midday of the newest orders, in Nairobi. */
const newest = Date.UTC(2026, 0, 1, 9);
/** Orders per day at every size: a larger shop has more days. */
const ordersPerDay = 100;
const rowsPerRequest = 1000;
const ids = { order: '0a', payment: '0b' };
const idOf = (kind: keyof typeof ids, index: number) =>
  `${ids[kind]}000000-0000-4000-8000-${String(index).padStart(12, '0')}`;
const timeOf = (index: number) => new Date(newest - Math.floor(index * (dayMs / ordersPerDay))).toISOString();
const receiptOf = (index: number) => `UBN${String(index).padStart(7, '0')}`;
const names = [
  'Amina Kamau',
  'Brian Otieno',
  'Chebet Kiprop',
  'David Mutua',
  'Esther Wanjiku',
  'Faith Achieng',
];
const flavours = ['Mango', 'Passion', 'Tamarind', 'Hibiscus', 'Watermelon'];
const brands = ['Embu Fresh', 'Dusk Energy', 'Meru Gold'];

async function fill(shop: StaffShop, { orders, products }: Size): Promise<void> {
  const listed = await shop.get('/rest/v1/products?select=id', shop.asOwner);
  const seeded = ((await listed.json()) as unknown[]).length;
  await shop.insert('products', Math.max(products - seeded, 0), 500, (index) => ({
    name: `${brands[index % brands.length]} ${flavours[index % flavours.length]} ${index}`,
    slug: `bench-${index}`,
    category: flavours[index % flavours.length],
    brand: brands[index % brands.length],
    price: 95_000,
    stock_quantity: 1_000_000,
    created_at: timeOf(index),
  }));
  await shop.insert('orders', orders, rowsPerRequest, (index) => ({
    id: idOf('order', index),
    order_number: `BENCH-${index}`,
    tracking_number: `JJ-20251001-${100_000 + index}`,
    customer_name: names[index % names.length],
    customer_email: `customer.${index}@mail.example`,
    customer_phone: '+254712345678',
    shipping_address: 'Westlands',
    status: 'delivered',
    payment_status: index % 10 === 0 ? 'unpaid' : 'paid',
    delivery_fee: 100,
    total_amount: 95_100,
    created_at: timeOf(index),
  }));
  await shop.insert('order_items', orders, rowsPerRequest, (index) => ({
    order_id: idOf('order', index),
    product_name: `${brands[index % brands.length]} ${flavours[index % flavours.length]}`,
    quantity: 1,
    unit_price: 95_000,
  }));
  await shop.insert('payments', orders, rowsPerRequest, (index) => ({
    id: idOf('payment', index),
    order_id: idOf('order', index),
    phone: '+254712345678',
    charge_cents: 95_100,
    // All rows need the same columns.
    status: index % 10 === 0 ? 'failed' : 'completed',
    receipt: index % 10 === 0 ? null : receiptOf(index),
    completed_at: index % 10 === 0 ? null : timeOf(index),
    created_at: timeOf(index),
    updated_at: timeOf(index),
  }));
}

const staffCall = (name: string, procedure: string, parameters: Record<string, string> = {}): Point => ({
  name,
  call: (shop) => shop.get(`/rest/v1/rpc/${procedure}?${new URLSearchParams(parameters)}`, shop.asStaff),
});
const pageCall = (name: string, path: (round: number) => string): Point => ({
  name,
  call: (shop, round) => shop.get(path(round), {}),
});

const points: Point[] = [
  staffCall('orders, first page', 'search_orders'),
  staffCall('orders, a rare text', 'search_orders', { search: 'customer.500@' }),
  staffCall('orders, an unknown text', 'search_orders', { search: 'unknown text' }),
  staffCall('orders, two unknown characters', 'search_orders', { search: '%%' }),
  staffCall('count of orders', 'count_orders'),
  staffCall('count of delivered orders', 'count_orders', { status: 'delivered' }),
  staffCall('counts of open work', 'count_work'),
  staffCall('dashboard figures', 'dashboard_figures'),
  staffCall('figures of 30 days', 'daily_figures'),
  staffCall('a day of the reconciliation', 'reconciliation_day', { day: '2025-12-28' }),
  {
    name: 'staff product search, nothing found',
    call: (shop) => shop.get('/rest/v1/products?select=id,name&name=ilike.*zzz*&limit=50', shop.asStaff),
  },
  pageCall('/shop with a search, not cached', (round) => `/shop?search=mango%20${round}`),
  pageCall('/shop with a filter, not cached', (round) => `/shop?brand=Embu%20Fresh&category=none${round}`),
  {
    name: 'sitemap, not cached',
    // A change of the settings drops every cached page.
    async prepare(shop, round) {
      await shop.send('PATCH', '/rest/v1/store_settings?id=is.true', { store_name: `Jani ${round}` });
      await new Promise((done) => setTimeout(done, 100));
    },
    call: (shop) => shop.get('/sitemap.xml', {}),
  },
  {
    name: 'tracking of an order',
    call: (shop, round) =>
      shop.send('POST', '/rest/v1/rpc/track_order', { tracking_number: `JJ-20251001-${100_500 + round}` }),
  },
  {
    name: 'place an order',
    async call(shop) {
      return shop.send('POST', '/rest/v1/rpc/place_order', {
        idempotency_key: randomUUID(),
        product_id: shop.productId,
        quantity: 1,
        customer_name: 'Amina Kamau',
        customer_email: 'amina@example.com',
        customer_phone: '0712345678',
        delivery_location: 'Westlands',
        expected_total: 95_100,
      });
    },
  },
];

/** How the two shops run: one process on PGlite or PostgreSQL, or three behind PgBouncer in transaction mode. */
export const growthSetups = ['pglite', 'postgresql', 'three-processes'] as const;
type Setup = (typeof growthSetups)[number];

/** Opens a shop of a size, with all that it needs. */
async function openFilled(setup: Setup, size: Size): Promise<StaffShop> {
  const cluster = setup === 'pglite' ? null : await startThrowawayPostgresql({});
  const pooler =
    cluster && setup === 'three-processes' ? await startThrowawayPgbouncer(cluster.url, 8) : null;
  const environment = {
    ...(cluster ? { DATABASE_URL: pooler?.url ?? cluster.url } : {}),
    ...(cluster && pooler ? { DATABASE_LISTEN_URL: cluster.url } : {}),
  };
  const shop = await openStaffShop(environment, pooler ? 3 : 1);
  await fill(shop, size);
  return {
    ...shop,
    async close() {
      await shop.close();
      await pooler?.stop();
      await cluster?.stop();
    },
  };
}

/**
 * @param sizes the small and the large shop
 * @param rounds calls of each point at each size
 */
export async function benchGrowth(
  sizes: { small: Size; large: Size },
  rounds: number,
  setups: readonly Setup[],
): Promise<GrowthRow[]> {
  const rows: GrowthRow[] = [];
  for (const setup of setups) {
    if (setup === 'three-processes' && !pgbouncer) {
      console.warn('PgBouncer is not installed: growth with three processes is not measured.');
      continue;
    }
    const small = await openFilled(setup, sizes.small);
    const large = await openFilled(setup, sizes.large);
    try {
      for (const point of points) {
        const [smallMs, largeMs] = await measure(point, small, large, rounds);
        rows.push({ name: `${point.name} (${setup})`, smallMs, largeMs });
      }
    } finally {
      await Promise.all([small.close(), large.close()]);
    }
  }
  return rows;
}

/** Calls both alternately, one call at a time, to measure the latency for one person. */
async function measure(
  { name, prepare, call }: Point,
  small: StaffShop,
  large: StaffShop,
  rounds: number,
): Promise<[smallMs: number, largeMs: number]> {
  const times = new Map<StaffShop, number[]>([
    [small, []],
    [large, []],
  ]);
  // The first calls fill caches and do not count.
  const warmUp = Math.min(6, rounds);
  for (let round = 0; round < rounds + warmUp; round += 1) {
    for (const [shop, taken] of times) {
      await prepare?.(shop, round);
      const begun = performance.now();
      const answer = await call(shop, round);
      const text = await answer.text();
      if (round >= warmUp) taken.push(performance.now() - begun);
      if (!answer.ok) throw new Error(`${name}: ${answer.status} ${text.slice(0, 300)}`);
    }
  }
  return [median(times.get(small)), median(times.get(large))];
}

const median = (times: number[] = []) =>
  times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)] ?? Number.NaN;
