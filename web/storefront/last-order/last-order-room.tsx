// Where the last order of this device is shown, once there is one.
import { useOwnOrdersPart } from '../own-orders/use-own-orders-part.ts';

/**
 * While an order waits to be paid, it stays at the bottom of the screen until its place comes.
 * The space is reserved from the first paint on (`data-orders` is set before it), so that nothing moves when it fills.
 */
export function LastOrderRoom({ className = '' }: { className?: string }) {
  const LastOrder = useOwnOrdersPart('LastOrder');
  return (
    <div className={`last-order-room in-data-[orders]:min-h-38 sm:in-data-[orders]:min-h-25 ${className}`}>
      {LastOrder ? <LastOrder /> : null}
    </div>
  );
}
