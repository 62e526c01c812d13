// Customers whose tracking pages receive each change of their order.
import { setTimeout as wait } from 'node:timers/promises';
import { followOrder, type Tracker } from '../../torture/actors/tracker.ts';
import { type BenchShop, customerAddress } from '../shops/bench-shop.ts';
import { percentile95 } from './payments.ts';

export interface LiveTrackers {
  /** Opens further trackers until there are so many. */
  grow(count: number): Promise<void>;
  /** Changes orders at a rate. Returns the time in ms in which 95 of 100 changes arrive. */
  measure(perSecond: number, seconds: number): Promise<number>;
  close(): void;
}

const joiningAtOnce = 50;

/** Follows unpaid orders of a shop, which has enough of them. */
export async function openTrackers(shop: BenchShop, most: number): Promise<LiveTrackers> {
  const unpaid = '/rest/v1/orders?select=id&status=eq.pending&payment_status=eq.unpaid&order=id&limit=1000';
  const ids: string[] = [];
  while (ids.length < most) {
    const after = ids.at(-1) ?? '00000000-0000-0000-0000-000000000000';
    const rows: { id: string }[] = await shop.call('GET', `${unpaid}&id=gt.${after}`, shop.asOwner);
    if (rows.length === 0) throw new Error(`${shop.build.name} has only ${ids.length} unpaid orders`);
    ids.push(...rows.map(({ id }) => id));
  }
  const trackers: Tracker[] = [];
  const arrivals = new Map<string, (status: string) => void>();

  const open = async () => {
    const id = ids[trackers.length] ?? '';
    const tracker = followOrder({
      id,
      address: customerAddress(),
      publishableKey: shop.asVisitor.apikey ?? '',
      nextPort: () => Number(new URL(shop.url).port),
      onUpdate: ({ status }) => arrivals.get(id)?.(status),
      onReconnected: () => console.warn(`${shop.build.name}: a tracker lost its connection`),
    });
    trackers.push(tracker);
    await tracker.ready;
  };

  let status = 'pending';
  return {
    async grow(count) {
      while (trackers.length < count) {
        const missing = Math.min(joiningAtOnce, count - trackers.length);
        await Promise.all(Array.from({ length: missing }, open));
      }
    },
    async measure(perSecond, seconds) {
      status = status === 'pending' ? 'processing' : 'pending';
      const changes = ids.slice(0, Math.min(perSecond * seconds, trackers.length));
      const delays = changes.map(async (id, index) => {
        await wait((index * 1000) / perSecond);
        const changed = performance.now();
        const arrived = new Promise<number>((done) => {
          arrivals.set(id, (now) => {
            if (now === status) done(performance.now() - changed);
          });
        });
        const late = wait(10_000, 10_000, { ref: false });
        const change = shop.call('PATCH', `/rest/v1/orders?id=eq.${id}`, shop.asOwner, { status });
        // A change that fails or never arrives counts as late.
        return change.then(
          () => Promise.race([arrived, late]),
          () => late,
        );
      });
      return percentile95(await Promise.all(delays));
    },
    close() {
      for (const tracker of trackers) tracker.close();
    },
  };
}
