// The place of the last order of this device on a page; empty without one.
import { useOwnOrdersPart } from '../own-orders/use-own-orders-part.ts';

/**
 * An unpaid order sticks to the bottom of the screen until its place is reached. The space is reserved from the first
 * paint on (`data-orders` is set before it), so that nothing moves when the order appears.
 */
export function LastOrderSlot({ className = '' }: { className?: string }) {
  const LastOrder = useOwnOrdersPart('LastOrder');
  return (
    <div className={`last-order-slot in-data-[orders]:min-h-38 sm:in-data-[orders]:min-h-25 ${className}`}>
      {LastOrder ? <LastOrder /> : null}
    </div>
  );
}
