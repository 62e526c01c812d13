// Updates a shown order: reloads it on changes, or when some may have been missed.
import { useEffect, useState } from 'react';
import { rememberedOrder } from '../../lib/remembered-orders.ts';
import { withTimeout } from '../../lib/timeout.ts';
import { useShop } from '../layout/use-shop.ts';
import { failedToFetch, lookUpOrder, type TrackedOrder, withLookUp } from './tracked-order.ts';

/** In ms: how long a look-up may take, and how long the next one waits, at least and after some that failed. */
const lookUpTimeoutMs = 10_000;
const shortestWait = 1000;
const longestWait = 16_000;
/** Without the live channel, such as behind a proxy that blocks it, the order is looked up this often. */
const unheardWait = 15_000;
/** The same without proof: those look-ups are limited per network. */
const unheardMaskedWait = 60_000;

/**
 * @param found the order as it was looked up last
 * @param accessKey from the address of the page, when it holds one
 */
export function useFollowedOrder(found: TrackedOrder, accessKey: string | null): TrackedOrder {
  const { config } = useShop();
  const [shown, setShown] = useState(found);
  const [taken, setTaken] = useState(found);
  if (taken !== found) {
    setTaken(found);
    setShown(withLookUp(shown, found));
  }

  const { liveHandle, trackingNumber } = found;
  useEffect(() => {
    let isOver = false;
    let stop = () => {};
    const key = accessKey ?? rememberedOrder(trackingNumber)?.accessKey ?? null;

    let isAsking = false;
    let isStale = false;
    async function askAgain() {
      isStale = true;
      if (isAsking) return;
      isAsking = true;
      // A page of an older build gets no live changes.
      const store = await import('../../lib/store.ts').catch(() => null);
      let wait = shortestWait;
      while (store && isStale && !isOver) {
        isStale = false;
        const lookUp = lookUpOrder(store.createStore(config).tables, trackingNumber, { accessKey: key });
        const answer = await withTimeout(lookUp, lookUpTimeoutMs).catch(() => failedToFetch);
        if (!isOver && answer.kind === 'found') setShown((before) => withLookUp(before, answer.order));
        // Without an answer the shown state stays, and the change is loaded later.
        if (answer.kind !== 'found') {
          isStale = true;
          wait = Math.min(wait * 2, longestWait);
        } else wait = shortestWait;
        // However many news there are, they are not worth more than one look-up a second.
        if (isStale) await new Promise((done) => setTimeout(done, wait));
      }
      isAsking = false;
    }
    const onReturn = () => {
      if (document.visibilityState === 'visible') void askAgain();
    };
    let isHeard = false;
    const timer = setInterval(() => !isHeard && onReturn(), key ? unheardWait : unheardMaskedWait);
    document.addEventListener('visibilitychange', onReturn);
    import('../../lib/live.ts').then(
      ({ followOrder }) => {
        if (isOver) return;
        stop = followOrder(config, liveHandle, {
          // The message is only a hint: the database has the change.
          onChange: () => void askAgain(),
          onGap(isOpen) {
            isHeard = isOpen;
            void askAgain();
          },
        });
      },
      // Without a network the order is shown as it was last known.
      () => {},
    );
    return () => {
      isOver = true;
      clearInterval(timer);
      document.removeEventListener('visibilitychange', onReturn);
      stop();
    };
  }, [config, liveHandle, trackingNumber, accessKey]);

  return shown;
}
