// The orders of this device that are under way, or the last one: their state, the next action, and a button to remove them from the
// device.
import { useRef, useState } from 'react';
import { Link } from 'react-router';
import { formatOrderDate } from '../../lib/orders/order-date.ts';
import { isOver } from '../../lib/orders/order-meaning.ts';
import { describeOrdered, forgetOrders, orderedDrinks } from '../../lib/orders/remembered-orders.ts';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { Icon } from '../../ui/icons.tsx';
import { TextWithAmounts } from '../../ui/price.tsx';
import { OrderAgainLink } from '../order/order-again-link.tsx';
import { type OwnOrder, type OwnOrders, useOwnOrders } from '../own-orders/order-states.ts';
import { PayNow } from '../payment/pay-now.tsx';

/** The pressed button disappears: focus moves to its replacement. */
const takeFocus = (element: HTMLElement | null) => element?.focus();

export default function LastOrder() {
  const { orders, answer } = useOwnOrders();
  const [isConfirming, setConfirming] = useState(false);
  const [isForgotten, setForgotten] = useState(false);
  const card = useRef<HTMLElement>(null);
  const shown = ordersToShow(orders);
  const due = shown.filter(isDue);

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
  if (shown.length === 0) return null;
  return (
    <section
      ref={card}
      tabIndex={-1}
      aria-label={shown.length > 1 ? 'Your orders' : 'Your last order'}
      // Several orders would cover the screen.
      data-due={(shown.length === 1 && due.length > 0) || undefined}
      className={`rounded-xl border outline-none! ${due.length > 0 ? 'border-ember-300 bg-ember-50 shadow-lg' : 'border-line bg-card'}`}
    >
      {isConfirming ? (
        <div className="flex flex-wrap items-center gap-x-4 gap-y-2 py-3 pr-2 pl-4 sm:pr-3 sm:pl-5">
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
        </div>
      ) : (
        <ul className="divide-y divide-line">
          {shown.map((own, index) => (
            <Row
              key={own.order.orderId}
              own={own}
              answer={answer}
              onForget={index === 0 ? () => confirmForgetting(true) : undefined}
            />
          ))}
        </ul>
      )}
    </section>
  );
}

const isDue = ({ meaning }: OwnOrder): boolean => meaning?.canPay === true;

/** Every order under way, those to pay first; without any, the last one. Newest first. */
export function ordersToShow(orders: readonly OwnOrder[]): OwnOrder[] {
  const underWay = orders.filter(({ meaning }) => meaning && !isOver(meaning));
  return underWay.length > 0
    ? [...underWay.filter(isDue), ...underWay.filter((own) => !isDue(own))]
    : orders.slice(0, 1);
}

interface RowProps {
  own: OwnOrder;
  answer: OwnOrders['answer'];
  /** Given in the row with the button that forgets the orders of this device. */
  onForget?: (() => void) | undefined;
}

function Row({ own, answer, onForget }: RowProps) {
  const { order, meaning } = own;
  const { ordered, orderId, trackingNumber, placedAt, accessKey, total, phone } = order;
  // Staff still decide about its money: another order would be paid in addition.
  const isHeld = meaning?.kind === 'checking' || meaning?.kind === 'on_hold';
  const isUnderWay = meaning !== null && !isOver(meaning);
  return (
    <li className="flex flex-wrap items-center gap-x-4 gap-y-2 py-3 pr-2 pl-4 sm:pr-3 sm:pl-5">
      <div className="min-w-[min(12rem,100%)] flex-1 text-sm leading-snug">
        <p>
          <span className="block text-ink-soft">
            {isUnderWay ? 'Your order' : 'Your last order'},{' '}
            {formatOrderDate(placedAt).replace(/ \d{4} at .*/, '')}
          </span>
          <strong className="line-clamp-2">{ordered ? describeOrdered(ordered) : trackingNumber}</strong>
        </p>
        <p role="status" className={`min-h-[1lh] ${isDue(own) ? 'font-semibold' : 'text-ink-soft'}`}>
          <TextWithAmounts>{meaning?.summary ?? withoutAnswer[answer]}</TextWithAmounts>
        </p>
      </div>
      <span className="flex grow flex-wrap items-center gap-2 sm:grow-0">
        <PayNow
          order={{ orderId, trackingNumber, total, phone }}
          meaning={meaning}
          accessKey={accessKey}
          isOffered={isDue(own)}
          size="medium"
        />
        <Link to={`/track-order/${trackingNumber}`} className={buttonStyle('quiet')}>
          Track
        </Link>
        {ordered && !isDue(own) && !isHeld && answer !== 'waiting' ? (
          <OrderAgainLink drinks={orderedDrinks(ordered)} orderId={orderId} trackingNumber={trackingNumber} />
        ) : null}
        {onForget ? (
          <button
            type="button"
            aria-label="Forget my orders on this device"
            onClick={onForget}
            className="ml-auto grid size-11 place-items-center rounded-pill text-ink-soft hover:bg-paper-deep hover:text-ink"
          >
            <Icon name="close" className="size-4" />
          </button>
        ) : null}
      </span>
    </li>
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
