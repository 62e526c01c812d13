// Loads the parts of a page about the orders of this device once there are any, so that first visits do not load
// them.
import { useEffect, useState } from 'react';
import { hasOrders, ordersKey } from '../../lib/orders/stored-orders.ts';

type Parts = typeof import('./parts.tsx');

/** @returns null while this device has no stored orders, or if the code cannot be loaded */
export function useOwnOrdersPart<Name extends keyof Parts>(name: Name): Parts[Name] | null {
  const [parts, setParts] = useState<Parts | null>(null);
  useEffect(() => {
    const check = () => {
      // Without the code the page looks as on a device without orders; tracking pages still show them.
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
