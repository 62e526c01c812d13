// "Same again?": the last delivered order of this device at today's prices, as one tap.
import { Link } from 'react-router';
import { orderedDrinks } from '../../lib/orders/remembered-orders.ts';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { Icon } from '../../ui/icons.tsx';
import { TextWithAmounts } from '../../ui/price.tsx';
import { OrderAgainLink } from '../order/order-again-link.tsx';
import { describeOffer, orderedOf, type SameAgainOffer } from './same-again-offer.ts';

interface SameAgainProps {
  offer: SameAgainOffer;
  onOrder(): void;
  onForget(): void;
}

export function SameAgain({ offer, onOrder, onForget }: SameAgainProps) {
  const { earlier } = offer;
  return (
    <div className="relative flex flex-wrap items-center gap-x-4 gap-y-2 py-3 pr-2 pl-4 sm:pr-3 sm:pl-5">
      <p className="min-w-[min(12rem,100%)] flex-1 text-sm leading-snug max-sm:pr-10">
        <span className="block text-ink-soft">Same again?</span>
        <strong className="line-clamp-3">
          <TextWithAmounts>{describeOffer(offer)}</TextWithAmounts>
        </strong>
      </p>
      <span className="flex grow flex-wrap items-center gap-2 max-sm:[&>a]:px-3.5 sm:grow-0">
        <Button onClick={onOrder} aria-haspopup="dialog">
          Same again
        </Button>
        <OrderAgainLink
          drinks={orderedDrinks(orderedOf(offer))}
          orderId={earlier.orderId}
          trackingNumber={earlier.trackingNumber}
          label="Change"
          tone="quiet"
        />
        <Link to={`/track-order/${earlier.trackingNumber}`} className={buttonStyle('quiet')}>
          Track
        </Link>
        <span className="max-sm:absolute max-sm:top-1 max-sm:right-1">
          <ForgetButton onClick={onForget} />
        </span>
      </span>
    </div>
  );
}

export function ForgetButton({ onClick }: { onClick(): void }) {
  return (
    <button
      type="button"
      aria-label="Forget my orders on this device"
      onClick={onClick}
      className="ml-auto grid size-11 place-items-center rounded-pill text-ink-soft hover:bg-paper-deep hover:text-ink"
    >
      <Icon name="close" className="size-4" />
    </button>
  );
}
