// Whose order is paid, where it goes and how its drinks look, for the screen after the payment: read while M-PESA answers.
import { useEffect, useState } from 'react';
import { createStore } from '../../../../supabase/store.ts';
import { useShop } from '../../layout/use-shop.ts';
import { lookUpOrder, type OrderDetails } from '../../tracking/tracked-order.ts';

/** @returns null until they are read, without an access key, and where they cannot be read: the screen works without them */
export function useOrderDetails(
  { trackingNumber, accessKey }: { trackingNumber: string; accessKey: string | null },
  isNeeded: boolean,
): OrderDetails | null {
  const { config } = useShop();
  const [details, setDetails] = useState<OrderDetails | null>(null);
  useEffect(() => {
    if (!isNeeded || accessKey === null) return;
    let isStopped = false;
    void lookUpOrder(createStore(config).tables, trackingNumber, { accessKey }).then((lookup) => {
      if (!isStopped && lookup.kind === 'found' && !lookup.order.isMasked) setDetails(lookup.order.details);
    });
    return () => {
      isStopped = true;
    };
  }, [config, trackingNumber, accessKey, isNeeded]);
  return details;
}

/** The name to thank, such as `Wanjiku` of `Wanjiku Kamau`; '' for a name of several words without a first one. */
export const firstNameOf = (name: string): string => {
  const [first = ''] = name.trim().split(/\s+/);
  // Such as "J." or a title, which would read as a mistake.
  return /^\p{L}[\p{L}'’-]+$/u.test(first) && first.length <= 20 ? first : '';
};
