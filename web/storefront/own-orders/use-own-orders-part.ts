// Loads the parts of a page that are about the orders of this device, once there are any: a first visit pays nothing for them.
import { useEffect, useState } from 'react';
import { hasOrders, ordersKey } from '../../lib/stored-orders.ts';

type Parts = typeof import('./parts.tsx');

/** @returns null until this device remembers an order, and where the code cannot be fetched */
export function useOwnOrdersPart<Name extends keyof Parts>(name: Name): Parts[Name] | null {
  const [parts, setParts] = useState<Parts | null>(null);
  useEffect(() => {
    const check = () => {
      // Without it the page is as for a device without orders; tracking pages still show them.
      if (hasOrders()) import('./parts.tsx').then(setParts, () => {});
    };
    check();
    const events = [ordersKey, 'storage'];
    for (const event of events) addEventListener(event, check);
    return () => {
      for (const event of events) removeEventListener(event, check);
    };
  }, []);
  return parts?.[name] ?? null;
}
