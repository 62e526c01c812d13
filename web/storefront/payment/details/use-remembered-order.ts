// What this device has stored about one order.
import { useEffect, useState } from 'react';
import {
  onStoredOrdersChange,
  type RememberedOrder,
  rememberedOrder,
} from '../../../lib/orders/remembered-orders.ts';

/** Undefined before hydration; null if this device did not place the order. */
export function useRememberedOrder(trackingNumber: string): RememberedOrder | null | undefined {
  const [known, setKnown] = useState<RememberedOrder | null>();
  useEffect(() => {
    const read = () => setKnown(rememberedOrder(trackingNumber));
    read();
    return onStoredOrdersChange(read);
  }, [trackingNumber]);
  return known;
}
