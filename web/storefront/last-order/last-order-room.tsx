// Where the last order of this device is told, once it is known that there was one. Its code comes only then.
import { type ComponentType, useEffect, useState } from 'react';

/** The room is kept from the first paint on (`data-orders` is set before it), so that nothing moves when it fills. */
export function LastOrderRoom({ className = '' }: { className?: string }) {
  const [LastOrder, setLastOrder] = useState<ComponentType | null>(null);
  useEffect(() => {
    if (!hasOrders()) return;
    let isGone = false;
    import('./last-order.tsx').then(
      (loaded) => isGone || setLastOrder(() => loaded.LastOrder),
      // Without it the page is the one that strangers see.
      () => {},
    );
    return () => {
      isGone = true;
    };
  }, []);
  return (
    <div className={`in-data-[orders]:min-h-33 sm:in-data-[orders]:min-h-20 ${className}`}>
      {LastOrder ? <LastOrder /> : null}
    </div>
  );
}

function hasOrders(): boolean {
  try {
    return (localStorage.getItem('jani.orders') ?? '[]') !== '[]';
  } catch {
    return false;
  }
}
