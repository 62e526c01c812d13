// "Order again": opens the order form with the drinks of an earlier order.
import type { MouseEvent } from 'react';
import { Link, useNavigate } from 'react-router';
import { tabStorage } from '../../lib/browser/browser-storage.ts';
import type { OrderedDrink } from '../../lib/orders/remembered-orders.ts';
import { type ButtonTone, buttonStyle } from '../../ui/button.tsx';
import { useAction } from '../../ui/use-action.ts';
import { useShop } from '../layout/use-shop.ts';
import { fillFormFromOrder, storeDrinks } from './form/order-memory.ts';

interface OrderAgainLinkProps {
  drinks: readonly OrderedDrink[];
  /** Null until the customer has proved that the order is theirs. */
  orderId: string | null;
  trackingNumber: string;
  label?: string;
  tone?: ButtonTone;
}

export function OrderAgainLink({
  drinks,
  orderId,
  trackingNumber,
  label = 'Order again',
  tone = 'leaf',
}: OrderAgainLinkProps) {
  const { config } = useShop();
  const navigate = useNavigate();
  const { isRunning, run } = useAction();
  const [first, ...others] = drinks;
  if (!first) return null;
  const stateOf = ({ quantity }: OrderedDrink) => ({ orderAgain: quantity, like: trackingNumber });

  function open(event: MouseEvent) {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    if (orderId) fillFormFromOrder(tabStorage(), orderId);
    storeDrinks(tabStorage(), null);
    if (others.length === 0 || !first) return;
    event.preventDefault();
    const openFormOf = (drink: OrderedDrink) => navigate(`/shop/${drink.slug}`, { state: stateOf(drink) });
    void run(
      async () => {
        const { prepareOrderAgain } = await import('./lines/order-again.ts');
        await openFormOf(await prepareOrderAgain(config, [first, ...others]));
      },
      // Without the code, one drink can still be ordered again.
      () => void openFormOf(first),
    );
  }

  return (
    <Link
      to={`/shop/${first.slug}`}
      state={stateOf(first)}
      onClick={open}
      data-tapped={isRunning || undefined}
      aria-busy={isRunning || undefined}
      aria-disabled={isRunning || undefined}
      className={buttonStyle(tone)}
    >
      {label}
    </Link>
  );
}
