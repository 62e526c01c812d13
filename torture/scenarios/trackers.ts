// Many live trackers on two processes while orders change many times a second.
import { phoneOf } from '../actors/phone.ts';
import { followOrder, type Tracker } from '../actors/tracker.ts';
import { openPooledShops, type PooledShops } from '../environment/pooled-shops.ts';
import type { Violation } from '../money-invariants.ts';
import type { Outcome } from '../report.ts';

export interface Trackers {
  trackers: number;
  updatesPerSecond: number;
  /** Maximum of the 95th percentile of the time from the change to the tracker. */
  p95LimitMs: number;
  logs: string;
}

const JOINING_AT_ONCE = 50;
const WITHIN_MS = 120_000;
/** Each order takes these statuses; the last one is final. */
const STATUSES = ['processing', 'cancelled'];
const FINAL = STATUSES.at(-1);

/** Runs the scenario. */
export async function trackers(options: Trackers): Promise<Outcome> {
  const startedAt = performance.now();
  const shop = await openPooledShops(options.logs, { processes: 2 });
  const open: Tracker[] = [];
  try {
    const ids = await placeOrders(shop, options.trackers);
    const changedAt = new Map<string, number>();
    const last = new Map<string, string>();
    const delays: number[] = [];
    let reconnections = 0;
    const joins = ids.entries();
    const join = async () => {
      for (const [index, id] of joins) {
        const tracker = followOrder({
          id,
          address: `10.${(index >> 8) & 255}.${index & 255}.1`,
          publishableKey: shop.publishableKey,
          nextPort: () => shop.nextPorts()[0] ?? 0,
          onUpdate: ({ status }) => {
            last.set(id, status);
            const since = changedAt.get(`${id} ${status}`);
            if (since !== undefined) delays.push(performance.now() - since);
            changedAt.delete(`${id} ${status}`);
          },
          onReconnected: () => {
            reconnections += 1;
          },
        });
        open.push(tracker);
        await tracker.ready;
      }
    };
    await Promise.all(Array.from({ length: JOINING_AT_ONCE }, join));

    const updatesAt = performance.now();
    const running: Promise<unknown>[] = [];
    for (const status of STATUSES) {
      // A late update must not be overtaken by the next one of the same order.
      await Promise.all(running.splice(0));
      for (const [index, id] of ids.entries()) {
        const due = (index / options.updatesPerSecond) * 1000;
        const round = STATUSES.indexOf(status) * (ids.length / options.updatesPerSecond) * 1000;
        const wait = updatesAt + round + due - performance.now();
        if (wait > 0) await new Promise((done) => setTimeout(done, wait));
        changedAt.set(`${id} ${status}`, performance.now());
        running.push(shop.query('update public.orders set status = $2 where id = $1', [id, status]));
      }
    }
    await Promise.all(running);
    const updatedForMs = performance.now() - updatesAt;
    const missing = () => ids.filter((id) => last.get(id) !== FINAL);
    const deadline = performance.now() + WITHIN_MS;
    while (missing().length > 0 && performance.now() < deadline)
      await new Promise((done) => setTimeout(done, 100));

    const violations: Violation[] = missing().map((id) => ({
      invariant: 'every tracker shows the final status',
      subject: id,
      found: last.get(id) ?? 'nothing',
    }));
    delays.sort((a, b) => a - b);
    const p95 = Math.round(delays[Math.floor(delays.length * 0.95)] ?? Number.NaN);
    if (!(p95 <= options.p95LimitMs))
      violations.push({
        invariant: `95 of 100 updates arrive within ${options.p95LimitMs} ms`,
        subject: 'trackers',
        found: `${p95} ms`,
      });
    return {
      name: 'trackers',
      figures: {
        trackers: ids.length,
        updates: delays.length,
        'updates per second': Math.round((ids.length * STATUSES.length * 1000) / updatedForMs),
        'delay, median ms': Math.round(delays[Math.floor(delays.length / 2)] ?? Number.NaN),
        'delay, 95th percentile ms': p95,
        'delay, longest ms': Math.round(delays.at(-1) ?? Number.NaN),
        reconnections,
      },
      violations,
      durationMs: performance.now() - startedAt,
    };
  } finally {
    for (const tracker of open) tracker.close();
    await shop.close();
  }
}

async function placeOrders({ query, products, deliveryFee }: PooledShops, count: number): Promise<string[]> {
  const [product] = products;
  const rows = await query(
    `select public.place_order(
       idempotency_key => gen_random_uuid(), product_id => $1, quantity => 1, customer_name => 'Amina Kamau',
       customer_email => 'amina@example.com', customer_phone => phone, delivery_location => 'Westlands', expected_total => $2
     ) ->> 'id' as id
     from unnest($3::text[]) as phone`,
    [
      product?.id,
      (product?.price ?? 0) + deliveryFee,
      Array.from({ length: count }, (_, index) => phoneOf(index, '07', '5678')),
    ],
  );
  return rows.map(({ id }) => id as string);
}
