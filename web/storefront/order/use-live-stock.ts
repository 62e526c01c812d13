// Stock of a drink while its order form is open. The page may be outdated, and other customers order at the same
// time.
import { useCallback, useEffect, useState } from 'react';
import { createStore } from '../../../supabase/store.ts';
import { useShop } from '../layout/use-shop.ts';

const pollIntervalMs = 5000;
const timeoutMs = 10_000;

export interface LiveStock {
  unitsLeft: number;
  /** Whether the shop has stopped selling it. */
  isOff: boolean;
  /** Updates the stock from another response. */
  note(unitsLeft: number): void;
  refresh(): void;
}

/** @param product as shown on the page */
export function useLiveStock(product: { id: string; stock_quantity: number }): LiveStock {
  const { config } = useShop();
  const [stock, setStock] = useState({ unitsLeft: product.stock_quantity, isOff: false });
  const [request, setRequest] = useState(0);

  // biome-ignore lint/correctness/useExhaustiveDependencies: `request` triggers another request
  useEffect(() => {
    let isStopped = false;
    let isLoading = false;
    async function poll() {
      if (isLoading || document.visibilityState !== 'visible' || !navigator.onLine) return;
      isLoading = true;
      const { data, error } = await createStore(config)
        .tables.from('products')
        .select('stock_quantity:units_for_sale')
        .eq('id', product.id)
        .eq('is_active', true)
        .abortSignal(AbortSignal.timeout(timeoutMs))
        .maybeSingle();
      isLoading = false;
      // Without a response the last known value stays.
      if (isStopped || error) return;
      if (data === null) setStock((before) => ({ ...before, isOff: true }));
      else if (Number.isInteger(data.stock_quantity)) {
        setStock({ unitsLeft: data.stock_quantity, isOff: false });
      }
    }
    void poll();
    const timer = setInterval(poll, pollIntervalMs);
    document.addEventListener('visibilitychange', poll);
    return () => {
      isStopped = true;
      clearInterval(timer);
      document.removeEventListener('visibilitychange', poll);
    };
  }, [config, product.id, request]);

  return {
    ...stock,
    note: useCallback((unitsLeft: number) => setStock((before) => ({ ...before, unitsLeft })), []),
    refresh: useCallback(() => setRequest((before) => before + 1), []),
  };
}
