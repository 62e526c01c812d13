// The last or unpaid order of this device: its state, the next action, and a button to remove it from the device.
import { useRef, useState } from 'react';
import { Link } from 'react-router';
import { formatOrderDate } from '../../../domain/order-date.ts';
import { tabStorage } from '../../lib/browser-storage.ts';
import { forgetOrders } from '../../lib/remembered-orders.ts';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { Icon } from '../../ui/icons.tsx';
import { TextWithAmounts } from '../../ui/price.tsx';
import { fillFormFromOrder } from '../order/order-memory.ts';
import { useOwnOrders } from '../own-orders/order-states.ts';
import { PayNow } from '../payment/pay-now.tsx';

/** The pressed button disappears: focus moves to its replacement. */
const takeFocus = (element: HTMLElement | null) => element?.focus();

export default function LastOrder() {
  const { orders, answer } = useOwnOrders();
  const [isConfirming, setConfirming] = useState(false);
  const [isForgotten, setForgotten] = useState(false);
  const card = useRef<HTMLElement>(null);
  const ownOrder = orders.find(({ meaning }) => meaning?.canPay) ?? orders[0];

  function confirmForgetting(isNowAsked: boolean) {
    setConfirming(isNowAsked);
    takeFocus(card.current);
  }
  function forget() {
    setForgotten(true);
    forgetOrders();
    delete document.documentElement.dataset.orders;
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
  if (!ownOrder) return null;
  const { order, meaning } = ownOrder;
  const { ordered, orderId, trackingNumber, placedAt, accessKey, total, phone } = order;
  const isDue = meaning?.canPay === true;
  // Staff still decide about its money: another order would be paid in addition.
  const isHeld = meaning?.kind === 'checking' || meaning?.kind === 'on_hold';
  return (
    <section
      ref={card}
      tabIndex={-1}
      aria-label="Your last order"
      data-due={isDue || undefined}
      className={`flex flex-wrap items-center gap-x-4 gap-y-2 rounded-xl border py-3 pr-2 pl-4 sm:pr-3 sm:pl-5 outline-none! ${isDue ? 'border-ember-300 bg-ember-50 shadow-lg' : 'border-line bg-card'}`}
    >
      {isConfirming ? (
        <>
          <p className="min-w-[min(14rem,100%)] flex-1 text-sm">
            Forget all orders on this device? They stay with us and can be looked up by their numbers.
          </p>
          <span className="flex flex-wrap gap-2">
            <Button tone="danger" onClick={forget}>
              Forget my orders on this device
            </Button>
            <Button tone="quiet" onClick={() => confirmForgetting(false)}>
              Keep them
            </Button>
          </span>
        </>
      ) : (
        <>
          <div className="min-w-[min(12rem,100%)] flex-1 text-sm leading-snug">
            <p>
              <span className="block text-ink-soft">
                Your last order, {formatOrderDate(placedAt).replace(/ \d{4} at .*/, '')}
              </span>
              <strong className="line-clamp-2">
                {ordered ? `${ordered.quantity} × ${ordered.name}` : trackingNumber}
              </strong>
            </p>
            <p role="status" className={`min-h-[1lh] ${isDue ? 'font-semibold' : 'text-ink-soft'}`}>
              <TextWithAmounts>{meaning?.summary ?? withoutAnswer[answer]}</TextWithAmounts>
            </p>
          </div>
          <span className="flex grow flex-wrap items-center gap-2 sm:grow-0">
            <PayNow
              order={{ orderId, trackingNumber, total, phone }}
              meaning={meaning}
              accessKey={accessKey}
              isOffered={isDue}
              size="medium"
            />
            <Link to={`/track-order/${trackingNumber}`} className={buttonStyle('quiet')}>
              Track
            </Link>
            {ordered && !isDue && !isHeld && answer !== 'waiting' ? (
              <Link
                to={`/shop/${ordered.slug}`}
                state={{ orderAgain: ordered.quantity }}
                onClick={() => fillFormFromOrder(tabStorage(), orderId)}
                className={buttonStyle('leaf')}
              >
                Order again
              </Link>
            ) : null}
            <button
              type="button"
              aria-label="Forget my orders on this device"
              onClick={() => confirmForgetting(true)}
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

/** Without an answer only the stored data is known, not whether the order is paid. */
const withoutAnswer = {
  waiting: '',
  // The server does not have this order.
  answered: '',
  failed: "We couldn't check this order just now.",
  offline: "You are offline, so we can't check this order.",
};
