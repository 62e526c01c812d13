// Keeps a shown order current: reloads it after changes, or when changes may have been missed.
import { useEffect, useState } from 'react';
import { withTimeout } from '../../../domain/timeout.ts';
import { onStoredOrdersChange, rememberedOrder } from '../../lib/orders/remembered-orders.ts';
import { useShop } from '../layout/use-shop.ts';
import { failedToFetch, lookUpOrder, type TrackedOrder, withLookup } from './tracked-order.ts';

/** In ms: the timeout of a lookup, and the shortest and longest delay before the next one. */
const lookupTimeoutMs = 10_000;
const shortestWait = 1000;
const longestWait = 16_000;
/** Polling interval in ms without the live channel, for example behind a proxy that blocks it. */
const pollIntervalMs = 15_000;
/** Polling interval without proof: those lookups are limited per network. */
const maskedPollIntervalMs = 60_000;

/**
 * @param found the result of the last lookup
 * @param accessKey from the page's URL, if present
 */
export function useFollowedOrder(found: TrackedOrder, accessKey: string | null): TrackedOrder {
  const { config } = useShop();
  const [shown, setShown] = useState(found);
  const [taken, setTaken] = useState(found);
  if (taken !== found) {
    setTaken(found);
    setShown(withLookup(shown, found));
  }

  const { liveHandle, trackingNumber } = found;
  useEffect(() => {
    let isStopped = false;
    let stop = () => {};
    const key = accessKey ?? rememberedOrder(trackingNumber)?.accessKey ?? null;

    let isLoading = false;
    let isStale = false;
    async function reload() {
      isStale = true;
      if (isLoading) return;
      isLoading = true;
      // A page of an older build receives no live changes.
      const store = await import('../../../supabase/store.ts').catch(() => null);
      let wait = shortestWait;
      while (store && isStale && !isStopped) {
        isStale = false;
        const lookup = lookUpOrder(store.createStore(config).tables, trackingNumber, { accessKey: key });
        const answer = await withTimeout(lookup, lookupTimeoutMs).catch(() => failedToFetch);
        if (!isStopped && answer.kind === 'found') setShown((before) => withLookup(before, answer.order));
        // Without a response the shown state stays, and the change is loaded later.
        if (answer.kind !== 'found') {
          isStale = true;
          wait = Math.min(wait * 2, longestWait);
        } else wait = shortestWait;
        // At most one lookup per second, however many changes arrive.
        if (isStale) await new Promise((done) => setTimeout(done, wait));
      }
      isLoading = false;
    }
    const onReturn = () => {
      if (document.visibilityState === 'visible') void reload();
    };
    let isLive = false;
    const timer = setInterval(() => !isLive && onReturn(), key ? pollIntervalMs : maskedPollIntervalMs);
    document.addEventListener('visibilitychange', onReturn);
    // This device may have changed its drinks.
    const endListening = onStoredOrdersChange(() => void reload());
    import('../../lib/live.ts').then(
      ({ followOrder }) => {
        if (isStopped) return;
        stop = followOrder(config, liveHandle, {
          onChange: () => void reload(),
          onGap(isOpen) {
            isLive = isOpen;
            void reload();
          },
        });
      },
      // Offline, the last known state stays.
      () => {},
    );
    return () => {
      isStopped = true;
      clearInterval(timer);
      document.removeEventListener('visibilitychange', onReturn);
      endListening();
      stop();
    };
  }, [config, liveHandle, trackingNumber, accessKey]);

  return shown;
}
