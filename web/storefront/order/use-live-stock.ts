// How much of a drink is left while its order form is open. The page may be older, and others order at the same time.
import { useCallback, useEffect, useState } from 'react';
import { createStore } from '../../lib/store.ts';
import { useShop } from '../layout/use-shop.ts';

const pollIntervalMs = 5000;
const timeoutMs = 10_000;

export interface LiveStock {
  unitsLeft: number;
  /** Whether the shop has stopped selling it. */
  isOff: boolean;
  /** Updates from another response. */
  note(unitsLeft: number): void;
  refresh(): void;
}

/** @param product as the page shows it */
export function useLiveStock(product: { id: string; stock_quantity: number }): LiveStock {
  const { config } = useShop();
  const [known, setKnown] = useState({ unitsLeft: product.stock_quantity, isOff: false });
  const [asked, setAsked] = useState(0);

  // biome-ignore lint/correctness/useExhaustiveDependencies: `asked` asks again
  useEffect(() => {
    let isOver = false;
    let isAsking = false;
    async function ask() {
      if (isAsking || document.visibilityState !== 'visible' || !navigator.onLine) return;
      isAsking = true;
      const { data, error } = await createStore(config)
        .tables.from('products')
        .select('stock_quantity')
        .eq('id', product.id)
        .eq('is_active', true)
        .abortSignal(AbortSignal.timeout(timeoutMs))
        .maybeSingle();
      isAsking = false;
      // Without an answer the last known value stays.
      if (isOver || error) return;
      if (data === null) setKnown((before) => ({ ...before, isOff: true }));
      else if (Number.isInteger(data.stock_quantity)) {
        setKnown({ unitsLeft: data.stock_quantity, isOff: false });
      }
    }
    void ask();
    const timer = setInterval(ask, pollIntervalMs);
    document.addEventListener('visibilitychange', ask);
    return () => {
      isOver = true;
      clearInterval(timer);
      document.removeEventListener('visibilitychange', ask);
    };
  }, [config, product.id, asked]);

  return {
    ...known,
    note: useCallback((unitsLeft: number) => setKnown((before) => ({ ...before, unitsLeft })), []),
    refresh: useCallback(() => setAsked((before) => before + 1), []),
  };
}
