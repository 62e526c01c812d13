// The orders of this device that are under way, or the last one: their state, the next action, and a button to remove them from the
// device. While none is under way, the last delivered one is offered again.
import { useRef, useState } from 'react';
import { Link } from 'react-router';
import { formatOrderDate } from '../../lib/orders/order-date.ts';
import { describeOrdered, forgetOrders, orderedDrinks } from '../../lib/orders/remembered-orders.ts';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { TextWithAmounts } from '../../ui/price.tsx';
import { OrderAgainLink } from '../order/order-again-link.tsx';
import { isUnderWay, type OwnOrder, type OwnOrders, useOwnOrders } from '../own-orders/order-states.ts';
import { PayNow } from '../payment/pay-now.tsx';
import { ForgetButton, SameAgain } from '../same-again/same-again.tsx';
import { useSameAgain } from '../same-again/use-same-again.tsx';

/** The pressed button disappears: focus moves to its replacement. */
const takeFocus = (element: HTMLElement | null) => element?.focus();

export default function LastOrder() {
  const { orders, answer } = useOwnOrders();
  const sameAgain = useSameAgain(answer === 'answered' && !orders.some(isUnderWay));
  const [isConfirming, setConfirming] = useState(false);
  const [isForgotten, setForgotten] = useState(false);
  const card = useRef<HTMLElement>(null);
  const shown = ordersToShow(orders, answer);
  const { offer } = sameAgain;
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
  // Its row says more than that of the last order, which it replaces.
  const rows = offer ? shown.filter(({ order }) => order.orderId !== offer.earlier.orderId) : shown;
  const isOverlong = rows.length > maxRows + 1;
  const row = (own: OwnOrder, index: number) => (
    <Row
      key={own.order.orderId}
      own={own}
      answer={answer}
      isOfferLoading={sameAgain.isLoading}
      onForget={index === 0 && !offer ? () => confirmForgetting(true) : undefined}
    />
  );
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
        <>
          <ul className="divide-y divide-line">
            {offer ? (
              <li>
                <SameAgain offer={offer} onOrder={sameAgain.open} onForget={() => confirmForgetting(true)} />
              </li>
            ) : null}
            {(isOverlong ? rows.slice(0, maxRows) : rows).map(row)}
          </ul>
          {isOverlong ? (
            <details className="border-t border-line">
              <summary className="inline-flex min-h-11 cursor-pointer items-center px-4 text-sm font-semibold text-dusk-600 underline underline-offset-2 sm:px-5">
                {rows.length - maxRows} more orders
              </summary>
              <ul className="divide-y divide-line border-t border-line">
                {rows.slice(maxRows).map((own) => row(own, maxRows))}
              </ul>
            </details>
          ) : null}
        </>
      )}
      {sameAgain.dialog}
    </section>
  );
}

const isDue = ({ meaning }: OwnOrder): boolean => meaning?.canPay === true;

/** More are behind "2 more orders". */
const maxRows = 3;

/**
 * Every order under way, newest first; without any, the last one. Without an answer of the server, every order counts that was under way
 * when it last answered.
 */
export function ordersToShow(orders: readonly OwnOrder[], answer: OwnOrders['answer']): OwnOrder[] {
  const isUnanswered = answer === 'failed' || answer === 'offline';
  const underWay = orders.filter((own) =>
    own.meaning === null ? isUnanswered && !own.order.isOver : isUnderWay(own),
  );
  return underWay.length > 0 ? underWay : orders.slice(0, 1);
}

interface RowProps {
  own: OwnOrder;
  answer: OwnOrders['answer'];
  /** Whether the same may be offered in one tap in a moment. */
  isOfferLoading: boolean;
  /** Given in the row with the button that forgets the orders of this device. */
  onForget?: (() => void) | undefined;
}

function Row({ own, answer, isOfferLoading, onForget }: RowProps) {
  const { order, meaning } = own;
  const { ordered, orderId, trackingNumber, placedAt, accessKey, total, phone } = order;
  // Staff still decide about its money: another order would be paid in addition.
  const isHeld = meaning?.kind === 'checking' || meaning?.kind === 'on_hold';
  return (
    <li className="flex flex-wrap items-center gap-x-4 gap-y-2 py-3 pr-2 pl-4 sm:pr-3 sm:pl-5">
      <div className="min-w-[min(12rem,100%)] flex-1 text-sm leading-snug">
        <p>
          <span className="block text-ink-soft">
            {isUnderWay(own) ? 'Your order' : 'Your last order'},{' '}
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
        {ordered && !isDue(own) && !isHeld && answer !== 'waiting' && !isOfferLoading ? (
          <OrderAgainLink drinks={orderedDrinks(ordered)} orderId={orderId} trackingNumber={trackingNumber} />
        ) : null}
        {onForget ? <ForgetButton onClick={onForget} /> : null}
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
