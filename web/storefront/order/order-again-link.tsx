// "Order again": opens the order form with the drinks of an earlier order.
import { type MouseEvent, useState } from 'react';
import { Link, useNavigate } from 'react-router';
import { tabStorage } from '../../lib/browser/browser-storage.ts';
import type { OrderedDrink } from '../../lib/orders/remembered-orders.ts';
import { buttonStyle } from '../../ui/button.tsx';
import { useShop } from '../layout/use-shop.ts';
import { fillFormFromOrder, storeDrinks } from './form/order-memory.ts';

interface OrderAgainLinkProps {
  drinks: readonly OrderedDrink[];
  /** Null until the customer has proved that the order is theirs. */
  orderId: string | null;
  trackingNumber: string;
}

export function OrderAgainLink({ drinks, orderId, trackingNumber }: OrderAgainLinkProps) {
  const { config } = useShop();
  const navigate = useNavigate();
  const [isLoading, setLoading] = useState(false);
  const [first, ...others] = drinks;
  if (!first) return null;
  const stateOf = ({ quantity }: OrderedDrink) => ({ orderAgain: quantity, like: trackingNumber });

  async function open(event: MouseEvent) {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    if (orderId) fillFormFromOrder(tabStorage(), orderId);
    storeDrinks(tabStorage(), null);
    if (others.length === 0 || !first) return;
    event.preventDefault();
    if (isLoading) return;
    setLoading(true);
    try {
      const { prepareOrderAgain } = await import('./lines/order-again.ts');
      const start = await prepareOrderAgain(config, [first, ...others]);
      await navigate(`/shop/${start.slug}`, { state: stateOf(start) });
    } catch {
      // Without the code, one drink can still be ordered again.
      await navigate(`/shop/${first.slug}`, { state: stateOf(first) });
    } finally {
      setLoading(false);
    }
  }

  return (
    <Link
      to={`/shop/${first.slug}`}
      state={stateOf(first)}
      onClick={(event) => void open(event)}
      data-tapped={isLoading || undefined}
      aria-busy={isLoading || undefined}
      className={buttonStyle('leaf')}
    >
      Order again
    </Link>
  );
}
