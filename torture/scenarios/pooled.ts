// Orders and payments at three processes behind a pooler, each request at another process, while one of them is killed: after
// M-PESA has accepted its prompt, and before it has recorded that.
import { type PlacedOrder, type Purchase, payOrder, placeOrder } from '../actors/customer.ts';
import { phoneOf } from '../actors/phone.ts';
import { followOrder, type Tracker } from '../actors/tracker.ts';
import { openPooledShops, type PooledShops } from '../environment/pooled-shops.ts';
import type { Violation } from '../money-invariants.ts';
import type { Outcome } from '../report.ts';

export interface Pooled {
  orders: number;
  logs: string;
}

const CUSTOMERS = 8;
/** Timeout of each step; a busy machine is slow. */
const WITHIN_MS = 120_000;

const LASTING_MS = 5_000;

/** Runs the scenario. */
export async function pooled({ orders, logs }: Pooled): Promise<Outcome> {
  const startedAt = performance.now();
  const placed: { id: string; phone: string }[] = [];
  const promptedPhones = new Set<string>();
  let killedAfter: number | null = null;
  const shop = await openPooledShops(logs, {
    processes: 3,
    decide({ call, moment, port, phone }) {
      if (call !== 'push' || moment !== 'answered') return 'forward';
      promptedPhones.add(phone);
      const isDue = killedAfter === null && placed.length >= orders / 2;
      if (!isDue || port !== shop.shops[0]?.port) return 'forward';
      shop.shops[0]?.kill();
      killedAfter = placed.length;
      return 'drop';
    },
  });
  const trackers: Tracker[] = [];
  const violations: Violation[] = [];
  const violate = (invariant: string, subject: string, found: string) =>
    violations.push({ invariant, subject, found });
  const connections = countConnections(shop);
  try {
    const shown = new Map<string, 'broadcast' | 'reconnection'>();
    let next = 0;
    const pages = [await changePage(shop, 'before the kill')];
    const customer = async () => {
      while (next < orders) {
        const index = next;
        next += 1;
        const purchase = purchaseOf(shop, index);
        const shopping = () => ({
          publishableKey: shop.publishableKey,
          timeoutMs: WITHIN_MS,
          ports: () => shop.nextPorts(),
        });
        const order = await placeOrder(shopping(), purchase);
        if ('kind' in order) {
          violate('every customer can order', purchase.phone, JSON.stringify(order));
          continue;
        }
        placed.push({ id: order.id, phone: purchase.phone.slice(1) });
        const tracker = followOrder({
          id: order.id,
          address: purchase.address,
          publishableKey: shop.publishableKey,
          nextPort: () => shop.nextPorts()[0] ?? 0,
          onUpdate: ({ payment_status }) => {
            if (payment_status === 'paid' && !shown.has(order.id)) shown.set(order.id, 'broadcast');
          },
          onReconnected: async () => {
            if ((await readPaymentStatus(shop, order)) === 'paid' && !shown.has(order.id))
              shown.set(order.id, 'reconnection');
          },
        });
        trackers.push(tracker);
        await tracker.ready;
        const paid = await payOrder(shopping(), purchase, order);
        if (paid.kind !== 'prompted') violate('every customer gets a prompt', order.id, JSON.stringify(paid));
      }
    };
    await Promise.all(Array.from({ length: CUSTOMERS }, customer));
    pages.push(await changePage(shop, 'after the kill'));

    // The killed process may have stored a payment and not yet sent its prompt. Such an order stays unpaid for the length of this
    // scenario. There are fewer of them than customers, because each customer has one request at a time.
    const prompted = placed.filter(({ phone }) => promptedPhones.has(phone));
    if (placed.length - prompted.length >= CUSTOMERS)
      violate('every running process sends its prompts', 'orders', `${prompted.length} of ${placed.length}`);
    violations.push(...(await shop.waitForRest(async () => shown.size === prompted.length, WITHIN_MS)));
    if (killedAfter === null) violate('a process is killed', 'shop 1', 'running');
    for (const { id } of prompted)
      if (!shown.has(id)) violate('every tracker shows its payment', id, 'not shown');
    const counted = await shop.query(
      `select order_id, count(*)::integer as payments from public.payments where status = 'completed' group by order_id`,
    );
    if (counted.length !== prompted.length)
      violate('every prompt pays its order', 'orders', `${counted.length} of ${prompted.length}`);
    for (const { order_id, payments } of counted)
      if (payments !== 1) violate('every order is paid once', order_id, `${payments} payments`);
    for (const { stalePorts, moment } of pages)
      for (const port of stalePorts) violate('no page is stale', moment, `the process on port ${port}`);
    const { pooled: most, notifications, momentary } = connections.most();
    if (most > shop.serverConnections) violate('connections stay within the pool', 'pooler', String(most));
    if (notifications > shop.shops.length)
      violate('one connection per process for notifications', 'PostgreSQL', String(notifications));
    return {
      name: 'pooled',
      figures: {
        orders: placed.length,
        'orders before the kill': killedAfter ?? 0,
        prompts: prompted.length,
        'paid once': counted.filter(({ payments }) => payments === 1).length,
        'trackers updated by broadcast': [...shown.values()].filter((how) => how === 'broadcast').length,
        'trackers updated after a reconnection': [...shown.values()].filter((how) => how === 'reconnection')
          .length,
        'server connections, most': most,
        'connections at any moment, most': momentary,
        'slowest page, ms': Math.round(Math.max(...pages.map(({ tookMs }) => tookMs))),
      },
      violations,
      durationMs: performance.now() - startedAt,
    };
  } finally {
    for (const tracker of trackers) tracker.close();
    await connections.stop();
    await shop.close();
  }
}

/** A purchase of another product, by another customer in another network, for each number. */
export function purchaseOf({ products, deliveryFee }: PooledShops, index: number): Purchase {
  const product = products[index % products.length] as PooledShops['products'][number];
  return {
    productIds: [product.id],
    total: product.price + deliveryFee,
    phone: phoneOf(index, '07', '5678'),
    address: `10.0.${(index >> 8) & 255}.${index & 255}`,
  };
}

async function readPaymentStatus(shop: PooledShops, order: PlacedOrder): Promise<string | null> {
  for (const port of shop.nextPorts()) {
    const answer = await fetch(`http://127.0.0.1:${port}/rest/v1/rpc/track_order`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', apikey: shop.publishableKey },
      body: JSON.stringify({ tracking_number: order.tracking_number }),
    }).catch(() => null);
    if (answer?.ok) return ((await answer.json()) as { payment_status: string }).payment_status;
  }
  return null;
}

/** Changes a product, and measures until every running process shows it. */
async function changePage(
  shop: PooledShops,
  moment: string,
): Promise<{ moment: string; tookMs: number; stalePorts: number[] }> {
  const slug = shop.products[0]?.slug;
  const tagline = `Changed ${moment}`;
  const isShown = async (port: number) => {
    const page = await fetch(`http://127.0.0.1:${port}/shop/${slug}`).catch(() => null);
    return page?.ok === true && (await page.text()).includes(tagline);
  };
  let ports = shop.shops.filter((one) => one.isUp()).map(({ port }) => port);
  // The page is cached everywhere.
  for (const port of ports) await isShown(port);
  await shop.query('update public.products set tagline = $1 where slug = $2', [tagline, slug]);
  const changedAt = performance.now();
  while (ports.length > 0 && performance.now() - changedAt < WITHIN_MS) {
    const shown = await Promise.all(ports.map(isShown));
    ports = ports.filter((_, index) => !shown[index]);
    await new Promise((done) => setTimeout(done, 50));
  }
  return { moment, tookMs: performance.now() - changedAt, stalePorts: ports };
}

/**
 * Counts the connections to PostgreSQL several times a second. Short-lived ones are ignored: after a kill the pooler replaces
 * connections before PostgreSQL has closed the old ones.
 */
function countConnections(shop: PooledShops) {
  const most = { pooled: 0, notifications: 0, momentary: 0 };
  const samples: { at: number; pids: Set<number> }[] = [];
  let isStopped = false;
  const counting = (async () => {
    while (!isStopped) {
      const rows: { pid: number; name: string }[] = await shop.query(
        `select pid, application_name as name from pg_stat_activity
         where application_name in ('backend', 'backend notifications')`,
      );
      const at = performance.now();
      most.momentary = Math.max(most.momentary, rows.length);
      samples.push({ at, pids: new Set(rows.map(({ pid }) => pid)) });
      while (samples[1] && samples[1].at < at - LASTING_MS) samples.shift();
      const [earlier] = samples;
      if (earlier && earlier.at < at - LASTING_MS) {
        const lasting = rows.filter(({ pid }) => earlier.pids.has(pid));
        const pooled = lasting.filter(({ name }) => name === 'backend').length;
        most.pooled = Math.max(most.pooled, pooled);
        most.notifications = Math.max(most.notifications, lasting.length - pooled);
      }
      await new Promise((done) => setTimeout(done, 250));
    }
  })();
  return {
    most: () => most,
    async stop() {
      isStopped = true;
      await counting;
    },
  };
}
