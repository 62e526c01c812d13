// One order: state, payment, recipient, items and price.
import { lazy, Suspense, useEffect, useRef, useState } from 'react';
import { Link } from 'react-router';
import { whatsappLink } from '../../../domain/messages/whatsapp-link.ts';
import { formatKsh } from '../../../domain/money.ts';
import { describeDiscount } from '../../../domain/orders/discount.ts';
import { formatPhone } from '../../../domain/people/phone.ts';
import { formatDay, formatOrderDate } from '../../lib/orders/order-date.ts';
import { describeOrder, type OrderMeaning, totalLines } from '../../lib/orders/order-meaning.ts';
import { Badge } from '../../ui/badge.tsx';
import { buttonStyle } from '../../ui/button.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { flavourSlug } from '../../ui/flavour.tsx';
import { Icon } from '../../ui/icons.tsx';
import { Price } from '../../ui/price.tsx';
import { ProductImage } from '../../ui/product-image.tsx';
import { useChatLink } from '../layout/chat-link.ts';
import { ShareButton } from '../layout/share-button.tsx';
import { useShop } from '../layout/use-shop.ts';
import { OrderAgainLink } from '../order/order-again-link.tsx';
import { describeOrderArrival } from './arrival.ts';
import { CancelOrder } from './cancel-form.tsx';
import { describeOrderStatus } from './order-status.ts';
import { PaymentState } from './payment-state.tsx';
import { Progress } from './progress.tsx';
import { RevealForm } from './reveal-form.tsx';
import type { TrackedItem, TrackedOrder } from './tracked-order.ts';
import { useFollowedOrder } from './use-followed-order.ts';

interface OrderSheetProps {
  order: TrackedOrder;
  accessKey: string | null;
  digitsProblem: string | null;
  /** Why the order was not cancelled just now. */
  cancelProblem: string | null;
  /** Of a rating that was posted without scripts. */
  ratingProblem: string | null;
  /** The server's time when it read the order, in ms, for hydration. */
  readAt: number;
}

export function OrderSheet({
  order: found,
  accessKey,
  digitsProblem,
  cancelProblem,
  ratingProblem,
  readAt,
}: OrderSheetProps) {
  const order = useFollowedOrder(found, accessKey);
  const status = describeOrderStatus(order.status);
  const { details } = order;
  const payment = useRef<HTMLHeadingElement>(null);
  const customer = useRef<HTMLHeadingElement>(null);
  // The form disappears: focus moves to the heading of its result.
  const sectionToFocus = useRef<typeof payment | null>(null);
  useEffect(() => {
    if (order.isMasked) return;
    sectionToFocus.current?.current?.focus();
    sectionToFocus.current = null;
  }, [order.isMasked]);
  const revealIn = (section: typeof payment, label: string, hint: string) => (
    <RevealForm
      problem={digitsProblem}
      label={label}
      hint={hint}
      onSubmit={() => {
        sectionToFocus.current = section;
      }}
      className="max-w-md"
    />
  );
  const now = useNow(readAt);
  const meaning = describeOrder(order, now);
  const arrival = describeOrderArrival(order, now);
  const amounts = totalLines({ ...order, total: details?.total ?? null });
  const { paidAt, pickedUpAt, deliveredAt } = order.steps;
  const isOnItsWay = order.status === 'out_for_delivery';
  // At the door it is on the first screen of a phone.
  const code = order.proofCode ? <CodeForRider code={order.proofCode} /> : null;
  const isRatable = order.id !== null && order.accessKey !== null && (order.mayRate || order.rating !== null);

  return (
    <article
      aria-labelledby="order"
      data-status={order.status}
      className="grid grid-cols-1 gap-6 rounded-2xl bg-card px-5 py-6 shadow-lg sm:px-8 md:gap-7 md:py-8"
    >
      <div className="flex flex-wrap items-start justify-between gap-x-6 gap-y-3">
        <div className="min-w-0">
          {arrival ? (
            <p className="mb-1 font-display text-3xl leading-tight font-extrabold tabular-nums md:text-4xl">
              {arrival.title}
            </p>
          ) : null}
          {arrival?.text ? <p className="mb-1">{arrival.text}</p> : null}
          <div className={arrival ? 'flex flex-wrap items-baseline gap-x-1.5 text-ink-soft' : ''}>
            <p className="text-sm text-ink-soft">Order</p>
            <h2 id="order" className={`tabular-nums ${arrival ? 'text-sm font-semibold' : 'text-2xl'}`}>
              {order.trackingNumber}
            </h2>
          </div>
        </div>
        <p>
          <span className="sr-only">Status: </span>
          <Badge tone={status.colour}>{status.label}</Badge>
        </p>
      </div>
      {order.rider && isOnItsWay ? <Rider rider={order.rider} trackingNumber={order.trackingNumber} /> : null}
      {isOnItsWay ? code : null}
      <Progress status={order.status} times={[details?.createdAt ?? null, paidAt, pickedUpAt, deliveredAt]} />
      {isOnItsWay ? null : code}
      {isRatable ? (
        <Suspense fallback={null}>
          <RatingForm
            order={{ id: order.id ?? '', accessKey: order.accessKey ?? '' }}
            rating={order.rating}
            mayRate={order.mayRate}
            problem={ratingProblem}
          />
        </Suspense>
      ) : null}
      <StatusAnnouncer order={order} />
      <Actions order={order} meaning={meaning} />

      <PaymentState
        order={order}
        meaning={meaning}
        accessKey={accessKey}
        headingRef={payment}
        reveal={revealIn(
          payment,
          'Show my order',
          'Enter the last four digits of your phone to pay or see the full details.',
        )}
      />

      <CancelOrder order={order} accessKey={accessKey} problem={cancelProblem} resultRef={payment} />

      {details ? (
        <div className="grid grid-cols-1 items-start gap-x-10 gap-y-6 md:grid-cols-[1.35fr_1fr]">
          <div className="grid grid-cols-1 gap-6">
            <Section title="Order items">
              <ul className="grid grid-cols-1 gap-4">
                {details.items.map((item) => (
                  <Item key={item.id} item={item} />
                ))}
              </ul>
              <dl className="mt-5 grid grid-cols-[minmax(min-content,1fr)_minmax(0,auto)] gap-x-4 gap-y-1.5 border-t border-line pt-4 tabular-nums">
                {details.discountCents > 0 ? (
                  <>
                    <dt className="text-ink-soft wrap-anywhere">
                      {describeDiscount(details.discount?.code)}
                    </dt>
                    <dd className="text-right">−{formatKsh(details.discountCents)}</dd>
                  </>
                ) : null}
                <dt className="text-ink-soft">Delivery fee</dt>
                <dd className="text-right">
                  {order.awaitsAgreement
                    ? 'To be agreed'
                    : details.deliveryFee === 0
                      ? 'Free'
                      : formatKsh(details.deliveryFee)}
                </dd>
                {amounts.rounding > 0 ? (
                  <>
                    <dt className="text-ink-soft">Rounded up to whole shillings</dt>
                    <dd className="text-right">{formatKsh(amounts.rounding)}</dd>
                  </>
                ) : null}
                <dt className="text-lg font-bold">
                  {order.awaitsAgreement ? 'Total without delivery' : 'Total amount'}
                </dt>
                <dd className="text-right">
                  <Price
                    cents={amounts.total ?? details.total}
                    className="text-xl max-md:whitespace-normal! wrap-anywhere"
                  />
                </dd>
                {amounts.paid === null ? null : (
                  <>
                    <dt className="text-ink-soft">Paid</dt>
                    <dd className="text-right font-semibold">{formatKsh(amounts.paid)}</dd>
                  </>
                )}
              </dl>
            </Section>
            <Section title="Order details">
              <Facts>
                <Fact name="Tracking number">
                  <span className="flex flex-wrap items-center justify-between gap-x-2">
                    <span className="tabular-nums">{order.trackingNumber}</span>
                    <span className="-my-2.5 -mr-3">
                      <CopyButton text={order.trackingNumber} what="tracking number" isSendable />
                    </span>
                  </span>
                </Fact>
                <Fact name="Order date">
                  <time dateTime={details.createdAt}>{formatOrderDate(details.createdAt)}</time>
                </Fact>
              </Facts>
            </Section>
          </div>
          <div className="grid grid-cols-1 gap-6">
            <Section title="Customer information" headingRef={customer}>
              <Facts>
                <Fact name="Name">{details.customerName}</Fact>
                <Fact name="Phone">{formatPhone(details.customerPhone)}</Fact>
                {details.deliveryDay ? <Fact name="Arrives on">{formatDay(details.deliveryDay)}</Fact> : null}
                {details.areaName ? <Fact name="Area">{details.areaName}</Fact> : null}
                {details.address ? <Fact name="Delivery address">{details.address}</Fact> : null}
              </Facts>
              {order.isMasked && !meaning.canPay ? (
                <div className="mt-5 border-t border-line pt-5">
                  {revealIn(
                    customer,
                    'Show details',
                    'Enter the last four digits of your phone to see the full details.',
                  )}
                </div>
              ) : null}
            </Section>
            {details.deliveryNotes ? (
              <Section title="Delivery notes">
                <p className="whitespace-pre-line">{details.deliveryNotes}</p>
              </Section>
            ) : null}
          </div>
        </div>
      ) : meaning.canPay ? null : (
        <Section title="Order details">
          {revealIn(
            customer,
            'Show details',
            'This order is more than 30 days old. Enter the last four digits of your phone to see the full details.',
          )}
        </Section>
      )}
    </article>
  );
}

/** Loaded on demand: only delivered orders are rated. */
const RatingForm = lazy(() => import('./rating-form.tsx').catch(() => ({ default: () => null })));

function Rider({
  rider: { firstName, plate, phone },
  trackingNumber,
}: {
  rider: NonNullable<TrackedOrder['rider']>;
  trackingNumber: string;
}) {
  return (
    <div className="flex flex-wrap items-center justify-between gap-x-6 gap-y-3 rounded-lg bg-paper-deep px-5 py-3">
      <p className="min-w-[min(10rem,100%)] flex-1 leading-tight">
        <b className="block text-lg wrap-anywhere">{firstName} brings it</b>
        {plate ? <span className="text-ink-soft wrap-anywhere">{plate}</span> : null}
      </p>
      {phone ? (
        <div className="flex grow flex-wrap gap-2 *:grow sm:grow-0">
          <a href={`tel:${phone}`} className={buttonStyle('leaf')}>
            <Icon name="phone" className="size-4.5" />
            Call<span className="sr-only"> {firstName}</span>
          </a>
          <a
            href={whatsappLink(phone, `Habari ${firstName}! It's about order ${trackingNumber}.`)}
            target="_blank"
            rel="noreferrer"
            className={buttonStyle('ember')}
          >
            <Icon name="chat" className="size-4.5" />
            WhatsApp<span className="sr-only"> {firstName}</span>
          </a>
        </div>
      ) : null}
    </div>
  );
}

function CodeForRider({ code }: { code: string }) {
  return (
    <p className="flex flex-wrap items-center justify-between gap-x-4 rounded-lg bg-paper-deep px-5 py-3">
      <span className="min-w-[min(8rem,100%)] flex-1">
        <b className="block">Code for the rider</b>
        Say it once you have your drinks.
      </span>
      <strong className="font-display text-4xl tracking-widest tabular-nums">{code}</strong>
    </p>
  );
}

/** The current time in ms, so that an expired reservation is no longer shown. */
function useNow(first: number): number {
  const [now, setNow] = useState(first);
  useEffect(() => {
    const update = () => setNow(Date.now());
    update();
    const timer = setInterval(update, 15_000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** Orders the same again, asks about this order, and shares the page without the access key. */
function Actions({ order, meaning }: { order: TrackedOrder; meaning: OrderMeaning }) {
  const { config } = useShop();
  const chat = useChatLink();
  // The order form finds out which of them can be ordered now.
  const drinks = (order.details?.items ?? []).flatMap(({ slug, name, quantity }) =>
    slug ? [{ slug, name, quantity }] : [],
  );
  return (
    <div className="-my-2 flex flex-wrap items-center gap-x-3 gap-y-2 max-sm:*:grow max-sm:[&_button]:w-full">
      {meaning.canOrderAgain ? (
        <OrderAgainLink drinks={drinks} orderId={order.id} trackingNumber={order.trackingNumber} />
      ) : null}
      {/* Beside the fee and day to agree on is the same button. */}
      {meaning.kind === 'to_agree' ? null : (
        <a href={chat} target="_blank" rel="noreferrer" className={buttonStyle('quiet')}>
          <Icon name="chat" className="size-4.5" />
          WhatsApp us
        </a>
      )}
      <ShareButton
        url={`${config.publicUrl}/track-order/${order.trackingNumber}`}
        title={`Order ${order.trackingNumber}`}
        label="Share tracking link"
      />
    </div>
  );
}

/** Announces changes to screen readers while the page is open. */
function StatusAnnouncer({ order }: { order: TrackedOrder }) {
  const last = useRef(order);
  const [announcement, setAnnouncement] = useState('');
  useEffect(() => {
    const before = last.current;
    last.current = order;
    const sentences = [
      before.status === order.status
        ? null
        : `Your order is now: ${describeOrderStatus(order.status).label}.`,
      before.paymentStatus === order.paymentStatus &&
      before.paymentCheck === order.paymentCheck &&
      before.isRefunding === order.isRefunding &&
      before.isCancelRequested === order.isCancelRequested
        ? null
        : describeOrder(order, Date.now()).announcement,
      before.promise.again === order.promise.again
        ? null
        : `New time: ${describeOrderArrival(order, Date.now())?.title}.`,
    ].filter(Boolean);
    if (sentences.length > 0) setAnnouncement(sentences.join(' '));
  }, [order]);
  return (
    <p aria-live="polite" className="sr-only">
      {announcement}
    </p>
  );
}

function Section({
  title,
  headingRef,
  children,
}: {
  title: string;
  headingRef?: React.Ref<HTMLHeadingElement>;
  children: React.ReactNode;
}) {
  return (
    <section className="border-t border-line pt-5">
      <h3 ref={headingRef} tabIndex={headingRef ? -1 : undefined} className="mb-3 text-xl outline-none!">
        {title}
      </h3>
      {children}
    </section>
  );
}

function Facts({ children }: { children: React.ReactNode }) {
  return (
    <dl className="grid grid-cols-[repeat(auto-fit,minmax(min(9.5rem,100%),1fr))] gap-x-4 gap-y-3">
      {children}
    </dl>
  );
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt className="text-sm text-ink-soft">{name}</dt>
      <dd className="font-semibold">{children}</dd>
    </div>
  );
}

function Item({ item }: { item: TrackedItem }) {
  return (
    <li
      data-flavour={flavourSlug(item.category)}
      className="flex flex-wrap items-center gap-4 sm:flex-nowrap"
    >
      <span className="size-18 shrink-0">
        <ProductImage src={item.imageUrl} alt="" sizes="72px" className="size-full rounded-md text-3xl!" />
      </span>
      <div className="flex min-w-[min(9rem,100%)] flex-1 flex-wrap items-baseline justify-between gap-x-4">
        <p className="min-w-[min(9rem,100%)] flex-1 wrap-anywhere">
          {item.slug ? (
            <Link to={`/shop/${item.slug}`} className="-my-2 inline-block py-2.5 font-bold hover:underline">
              {item.name}
            </Link>
          ) : (
            <span className="font-bold">{item.name}</span>
          )}
          <span className="block text-sm text-ink-soft tabular-nums">
            {item.quantity} × {formatKsh(item.unitPrice)}
          </span>
        </p>
        <p className="font-semibold tabular-nums">{formatKsh(item.quantity * item.unitPrice)}</p>
      </div>
    </li>
  );
}
