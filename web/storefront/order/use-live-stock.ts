// Stock of the drinks of an open order form. The page may be outdated, and other customers order at the same time.
import { useCallback, useEffect, useState } from 'react';
import { createStore } from '../../../supabase/store.ts';
import { useShop } from '../layout/use-shop.ts';
import type { OrderedProduct, Stock } from './lines/order-lines.ts';

const pollIntervalMs = 5000;
const timeoutMs = 10_000;

export interface LiveStock {
  stockOf(product: OrderedProduct): Stock;
  /** Updates the stock from another response. */
  note(stock: Readonly<Record<string, Stock>>): void;
  refresh(): void;
}

/** @param products as shown on the page, or as found when they were added */
export function useLiveStock(products: readonly OrderedProduct[]): LiveStock {
  const { config } = useShop();
  const [stock, setStock] = useState<Readonly<Record<string, Stock>>>({});
  const [request, setRequest] = useState(0);
  const note = useCallback((found: Readonly<Record<string, Stock>>) => {
    setStock((before) => ({ ...before, ...found }));
  }, []);
  const ids = products.map(({ id }) => id).join();

  // biome-ignore lint/correctness/useExhaustiveDependencies: `request` triggers another request
  useEffect(() => {
    let isStopped = false;
    let isLoading = false;
    const asked = ids.split(',');
    async function poll() {
      if (isLoading || document.visibilityState !== 'visible' || !navigator.onLine) return;
      isLoading = true;
      const { data, error } = await createStore(config)
        .tables.from('products')
        .select('id, stock_quantity:units_for_sale')
        .in('id', asked)
        .eq('is_active', true)
        .abortSignal(AbortSignal.timeout(timeoutMs));
      isLoading = false;
      // Without a response the last known values stay. A proxy in front of the tables may answer with another body.
      if (isStopped || error || !Array.isArray(data)) return;
      const found = new Map(data.map((row) => [row.id, row.stock_quantity]));
      setStock((before) => {
        const next = { ...before };
        for (const id of asked) {
          const unitsLeft = found.get(id);
          if (Number.isInteger(unitsLeft)) next[id] = { unitsLeft: Number(unitsLeft), isOff: false };
          else if (unitsLeft === undefined) next[id] = { unitsLeft: 0, isOff: true };
        }
        return next;
      });
    }
    void poll();
    const timer = setInterval(poll, pollIntervalMs);
    document.addEventListener('visibilitychange', poll);
    return () => {
      isStopped = true;
      clearInterval(timer);
      document.removeEventListener('visibilitychange', poll);
    };
  }, [config, ids, request]);

  return {
    stockOf: ({ id, stock_quantity }) => stock[id] ?? { unitsLeft: stock_quantity, isOff: false },
    note,
    refresh: useCallback(() => setRequest((before) => before + 1), []),
  };
}
