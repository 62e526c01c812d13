// Latency by size of the shop: each call at 100,000 orders and 10,000 products, and at 3,000 and 30, alternately.
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { fillFolder, fillServer, type ShopSize } from '../../scripts/databases/fill-shop.ts';
import { pgbouncer, startThrowawayPgbouncer } from '../../scripts/databases/throwaway-pgbouncer.ts';
import { startThrowawayPostgresql } from '../../scripts/databases/throwaway-postgresql.ts';
import { openStaffShop, type StaffShop } from '../shops/staff-shop.ts';

/** A line of the result: medians in milliseconds. */
export interface GrowthRow {
  name: string;
  smallMs: number;
  largeMs: number;
}
type Size = Pick<ShopSize, 'orders' | 'products'>;
interface Point {
  name: string;
  /** Runs before each call, not measured. */
  prepare?(shop: StaffShop, round: number): Promise<unknown>;
  call(shop: StaffShop, round: number): Promise<Response>;
}

/** Orders per day at every size: a larger shop has more days. Both have more days than any period that a call reads. */
const ordersPerDay = 50;
const day = (ago: number) =>
  new Date(Date.now() - ago * 24 * 60 * 60 * 1000).toLocaleDateString('en-CA', {
    timeZone: 'Africa/Nairobi',
  });

type Parameters = Record<string, string>;
const staffCall = (name: string, procedure: string, parameters: Parameters = {}): Point => ({
  name,
  call: (shop) => shop.get(`/rest/v1/rpc/${procedure}?${new URLSearchParams(parameters)}`, shop.asStaff),
});
const staffList = (name: string, table: string, parameters: Parameters): Point => ({
  name,
  call: (shop) => shop.get(`/rest/v1/${table}?${new URLSearchParams(parameters)}`, shop.asStaff),
});
const visitorCall = (name: string, procedure: string, parameters: Parameters): Point => ({
  name,
  call: ({ asStaff: { apikey = '' }, get }) =>
    get(`/rest/v1/rpc/${procedure}?${new URLSearchParams(parameters)}`, { apikey }),
});
/** The drink with the longest history (scripts/databases/fill-shop.ts). */
const countedDrink = '00000001-0000-4000-8000-000000000001';
/** A call of the background jobs. */
const jobCall = (name: string, procedure: string, body: object = {}): Point => ({
  name,
  call: (shop) => shop.send('POST', `/rest/v1/rpc/${procedure}`, body),
});
const pageCall = (name: string, path: (round: number) => string): Point => ({
  name,
  call: (shop, round) => shop.get(path(round), {}),
});
/** A value of the newest row of a table. */
async function newest(shop: StaffShop, table: string, column: string, filter: Parameters = {}) {
  const parameters = new URLSearchParams({ select: column, order: 'created_at.desc', limit: '1', ...filter });
  const [row] = (await (
    await shop.get(`/rest/v1/${table}?${parameters}`, shop.asOwner)
  ).json()) as Parameters[];
  if (!row?.[column]) throw new Error(`${table} has no such row`);
  return row[column];
}

const points: Point[] = [
  // Today and the lists
  staffCall('orders, first page', 'search_orders'),
  staffCall('orders by total', 'search_orders', { sort: '-total' }),
  staffCall('orders, 1,000 rows for an export', 'search_orders', { page_size: '1000' }),
  staffCall('orders, a rare text', 'search_orders', { search: 'customer.500@' }),
  staffCall('orders, a first name', 'search_orders', { search: 'wanjiku' }),
  staffCall('orders, a full name', 'search_orders', { search: 'wanjiku kamau' }),
  staffCall('orders, part of a phone', 'search_orders', { search: '0712345' }),
  staffCall('orders, a product', 'search_orders', { search: 'mango' }),
  staffCall('orders, an unknown text', 'search_orders', { search: 'unknown text' }),
  staffCall('orders, two unknown characters', 'search_orders', { search: '%%' }),
  staffCall('orders of a rider', 'search_orders', { rider: 'Kevin Otieno' }),
  staffCall('orders that need review', 'search_orders', { payment: 'needs_review' }),
  staffCall('refunded orders', 'search_orders', { payment: 'refunded' }),
  staffCall('late orders', 'search_orders', { due: 'late' }),
  staffCall('orders of ten days', 'search_orders', { from_day: day(30), until_day: day(20) }),
  staffCall('count of orders', 'count_orders'),
  staffCall('count of delivered orders', 'count_orders', { status: 'delivered' }),
  staffCall('count of a broad search', 'count_orders', { search: 'mango' }),
  staffCall('count of a first name', 'count_orders', { search: 'wanjiku' }),
  staffCall('count of two unknown characters', 'count_orders', { search: '%%' }),
  staffCall('count of the orders of a rider', 'count_orders', { rider: 'Kevin Otieno' }),
  staffCall('counts of open work', 'count_work'),
  staffCall('queue of the day', 'work_queue'),
  staffCall('deliveries, first page', 'search_deliveries'),
  staffCall('deliveries by rider', 'search_deliveries', { sort: 'rider' }),
  staffCall('deliveries by customer', 'search_deliveries', { sort: 'customer' }),
  staffCall('deliveries, a first name', 'search_deliveries', { search: 'wanjiku' }),
  staffCall('deliveries of a rider', 'search_deliveries', { rider: 'Kevin Otieno' }),
  staffCall('count of deliveries', 'count_deliveries'),
  staffCall('count of the deliveries of a rider', 'count_deliveries', { rider: 'Kevin Otieno' }),
  staffCall('count of deliveries, a first name', 'count_deliveries', { search: 'wanjiku' }),
  staffCall('recent riders', 'recent_riders'),
  {
    name: 'an order with its rows',
    async call(shop) {
      const id = await newest(shop, 'orders', 'id');
      return shop.get(
        `/rest/v1/orders?id=eq.${id}&select=*,order_items(*),payments(*,refunds(*)),deliveries(*)`,
        shop.asStaff,
      );
    },
  },
  staffCall('dashboard figures', 'dashboard_figures'),
  staffCall('figures of 30 days', 'daily_figures'),
  staffCall('payments since the last visit', 'count_payments_since', { since: new Date().toISOString() }),
  staffCall('system status', 'system_status'),
  // Money
  staffCall('totals of a day', 'day_totals', { day: day(5) }),
  staffCall('cash of a day', 'cash_of_day', { day: day(5) }),
  staffCall('cash due of a day', 'cash_due_of_day', { day: day(5) }),
  staffCall('entries of a month', 'money_entries', { since: day(29), until: day(0) }),
  staffCall('report on a month', 'report', { since: day(29), until: day(0) }),
  staffCall('a day of the reconciliation', 'reconciliation_day', { day: day(5) }),
  staffCall('30 days of the reconciliation', 'reconciliation_days', { since: day(29), until: day(0) }),
  staffCall('status of the statements', 'statement_status'),
  staffCall('payment health', 'payment_health'),
  staffList('messages of M-PESA to check', 'messages_to_check', {
    resolution: 'is.null',
    order: 'id',
    limit: '20',
  }),
  staffList('money without an order', 'mpesa_transactions', {
    select: 'receipt',
    payment_id: 'is.null',
    resolution: 'is.null',
  }),
  {
    name: 'orders that money may be for',
    async call(shop) {
      const filter = { payment_id: 'is.null', resolution: 'is.null', order: 'transacted_at.desc' };
      const receipt = await newest(shop, 'mpesa_transactions', 'receipt', filter);
      return shop.get(`/rest/v1/rpc/suggest_orders?receipt=${receipt}`, shop.asStaff);
    },
  },
  staffList('refunds that wait', 'refunds', {
    select: '*,payment:payments(order:orders(id,order_number,customer_name))',
    or: '(status.in.(requested,unknown),and(sent_twice_at.not.is.null,sent_twice_seen_at.is.null))',
    order: 'created_at',
    limit: '20',
  }),
  staffList('paid orders to decide', 'orders', {
    select:
      'id,order_number,customer_name,status,payment_status,total_amount,order_items(quantity,product_name,product:products(brand)),payments(status,charge_cents,needs_refund,refunded_at,refunds(status))',
    or: '(payment_status.eq.needs_review,and(payment_status.eq.paid,status.eq.cancelled))',
    order: 'created_at.desc',
    limit: '50',
  }),
  // Messages and people
  staffCall('messages, first page', 'search_messages'),
  staffCall('messages, a first name', 'search_messages', { search: 'wanjiku' }),
  staffCall('messages, an unknown text', 'search_messages', { search: 'unknown text' }),
  staffCall('messages, two unknown characters', 'search_messages', { search: '%%' }),
  staffCall('failed messages', 'search_messages', { status: 'failed' }),
  staffCall('message budgets', 'message_budgets'),
  staffCall('inquiries, first page', 'search_inquiries'),
  staffCall('inquiries, an unknown text', 'search_inquiries', { search: 'unknown text' }),
  staffList('newsletter readers, first page', 'newsletter_subscriptions', {
    select: 'id,email,created_at,confirmed_at',
    confirmed_at: 'not.is.null',
    order: 'created_at.desc,id.desc',
    limit: '50',
  }),
  {
    name: 'personal data of a customer',
    async call(shop) {
      const phone = await newest(shop, 'orders', 'customer_phone', { offset: '500' });
      const body = JSON.stringify({ identifier: phone });
      const headers = { ...shop.asStaff, 'content-type': 'application/json' };
      return fetch(`${shop.url}/rest/v1/rpc/export_person`, { method: 'POST', headers, body });
    },
  },
  // Catalogue
  staffCall('products, first page', 'find_products'),
  staffCall('products of a category', 'find_products', { category: 'Mango' }),
  staffCall('products, nothing found', 'find_products', { search: 'zzz' }),
  staffCall('products by stock', 'find_products', { sort: 'stock' }),
  staffCall('products by price', 'find_products', { sort: '-price' }),
  staffCall('history of a product', 'product_history', { product_id: countedDrink }),
  staffCall('history of a product, a later page', 'product_history', {
    product_id: countedDrink,
    before_stock_change: '1000',
    before_price_change: '0',
  }),
  {
    name: 'a product is sold out for an hour, or is back',
    call(shop, round) {
      const body = JSON.stringify({ product_id: shop.productId, span: round % 2 === 0 ? 'hour' : null });
      const headers = { ...shop.asStaff, 'content-type': 'application/json' };
      return fetch(`${shop.url}/rest/v1/rpc/set_sold_out`, { method: 'POST', headers, body });
    },
  },
  staffCall('categories', 'list_categories'),
  staffCall('typical price', 'typical_price'),
  staffList('price changes', 'price_changes', { order: 'id.desc', limit: '20' }),
  pageCall('/shop with a search, not cached', (round) => `/shop?search=mango%20${round}`),
  pageCall('/shop with a filter, not cached', (round) => `/shop?brand=Embu%20Fresh&category=none${round}`),
  visitorCall('suggestions', 'search_products', { search: 'mango', page_size: '5' }),
  visitorCall('a product and related ones', 'product_and_related', { product_slug: 'drink-7' }),
  {
    name: 'sitemap, not cached',
    // A change of the settings drops every cached page.
    async prepare(shop, round) {
      await shop.send('PATCH', '/rest/v1/store_settings?id=is.true', { store_name: `Jani ${round}` });
      await new Promise((done) => setTimeout(done, 100));
    },
    call: (shop) => shop.get('/sitemap.xml', {}),
  },
  // Customers
  {
    name: 'tracking of an order',
    async call(shop) {
      const number = await newest(shop, 'orders', 'tracking_number', { offset: '500' });
      return shop.send('POST', '/rest/v1/rpc/track_order', { tracking_number: number });
    },
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
  // Background jobs
  {
    name: 'lease messages',
    async prepare(shop) {
      const id = await newest(shop, 'outbox_messages', 'id', { status: 'eq.failed' });
      await shop.send('POST', '/rest/v1/rpc/send_message_again', { message_id: id });
    },
    call: (shop) => shop.send('POST', '/rest/v1/rpc/lease_messages', {}),
  },
  jobCall('due jobs', 'claim_due_jobs'),
  jobCall('expire reservations, none due', 'expire_reservations', { at_most: 1 }),
  jobCall('delete personal data after its retention', 'forget_old_rows'),
  jobCall('page views', 'record_page_views', { views: [{ path: '/shop/drink-5', views: 3 }] }),
  jobCall('metrics', 'shop_metrics'),
];

/** How the two shops run: one process on PGlite or PostgreSQL, or three behind PgBouncer in transaction mode. */
export const growthSetups = ['pglite', 'postgresql', 'three-processes'] as const;
type Setup = (typeof growthSetups)[number];

/** Opens a shop of a size, with all that it needs. */
async function openFilled(setup: Setup, size: Size): Promise<StaffShop> {
  const cluster = setup === 'pglite' ? null : await startThrowawayPostgresql({});
  const filled = { ...size, ordersPerDay };
  const fill = (dataDir: string) =>
    cluster ? fillServer(cluster.url, filled) : fillFolder(join(dataDir, 'database'), filled);
  const pooler =
    cluster && setup === 'three-processes' ? await startThrowawayPgbouncer(cluster.url, 8) : null;
  const environment = {
    ...(cluster ? { DATABASE_URL: pooler?.url ?? cluster.url } : {}),
    ...(cluster && pooler ? { DATABASE_LISTEN_URL: cluster.url } : {}),
  };
  const shop = await openStaffShop(environment, pooler ? 3 : 1, fill);
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
 * @param isChosen whether a row is measured
 */
export async function benchGrowth(
  sizes: { small: Size; large: Size },
  rounds: number,
  setups: readonly Setup[],
  isChosen: (name: string) => boolean,
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
      for (const point of points.filter(({ name }) => isChosen(name))) {
        const [smallMs, largeMs] = await measure(point, small, large, rounds);
        rows.push({ name: `${point.name} (${setup})`, smallMs, largeMs });
      }
      if (!isChosen('start')) continue;
      const [start, startLarge] = [await small.restart(), await large.restart()];
      rows.push({ name: `start (${setup})`, smallMs: start, largeMs: startLarge });
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
