// "Same again": a few seconds in which it can be undone, then the order and its prompt without another tap.
import { useEffect, useEffectEvent, useState } from 'react';
import { Link } from 'react-router';
import { chargeCents, formatKsh } from '../../../domain/money.ts';
import { formatPhone, normalisePhone } from '../../../domain/people/phone.ts';
import { createStore } from '../../../supabase/store.ts';
import { deviceStorage } from '../../lib/browser/browser-storage.ts';
import {
  orderedDrinks,
  type RememberedOrder,
  rememberedOrder,
  rememberedOrders,
  rememberOrder,
  setPaymentAside,
} from '../../lib/orders/remembered-orders.ts';
import { Button, buttonStyle } from '../../ui/button.tsx';
import {
  DialogBody,
  DialogFooter,
  DialogHeading,
  DialogOrDrawer,
  useKeepOpen,
} from '../../ui/dialog/dialog-or-drawer.tsx';
import { TextWithAmounts } from '../../ui/price.tsx';
import { useAction } from '../../ui/use-action.ts';
import { useShop } from '../layout/use-shop.ts';
import { forgetOrderKey, orderKey } from '../order/form/order-memory.ts';
import { OrderAgainLink } from '../order/order-again-link.tsx';
import { Callout } from '../order/order-callouts.tsx';
import { Amounts } from '../order/order-summary.tsx';
import { type OrderFailure, otherFailure, placeSameOrder } from '../order/place/place-order.ts';
import { useArrival } from '../order/promise.ts';
import { TermsLine } from '../order/terms-line.tsx';
import { isUnderWay, useOwnOrders } from '../own-orders/order-states.ts';
import { useOrderAgain } from '../payment/payment-dialog.tsx';
import { PaymentPanel } from '../payment/payment-panel.tsx';
import { orderedOf, type SameAgainOffer } from './same-again-offer.ts';

/** How long it can be undone before anything is ordered, in ms (docs/product.md#numbers). */
const undoMs = 5000;

interface SameAgainDialogProps {
  offer: SameAgainOffer;
  /** Another one for each opening. */
  opening: number;
  open: boolean;
  onClose(): void;
}

export default function SameAgainDialog({ offer, opening, open, onClose }: SameAgainDialogProps) {
  const [placed, setPlaced] = useState<{ opening: number; order: RememberedOrder } | null>(null);
  const paying = placed?.opening === opening ? placed.order : null;
  const close = () => {
    if (paying) setPaymentAside(paying.orderId);
    onClose();
  };
  return (
    <DialogOrDrawer open={open} onClose={close}>
      {paying ? (
        <Payment order={paying} onClose={close} />
      ) : (
        <BeforeOrdering
          key={opening}
          offer={offer}
          isOpen={open}
          onPlaced={(order) => setPlaced({ opening, order })}
          onClose={close}
        />
      )}
    </DialogOrDrawer>
  );
}

function Payment({ order, onClose }: { order: RememberedOrder; onClose(): void }) {
  const orderAgain = useOrderAgain(order, onClose);
  return <PaymentPanel order={order} onClose={onClose} onOrderAgain={orderAgain} isSentAtOnce />;
}

interface BeforeOrderingProps {
  offer: SameAgainOffer;
  isOpen: boolean;
  onPlaced(order: RememberedOrder): void;
  onClose(): void;
}

function BeforeOrdering({ offer: given, isOpen, onPlaced, onClose }: BeforeOrderingProps) {
  const { config } = useShop();
  const [offer, setOffer] = useState(given);
  const [failure, setFailure] = useState<OrderFailure | null>(null);
  const [refusedFor, setRefusedFor] = useState<string | null>(null);
  const { isRunning, run } = useAction();
  const newer = useNewerOrder();
  const runningNumber = isRunning ? null : (refusedFor ?? newer);
  const arrival = useArrival(offer.areaId);
  const isWaiting = !isRunning && failure === null && runningNumber === null;
  const secondsLeft = useCountdown(isOpen && isWaiting, () => void place());
  useKeepOpen(isRunning);
  const { earlier, drinks, deliveryFee } = offer;
  const charge = formatKsh(chargeCents(offer.total));
  const ordered = orderedOf(offer);

  function place() {
    // Checked before sending: a request that never ends would leave the order in doubt.
    if (!navigator.onLine) {
      setFailure({ kind: 'offline', text: '', field: null });
      return;
    }
    return run(send, (error) => {
      console.warn('The order could not be placed', error);
      setFailure(otherFailure({}, 'unanswered'));
    });
  }

  async function send() {
    // Of the device: a tap in another tab at the same time places the same order.
    const content = JSON.stringify([earlier.accessKey, drinks, offer.total]);
    const key = orderKey(deviceStorage(), content);
    const outcome = await placeSameOrder(createStore(config).tables, earlier.accessKey, offer, key);
    if ('runningNumber' in outcome) {
      setRefusedFor(outcome.runningNumber);
      return;
    }
    if (!outcome.isPlaced) {
      const { failure: refused } = outcome;
      if (refused.kind === 'key_reused') forgetOrderKey(deviceStorage(), content);
      if (refused.kind === 'total_changed') setOffer(withPrices(offer, refused.now));
      setFailure(refused);
      return;
    }
    forgetOrderKey(deviceStorage(), content);
    const { trackingNumber } = outcome.order;
    // Another tab has it, and asks for its payment.
    if (rememberedOrder(trackingNumber)) {
      setRefusedFor(trackingNumber);
      return;
    }
    const order = { ...outcome.order, phone: earlier.phone, ...(ordered ? { ordered } : {}) };
    rememberOrder(order);
    onPlaced(order);
  }

  const canRetry =
    failure?.kind === 'total_changed' ||
    failure?.kind === 'offline' ||
    failure?.kind === 'unanswered' ||
    failure?.kind === 'key_reused';
  return (
    <>
      <DialogHeading title="Same again" description={arrival?.text ?? 'As last time, to the same door.'} />
      <DialogBody>
        {runningNumber ? (
          <Callout title={`You have just ordered this: ${runningNumber}`}>Nothing more was ordered.</Callout>
        ) : (
          <div className="grid grid-cols-1 gap-5">
            <ul aria-label="Drinks" className="font-semibold">
              {drinks.map(({ slug, name, quantity }) => (
                <li key={slug} className="wrap-anywhere">
                  <span className="tabular-nums">{quantity}</span> × {name}
                </li>
              ))}
            </ul>
            <Amounts drinks={drinks} deliveryFee={deliveryFee} />
            <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1.5">
              <dt className="text-ink-soft">To</dt>
              <dd className="font-semibold wrap-anywhere">{offer.place}</dd>
              <dt className="text-ink-soft">M-PESA</dt>
              <dd className="font-semibold tabular-nums">
                {formatPhone(normalisePhone(earlier.phone) ?? earlier.phone)}
              </dd>
            </dl>
            {failure ? (
              <Failure failure={failure} />
            ) : (
              <p role="status" className="rounded-lg bg-dusk-100 px-5 py-3.5 font-semibold text-dusk-900">
                <TextWithAmounts>{`We order this, and ask your phone for ${charge}. You pay with your PIN.`}</TextWithAmounts>
              </p>
            )}
          </div>
        )}
      </DialogBody>
      <DialogFooter isSticky>
        <div className="grid gap-3">
          <TermsLine isTickRequired={false} />
          <div className="grid gap-2 md:grid-cols-[1fr_auto] low:grid-cols-[auto_1fr] md:low:grid-cols-[1fr_auto]">
            {runningNumber ? (
              <Link
                to={`/track-order/${runningNumber}`}
                className={`${buttonStyle('leaf', 'large')} md:order-2 low:order-2`}
              >
                Track your order
              </Link>
            ) : failure && !canRetry ? (
              <OrderAgainLink
                drinks={orderedDrinks(ordered)}
                orderId={earlier.orderId}
                trackingNumber={earlier.trackingNumber}
                label="Open the order form"
              />
            ) : (
              <Button
                size="large"
                onClick={() => void place()}
                isBusy={isRunning}
                className="tabular-nums md:order-2 low:order-2"
              >
                {isRunning
                  ? 'Processing...'
                  : failure?.kind === 'total_changed'
                    ? `Accept and order · ${charge}`
                    : failure
                      ? 'Try Again'
                      : `Order now (${secondsLeft})`}
              </Button>
            )}
            <Button tone="quiet" size="large" disabled={isRunning} onClick={onClose} className="md:mr-auto">
              {failure || runningNumber ? 'Close' : 'Undo'}
            </Button>
          </div>
        </div>
      </DialogFooter>
    </>
  );
}

/** The tracking number of an order of this device that came under way after the dialog had opened, also in another tab. */
function useNewerOrder(): string | null {
  const { orders } = useOwnOrders();
  const [earlierIds] = useState(() => rememberedOrders().map(({ orderId }) => orderId));
  const newer = orders.find((own) => isUnderWay(own) || !earlierIds.includes(own.order.orderId));
  return newer?.order.trackingNumber ?? null;
}

/** Why it was not ordered. */
function Failure({ failure }: { failure: OrderFailure }) {
  switch (failure.kind) {
    case 'total_changed':
      return (
        <Callout title={`New total ${formatKsh(failure.now.total)}`}>
          <TextWithAmounts>{[...failure.changes, 'Nothing was ordered yet.'].join(' ')}</TextWithAmounts>
        </Callout>
      );
    case 'offline':
      return (
        <Callout title="You are offline">
          Nothing was ordered. Try again when your phone has a network.
        </Callout>
      );
    case 'unanswered':
      return (
        <Callout title="We got no answer">
          If your order reached us after all, you get that one and not a second.
        </Callout>
      );
    case 'key_reused':
      return <Callout title="You already placed this order">Try again if you want it once more.</Callout>;
    default:
      return <Callout title="Nothing was ordered">{`${failure.text.replace(/[.]$/, '')}.`}</Callout>;
  }
}

function withPrices(
  offer: SameAgainOffer,
  { prices, deliveryFee, total }: Extract<OrderFailure, { kind: 'total_changed' }>['now'],
): SameAgainOffer {
  const drinks = offer.drinks.map((drink) => ({ ...drink, price: prices[drink.productId] ?? drink.price }));
  return { ...offer, drinks, deliveryFee, total };
}

/**
 * Counts down once.
 * @returns seconds left
 */
function useCountdown(isCounting: boolean, onEnd: () => void): number {
  const [leftMs, setLeftMs] = useState(undoMs);
  const end = useEffectEvent(onEnd);
  useEffect(() => {
    if (!isCounting) return;
    const endsAt = Date.now() + undoMs;
    const timer = setInterval(() => {
      const left = endsAt - Date.now();
      setLeftMs(left);
      if (left > 0) return;
      clearInterval(timer);
      end();
    }, 250);
    return () => clearInterval(timer);
  }, [isCounting]);
  return Math.max(1, Math.ceil(leftMs / 1000));
}
