// When an order arrives that is paid now: the call of `delivery_promise`, and the same on an open form.
import { useEffect, useState } from 'react';
import { formatArrival } from '../../../domain/deliveries/delivery-promise.ts';
import { createStore, type Store } from '../../../supabase/store.ts';
import { useShop } from '../layout/use-shop.ts';

/** The answer of `delivery_promise`: when an order arrives that is paid now, and when the shop delivers next, if it does not now. */
interface DeliveryPromise {
  arrivesBy: string;
  opensAt: string | null;
}

/** @returns null for an answer without a time: there is no open time in 60 days */
export function readPromise(answer: unknown): DeliveryPromise | null {
  const { arrives_by: arrivesBy, opens_at: opensAt } = (answer ?? {}) as Record<string, unknown>;
  return typeof arrivesBy === 'string'
    ? { arrivesBy, opensAt: typeof opensAt === 'string' ? opensAt : null }
    : null;
}

/** Such as `Arrives by 22:14`, or `Opens at 08:00, arrives by 08:45 tomorrow`. */
export function describeArrival({ arrivesBy, opensAt }: DeliveryPromise, now: number): string {
  const arrival = formatArrival(arrivesBy, now);
  if (opensAt === null) return `Arrives by ${arrival}`;
  const opening = formatArrival(opensAt, now);
  // The day is said once.
  const isSameDay = opening.slice(5) === arrival.slice(5);
  return `Opens at ${isSameDay ? opening.slice(0, 5) : opening}, arrives by ${arrival}`;
}

const timeoutMs = 5000;
const everyMs = 60_000;

export interface ShownArrival {
  /** Such as `Arrives by 22:14`. */
  text: string;
  /** Whether the shop does not deliver now. */
  isClosed: boolean;
}

/**
 * @param areaId null: no area
 * @returns null where it cannot be read: the form works without it. Does not throw
 */
export async function readArrival(
  tables: Store['tables'],
  areaId: string | null,
): Promise<ShownArrival | null> {
  const { data } = await tables
    .rpc('delivery_promise', { area_id: areaId })
    .abortSignal(AbortSignal.timeout(timeoutMs));
  const promise = readPromise(data);
  return promise && { text: describeArrival(promise, Date.now()), isClosed: promise.opensAt !== null };
}

/** The arrival of an order for an area, current while the page is shown. */
export function useArrival(areaId: string | null): ShownArrival | null {
  const { config } = useShop();
  const [read, setRead] = useState<{ areaId: string | null; arrival: ShownArrival | null } | null>(null);
  useEffect(() => {
    let isStopped = false;
    const { tables } = createStore(config);
    const load = async () => {
      if (document.visibilityState === 'hidden') return;
      const arrival = await readArrival(tables, areaId);
      if (!isStopped) setRead({ areaId, arrival });
    };
    void load();
    const timer = setInterval(load, everyMs);
    document.addEventListener('visibilitychange', load);
    return () => {
      isStopped = true;
      clearInterval(timer);
      document.removeEventListener('visibilitychange', load);
    };
  }, [config, areaId]);
  return read?.areaId === areaId ? read.arrival : null;
}
