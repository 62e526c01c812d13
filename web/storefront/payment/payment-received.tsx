// The screen after the payment: thanks, the drinks, when and where they arrive, and what to do next.
import type { RefObject } from 'react';
import { Link } from 'react-router';
import { formatArrival } from '../../../domain/deliveries/delivery-promise.ts';
import { whatsappLink } from '../../../domain/messages/whatsapp-link.ts';
import { chargeCents } from '../../../domain/money.ts';
import { orderLink } from '../../../domain/orders/order-link.ts';
import { describeOrdered } from '../../lib/orders/remembered-orders.ts';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { DialogBody, DialogFooter, DialogHeading } from '../../ui/dialog/dialog-or-drawer.tsx';
import { flavourSlug } from '../../ui/flavour.tsx';
import { Icon } from '../../ui/icons.tsx';
import { Price } from '../../ui/price.tsx';
import { ProductImage } from '../../ui/product-image.tsx';
import type { OrderDetails } from '../tracking/tracked-order.ts';
import { firstNameOf } from './details/use-order-details.ts';
import { TrackingNumber } from './payment-parts.tsx';
import { usePaymentTexts } from './texts/payment-language.tsx';
import type { PayableOrder } from './use-payment.ts';

interface PaymentReceivedProps {
  order: PayableOrder;
  headingRef: RefObject<HTMLHeadingElement | null>;
  /** Null while they are not known. */
  details: OrderDetails | null;
  /** ISO date-time; null while it is not known. */
  arrivesBy: string | null;
  onTrack(): void;
  onClose(): void;
}

/** More would be too small to recognise. */
const maxImages = 3;

export function PaymentReceived({
  order,
  headingRef,
  details,
  arrivesBy,
  onTrack,
  onClose,
}: PaymentReceivedProps) {
  const t = usePaymentTexts();
  const now = Date.now();
  const name = firstNameOf(details?.customerName ?? '');
  const arrival = arrivesBy !== null && Date.parse(arrivesBy) > now ? formatArrival(arrivesBy, now) : null;
  const drinks = order.ordered ? describeOrdered(order.ordered) : '';
  const items = details?.items.slice(0, maxImages) ?? [];
  return (
    <>
      <DialogHeading ref={headingRef} title={t.received} description={drinks} />
      <DialogBody>
        <div className="grid grid-cols-1 gap-4 low:grid-cols-2">
          <div className="payment-scene relative isolate grid min-h-78 content-end overflow-hidden rounded-xl bg-dusk-950 text-white md:min-h-100 low:min-h-44">
            <div
              aria-hidden="true"
              className="absolute inset-x-0 top-0 bottom-14 -z-10 grid auto-cols-fr grid-flow-col"
            >
              {items.map(({ id, imageUrl, category }) => (
                <span key={id} data-flavour={flavourSlug(category)} className="relative overflow-hidden">
                  <ProductImage
                    src={imageUrl}
                    alt=""
                    sizes={items.length > 1 ? '14rem' : '32rem'}
                    isFirst
                    className="absolute inset-0 size-full object-cover object-[50%_45%] text-7xl!"
                  />
                </span>
              ))}
            </div>
            <Tick />
            <div className="bg-linear-to-t from-dusk-950 from-55% via-dusk-950/70 via-75% to-transparent px-5 pt-20 pb-4 low:pt-10">
              <p className="font-display text-3xl leading-tight font-extrabold wrap-anywhere md:text-4xl low:text-3xl">
                {name ? t.thanks(name) : t.thanksWithoutName}
              </p>
              <p role="status" className="mt-1 text-lg font-bold text-ember-300 empty:hidden">
                {arrival && t.arrivesBy(arrival)}
              </p>
              {details?.address ? (
                <p className="mt-0.5 flex items-baseline gap-1.5 text-sm text-dusk-100">
                  <Icon name="pin" className="size-4 shrink-0 translate-y-0.5" />
                  <span className="line-clamp-2 wrap-anywhere">{details.address}</span>
                </p>
              ) : null}
            </div>
          </div>
          <div className="divide-y divide-line self-start rounded-lg border border-line bg-card *:py-1.5 *:pr-2 *:pl-5">
            <div className="flex flex-wrap items-center justify-between gap-x-4">
              <p>
                <span className="block text-xs text-ink-soft">{t.paid}</span>
                <Price cents={chargeCents(order.total)} className="text-lg" />
              </p>
              <Link
                to={orderLink('', order.trackingNumber, order.accessKey ?? null, 'receipt')}
                className="inline-flex min-h-11 items-center rounded-pill px-3 text-sm font-semibold text-dusk-600 hover:bg-paper-deep"
              >
                {t.receipt}
              </Link>
            </div>
            <TrackingNumber number={order.trackingNumber} isFramed={false} />
          </div>
        </div>
      </DialogBody>
      <DialogFooter isSticky>
        <div className="grid grid-cols-2 gap-2 low:grid-cols-[1fr_auto_auto]">
          <Button size="large" onClick={onTrack} className="col-span-full w-full low:col-auto">
            <Icon name="truck" />
            {t.track}
          </Button>
          <Link to="/shop" onClick={onClose} className={`${buttonStyle('quiet')} px-3!`}>
            {t.addAnother}
          </Link>
          <Keep order={order} drinks={drinks} arrival={arrival} />
        </div>
      </DialogFooter>
    </>
  );
}

interface KeepProps {
  order: PayableOrder;
  drinks: string;
  arrival: string | null;
}

/** Sends the order to the customer's own notes or chat, without what reveals the address: it may be passed on. */
function Keep({ order: { trackingNumber }, drinks, arrival }: KeepProps) {
  const t = usePaymentTexts();
  const url = orderLink(location.origin, trackingNumber, null);
  const text = `${t.reminder({ drinks, number: trackingNumber })}.${arrival ? ` ${t.arrivesBy(arrival)}.` : ''}`;
  const chat = whatsappLink(null, `${text} ${url}`);
  return (
    <a
      href={chat}
      target="_blank"
      rel="noreferrer"
      onClick={(event) => {
        if (!navigator.share) return;
        event.preventDefault();
        navigator.share({ text, url }).catch((error: unknown) => {
          const isCancelled = error instanceof DOMException && error.name === 'AbortError';
          if (!isCancelled) window.open(chat, '_blank', 'noopener');
        });
      }}
      className={`${buttonStyle('quiet')} px-3!`}
    >
      {t.keep}
    </a>
  );
}

function Tick() {
  return (
    <span aria-hidden="true" className="payment-tick absolute top-4 right-4 text-dusk-950 drop-shadow-lg">
      <svg viewBox="0 0 96 96" width="56" height="56" aria-hidden="true" className="size-14" fill="none">
        <circle cx="48" cy="48" r="44" className="fill-leaf-300" />
        <path
          d="m29 49.5 13 13 25-28"
          stroke="currentColor"
          strokeWidth="8"
          strokeLinecap="round"
          strokeLinejoin="round"
          pathLength={1}
        />
      </svg>
    </span>
  );
}
