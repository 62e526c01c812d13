// Keeps a shown order up to date: asked for again when there is news of it, or when some may have been missed.
import { useEffect, useRef, useState } from 'react';
import { rememberedOrder } from '../../lib/remembered-orders.ts';
import { useShop } from '../layout/use-shop.ts';
import { lookUpOrder, type TrackedOrder, withLookUp } from './tracked-order.ts';

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

  const { id, trackingNumber } = found;
  const isMasked = useRef(found.isMasked);
  isMasked.current = shown.isMasked;
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
      const { createStore } = await import('../../lib/store.ts');
      while (isStale && !isOver) {
        isStale = false;
        const answer = await lookUpOrder(createStore(config).tables, trackingNumber, { accessKey: key });
        // Quietly: what is shown stays when there is no answer.
        if (!isOver && answer.kind === 'found') setShown((before) => withLookUp(before, answer.order));
        // However many news there are, they are not worth more than one look-up a second.
        if (isStale) await new Promise((done) => setTimeout(done, 1000));
      }
      isAsking = false;
    }
    const onReturn = () => {
      if (document.visibilityState === 'visible') void askAgain();
    };

    // This device placed the order, so it may show all of it.
    if (key && isMasked.current) void askAgain();
    document.addEventListener('visibilitychange', onReturn);
    import('../../lib/live.ts').then(
      ({ followOrder }) => {
        if (isOver) return;
        stop = followOrder(config, id, {
          // Anybody may send on a public channel: what changed is what the database says, not what a message says.
          onChange: () => void askAgain(),
          onGap: () => void askAgain(),
        });
      },
      // Without a network the order is shown as it was last known.
      () => {},
    );
    return () => {
      isOver = true;
      document.removeEventListener('visibilitychange', onReturn);
      stop();
    };
  }, [config, id, trackingNumber, accessKey]);

  return shown;
}
