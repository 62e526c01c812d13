// The pause of orders, as the page's loader or the root's has read it.
import { useMatches } from 'react-router';
import type { OrderPause } from '../../../domain/orders/order-pause.ts';

/** @returns null while the shop takes orders */
export function usePause(): OrderPause | null {
  // The page's own loader comes first: the root's does not run again when the page changes.
  for (const { loaderData } of [...useMatches()].reverse()) {
    if (loaderData && typeof loaderData === 'object' && 'pause' in loaderData) {
      return loaderData.pause as OrderPause | null;
    }
  }
  return null;
}
