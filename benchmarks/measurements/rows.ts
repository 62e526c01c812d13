// The rows: each is some work of the shop, measured on PostgreSQL and on PGlite from outside.
import { type BenchShop, memoryOf, slug, staff } from '../shops/bench-shop.ts';
import { type LiveTrackers, openTrackers } from './live-trackers.ts';
import { load, type Requests } from './load.ts';
import {
  findCallbackRate,
  loadOrdersAndPrompts,
  orderForm,
  payAtOnce,
  placeOrder,
  totalOf,
} from './payments.ts';

export interface Row {
  name: string;
  unit: '/s' | 'ms' | 's' | 'MB';
  /** Whether less is better. */
  isCost?: true;
  measure(shop: BenchShop): Promise<number>;
}

/** Rows that are measured in the same rounds, with the yardstick that they are compared with. */
export interface RowGroup {
  yardstick?: Yardstick;
  /** Rounds, if not as many as of the others. */
  rounds?: number;
  prepare?(shop: BenchShop): Promise<unknown>;
  rows: Row[];
}

interface Yardstick {
  name: string;
  measure(): Promise<number>;
}

export interface Effort {
  rounds: number;
  /** Of each load, whole ones. */
  seconds: number;
  unpaidOrders: number;
  trackers: number;
  customersAtOnce: number;
  highestCallbackRate: number;
  /** Before memory is read. */
  restSeconds: number;
}

export const efforts: Record<'full' | 'trial', Effort> = {
  full: {
    rounds: 5,
    seconds: 2,
    unpaidOrders: 20_000,
    trackers: 1000,
    customersAtOnce: 100,
    highestCallbackRate: 500,
    restSeconds: 20,
  },
  trial: {
    rounds: 1,
    seconds: 1,
    unpaidOrders: 300,
    trackers: 100,
    customersAtOnce: 20,
    highestCallbackRate: 20,
    restSeconds: 1,
  },
};

/** Bare servers and TPC-B of a run. */
export interface Yardsticks {
  /** URL of the bare driver on the shop's database. */
  listUrl: string;
  listName: string;
  /** URL of a bare server with 5 kB. */
  httpUrl: string;
  /** URLs of bare servers with the bytes of cached pages. */
  sameBytes: Record<string, string>;
  tpcb(seconds: number): Promise<number>;
}

const listPath = '/rest/v1/products?select=*&is_active=eq.true&order=created_at.desc';
const pagePaths = { shop: '/shop', product: `/shop/${slug}` };
/** Pages whose bytes bare servers send. */
export const cachedPages: readonly string[] = Object.values(pagePaths);
const brotli = { 'accept-encoding': 'br' };
const json = { 'content-type': 'application/json' };
const detailColumns = 'id,description,slug,name,tagline,price,image_url,category,brand,stock_quantity';
const listedColumns =
  'id,order_number,customer_name,customer_email,customer_phone,shipping_address,city,created_at,total_amount,status,payment_status,order_items(quantity,product_name),payments(status)';

/** Lists the rows, in the order in which they are measured. */
export function listRows(effort: Effort, yardsticks: Yardsticks): RowGroup[] {
  const { seconds } = effort;
  const perSecond = (name: string, requestsOf: (shop: BenchShop) => Requests | Promise<Requests>): Row => ({
    name,
    unit: '/s',
    measure: async (shop) => load(shop.url, await requestsOf(shop), seconds),
  });
  const bare = (name: string, url: string, requests: Requests): Yardstick => ({
    name,
    measure: () => load(url, requests, seconds),
  });
  const tpcb: Yardstick = { name: 'TPC-B', measure: () => yardsticks.tpcb(seconds) };
  const placeOrders = async (shop: BenchShop): Promise<Requests> => ({
    method: 'POST',
    path: '/rest/v1/rpc/place_order',
    headers: { ...shop.asVisitor, ...json },
    body: JSON.stringify(orderForm(await totalOf(shop), '{8}-{4}-4{3}-8{3}-{12}', '07{8}')),
    connections: 8,
  });
  const placeUnpaid = async (shop: BenchShop, count: number) => {
    const requests = await placeOrders(shop);
    while ((await shop.count('/rest/v1/orders?status=eq.pending&payment_status=eq.unpaid&select=id')) < count)
      await load(shop.url, requests, Math.min(10, 5 * seconds));
  };
  const trackedOrders = new Map<BenchShop, Awaited<ReturnType<typeof placeOrder>>>();
  const trackers = new Map<BenchShop, LiveTrackers>();
  const trackerRow = (count: number, rate: number): Row => ({
    name: `${count.toLocaleString('en')} trackers, ${rate} changes/s: p95`,
    unit: 'ms',
    isCost: true,
    async measure(shop) {
      const opened = trackers.get(shop) ?? (await openTrackers(shop, 2 * effort.trackers));
      trackers.set(shop, opened);
      await opened.grow(count);
      // Long enough for a 95th percentile.
      return opened.measure(rate, 3 * seconds);
    },
  });

  return [
    {
      yardstick: bare(yardsticks.listName, yardsticks.listUrl, { path: '/' }),
      async prepare(shop) {
        const total = await totalOf(shop);
        for (let placed = 0; placed < 20; placed += 1) trackedOrders.set(shop, await placeOrder(shop, total));
      },
      rows: [
        perSecond('product list', ({ asVisitor }) => ({ path: listPath, headers: asVisitor })),
        perSecond('product detail data', ({ asVisitor }) => ({
          method: 'POST',
          path: `/rest/v1/rpc/product_and_related?select=${detailColumns}`,
          headers: { ...asVisitor, ...json },
          body: JSON.stringify({ product_slug: slug, related_limit: 3 }),
        })),
        perSecond('track_order', (shop) => {
          const { tracking_number, access_key } = trackedOrders.get(shop) ?? {};
          return {
            method: 'POST',
            path: '/rest/v1/rpc/track_order',
            headers: { ...shop.asVisitor, ...json },
            body: JSON.stringify({ tracking_number, access_key }),
          };
        }),
        perSecond('staff list of 20 orders', ({ asStaff }) => ({
          path: `/rest/v1/rpc/search_orders?page_size=20&select=${listedColumns}&payments.status=eq.review&order=created_at.desc,id.desc`,
          headers: asStaff,
        })),
      ],
    },
    ...Object.entries(pagePaths).map(
      ([name, path]): RowGroup => ({
        yardstick: bare('node:http, same bytes', yardsticks.sameBytes[path] ?? '', {
          path,
          headers: brotli,
        }),
        rows: [perSecond(`cached ${name} page`, () => ({ path, headers: brotli }))],
      }),
    ),
    {
      yardstick: bare('node:http, 5 kB', yardsticks.httpUrl, { path: '/' }),
      rows: [
        perSecond('search page, not cached', () => ({ path: '/shop?search=mango%20{8}', headers: brotli })),
        perSecond('sign-in', ({ asVisitor }) => ({
          method: 'POST',
          path: '/auth/v1/token?grant_type=password',
          headers: { ...asVisitor, ...json },
          body: JSON.stringify(staff),
          connections: 8,
        })),
      ],
    },
    {
      yardstick: tpcb,
      rows: [
        perSecond('place_order, 8 clients', placeOrders),
        {
          name: 'order and prompt, 8 customers',
          unit: '/s',
          measure: (shop) => loadOrdersAndPrompts(shop, seconds),
        },
      ],
    },
    {
      rounds: Math.min(3, effort.rounds),
      rows: [
        {
          name: `${effort.customersAtOnce} customers order and pay at once: all know it after`,
          unit: 's',
          isCost: true,
          async measure(shop) {
            const { seconds: known, refused } = await payAtOnce(shop, effort.customersAtOnce);
            if (refused.length > 0)
              console.warn(`${shop.build.name}: ${refused.length} customers were refused: ${refused[0]}`);
            return known;
          },
        },
      ],
    },
    {
      // One measurement tries all rates.
      rounds: 1,
      rows: [
        {
          name: 'callbacks answered within 50 ms',
          unit: '/s',
          measure: (shop) => findCallbackRate(shop, effort.highestCallbackRate),
        },
      ],
    },
    {
      yardstick: tpcb,
      prepare: (shop) => placeUnpaid(shop, effort.unpaidOrders),
      rows: [
        perSecond(
          `place_order beside ${effort.unpaidOrders.toLocaleString('en')} unpaid orders`,
          placeOrders,
        ),
      ],
    },
    {
      prepare: (shop) => placeUnpaid(shop, 2 * effort.trackers),
      rows: [trackerRow(effort.trackers, 50)],
    },
    {
      prepare: (shop) => placeUnpaid(shop, 2 * effort.trackers),
      rows: [trackerRow(2 * effort.trackers, 100)],
    },
    {
      rounds: 1,
      async prepare(shop) {
        trackers.get(shop)?.close();
        await rest(effort);
      },
      rows: [
        { name: 'resident memory after the load', unit: 'MB', isCost: true, measure: residentMb },
        {
          name: 'resident memory, peak',
          unit: 'MB',
          isCost: true,
          measure: async ({ pid }) => (await memoryOf(pid)).peakMb,
        },
      ],
    },
  ];
}

const residentMb = async ({ pid }: BenchShop) => (await memoryOf(pid)).residentMb;

/** What is measured before any load. */
export const idleRows = (effort: Effort): RowGroup => ({
  rounds: 1,
  prepare: () => rest(effort),
  rows: [{ name: 'resident memory, idle', unit: 'MB', isCost: true, measure: residentMb }],
});

const rest = ({ restSeconds }: Effort) => new Promise((done) => setTimeout(done, restSeconds * 1000));
