// Loads a part of the page that is about the orders of this device, once there are any: a first visit pays nothing for it.
import { type ComponentType, useEffect, useState } from 'react';
import { hasOrders, onStoredOrdersChange } from '../../lib/remembered-orders.ts';

/**
 * @param load must be stable
 * @returns null until this device remembers an order, and where the code cannot be fetched
 */
export function useOwnOrdersPart<Props>(
  load: () => Promise<{ default: ComponentType<Props> }>,
): ComponentType<Props> | null {
  const [Part, setPart] = useState<ComponentType<Props> | null>(null);
  useEffect(() => {
    let end = () => {};
    let isOver = false;
    const check = () => {
      if (isOver || !hasOrders()) return;
      isOver = true;
      end();
      load().then(
        (loaded) => setPart(() => loaded.default),
        // Without it the page is as for a device without orders; tracking pages still show them.
        () => {},
      );
    };
    end = onStoredOrdersChange(check);
    check();
    return () => {
      isOver = true;
      end();
    };
  }, [load]);
  return Part;
}
