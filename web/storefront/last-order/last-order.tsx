// The last order of this device, quietly: to be followed, ordered again, or forgotten.
import { useRef, useState } from 'react';
import { Link } from 'react-router';
import { forgetOrders, rememberedOrders } from '../../lib/remembered-orders.ts';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { Icon } from '../../ui/icons.tsx';
import { formatOrderDate } from '../tracking/order-date.ts';

/** The button that was pressed is gone: one goes on at what took its place. */
const takeFocus = (element: HTMLElement | null) => element?.focus();

export function LastOrder() {
  const [order, setOrder] = useState(() => rememberedOrders()[0] ?? null);
  const [isAsked, setAsked] = useState(false);
  const [isForgotten, setForgotten] = useState(false);
  const card = useRef<HTMLElement>(null);

  function ask(isNowAsked: boolean) {
    setAsked(isNowAsked);
    takeFocus(card.current);
  }
  function forget() {
    forgetOrders();
    delete document.documentElement.dataset.orders;
    setForgotten(true);
    setOrder(null);
  }

  if (isForgotten) {
    return (
      <p
        ref={takeFocus}
        tabIndex={-1}
        role="status"
        className="rounded-xl border border-line bg-card px-5 py-4 text-sm font-semibold outline-none!"
      >
        Your orders are forgotten on this device. You can still look each of them up by its tracking number.
      </p>
    );
  }
  if (!order) return null;
  const { ordered, trackingNumber, placedAt } = order;
  return (
    <section
      ref={card}
      tabIndex={-1}
      aria-label="Your last order"
      className="flex flex-wrap items-center gap-x-4 gap-y-2 rounded-xl border border-line bg-card py-3 pr-2 pl-4 sm:pr-3 sm:pl-5 outline-none!"
    >
      {isAsked ? (
        <>
          <p className="min-w-56 flex-1 text-sm">
            Forget all orders on this device? They stay with us and can be looked up by their numbers.
          </p>
          <span className="flex flex-wrap gap-2">
            <Button tone="danger" onClick={forget}>
              Forget my orders on this device
            </Button>
            <Button tone="quiet" onClick={() => ask(false)}>
              Keep them
            </Button>
          </span>
        </>
      ) : (
        <>
          <p className="min-w-48 flex-1 text-sm leading-snug">
            <span className="block text-ink-soft">
              Your last order, {formatOrderDate(placedAt).replace(/ \d{4} at .*/, '')}
            </span>
            <strong className="line-clamp-2">
              {ordered ? `${ordered.quantity} × ${ordered.name}` : trackingNumber}
            </strong>
          </p>
          <span className="flex grow items-center gap-2 sm:grow-0">
            <Link to={`/track-order/${trackingNumber}`} className={buttonStyle('quiet')}>
              Track
            </Link>
            {ordered ? (
              <Link
                to={`/shop/${ordered.slug}`}
                state={{ orderAgain: ordered.quantity }}
                className={buttonStyle('leaf')}
              >
                Order again
              </Link>
            ) : null}
            <button
              type="button"
              aria-label="Forget my orders on this device"
              onClick={() => ask(true)}
              className="ml-auto grid size-11 place-items-center rounded-pill text-ink-soft hover:bg-paper-deep hover:text-ink"
            >
              <Icon name="close" className="size-4" />
            </button>
          </span>
        </>
      )}
    </section>
  );
}
