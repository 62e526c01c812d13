// The details of an order, above the list. Open while the URL names an order.

import type { ReactElement, ReactNode } from 'react';
import { Link, Navigate, useLocation } from 'react-router';
import { dueAt } from '../../../domain/deliveries/delivery-promise.ts';
import { hasCancelRequest, takesRider, workStep } from '../../../domain/deliveries/delivery-status.ts';
import { formatKes, shownAmount } from '../../../domain/money.ts';
import { formatPhone } from '../../../domain/people/phone.ts';
import type { OrderStatus } from '../../../supabase/types.ts';
import { Button } from '../../ui/button.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import {
  DialogBody,
  DialogFooter,
  DialogHeading,
  DialogOrDrawer,
  useDialogShape,
} from '../../ui/dialog/dialog-or-drawer.tsx';
import { Icon } from '../../ui/icons.tsx';
import { Notice } from '../../ui/notice.tsx';
import { ProductImage } from '../../ui/product-image.tsx';
import { Spinner } from '../../ui/spinner.tsx';
import { ordinal } from '../customers/ordinal.ts';
import { AssignedRider } from '../deliveries/assigned-rider.tsx';
import { MapLink } from '../deliveries/map-link.tsx';
import { jobChat } from '../deliveries/rider-chat.ts';
import { useFailure } from '../deliveries/use-failure.tsx';
import { WrongCodes } from '../deliveries/wrong-codes.tsx';
import { useDialogOpener } from '../dialogs/use-dialog-parameter.ts';
import { placeForRole } from '../layout/roles/place-for-role.ts';
import { useMay, useMember } from '../layout/roles/use-member.tsx';
import { StaffIcon } from '../layout/sidebar/staff-icons.tsx';
import { RowMenu } from '../list/row-menu.tsx';
import type { RowAction } from '../list/row-menu-items.tsx';
import { PrintOrder } from '../print/print-order.tsx';
import { labelOfFailure, sourceInSentence } from '../status/staff-labels.ts';
import { StatusBadge } from '../status/status-badge.tsx';
import { confirmOrderStatus, orderStatusBlock } from '../status/status-change.ts';
import { StatusSelect } from '../status/status-select.tsx';
import { NextStepButton, useNextSteps } from '../today/next-step-button.tsx';
import { whoHasIt } from '../today/who-has-it.ts';
import { ContactLink, callTo, chatTo, mailTo } from '../ui/contact-link.tsx';
import type { NameOf } from '../ui/known-names.ts';
import { useNameOf } from '../ui/staff-name.tsx';
import { formatDateTime, formatDay } from '../ui/time/dates.ts';
import { Due } from '../ui/time/due.tsx';
import { useLastValue } from '../ui/use-last-value.ts';
import { CancelRequest } from './cancel-answer.tsx';
import { orderStatuses } from './order-queries.ts';
import { Part } from './part.tsx';
import { Payments } from './payments/order-payments.tsx';
import { PaidOrderDecision, useOrderDecision } from './payments/paid-order-decision.tsx';
import { needsDecision } from './payments/payment-line.ts';
import { waitsForPayment } from './payments/ways-to-pay.tsx';
import { drinkAndBrand, otherCity } from './place.ts';
import { OrderTimeline } from './timeline/order-timeline.tsx';
import { useOrderStatus } from './use-order-status.ts';
import { useOrder, type WholeOrder } from './whole-order.ts';

export function OrderDialog({ id, onClose }: { id: string | null; onClose(): void }) {
  const shownId = useLastValue(id);
  return (
    <DialogOrDrawer size="wide" hasOwnEntry={false} open={id !== null} onClose={onClose}>
      {shownId ? <Order key={shownId} id={shownId} onClose={onClose} /> : null}
    </DialogOrDrawer>
  );
}

function Order({ id, onClose }: { id: string; onClose(): void }) {
  const { data: order, error, isFetching, refetch } = useOrder(id);
  const { state } = useLocation();
  const { role } = useMember();
  // It was opened by its tracking number.
  if (order && order.id !== id)
    return <Navigate to={placeForRole(role, `/admin/orders/${order.id}`)} replace state={state} />;
  if (order) return <Whole order={order} isOutdated={error !== null} />;
  if (order === null) {
    return (
      <>
        <DialogHeading title="There is no such order" description="The address may be mistyped." />
        <DialogBody>
          <div className="grid justify-items-start gap-4 pb-2">
            <p>Look for the order in the list by its number, or by the customer's name or email.</p>
            <Button tone="quiet" onClick={onClose}>
              Back to the list
            </Button>
          </div>
        </DialogBody>
      </>
    );
  }
  return (
    <>
      <DialogHeading title="Order" description={error ? 'It could not be loaded' : 'It is being loaded'} />
      <DialogBody>
        {error ? (
          <div className="grid justify-items-start gap-4 pb-2">
            <Notice tone="danger" title="This order could not be loaded">
              Nothing was changed. Please check the connection and try again.
            </Notice>
            <Button tone="quiet" isBusy={isFetching} onClick={() => void refetch()}>
              Try again
            </Button>
          </div>
        ) : (
          <div className="grid min-h-80 place-items-center">
            <Spinner label="Loading order..." />
          </div>
        )}
      </DialogBody>
    </>
  );
}

function Whole({ order, isOutdated }: { order: WholeOrder; isOutdated: boolean }) {
  const decision = useOrderDecision(order);
  const nameOf = useNameOf();
  const may = useMay();
  const isDrawer = useDialogShape() === 'drawer';
  // With keys, a form in a part keeps what was typed when the part becomes urgent.
  const items = <Items key="items" order={order} />;
  const customer = <Customer key="customer" order={order} />;
  const payments = <Payments key="payments" order={order} />;
  const delivery = <Delivery key="delivery" order={order} />;
  const urgent = [
    // Who entered it has the customer on the line.
    needsDecision(order) ||
    order.awaits_agreement ||
    (order.source !== 'storefront' && waitsForPayment(order))
      ? payments
      : null,
    order.delivery && workStep(order, order.delivery) === 'failed' ? delivery : null,
  ];
  /** The parts of a column, urgent ones first. */
  const arrange = (...parts: readonly ReactElement[]) => [
    ...parts.filter((part) => urgent.includes(part)),
    ...parts.filter((part) => !urgent.includes(part)),
  ];
  const papers = <Papers order={order} />;
  const timeline = (
    <Part title="Timeline">
      <OrderTimeline orderId={order.id} events={order.events} />
    </Part>
  );
  return (
    <>
      <DialogHeading
        title={
          <span className="flex flex-wrap items-center gap-x-3 gap-y-1">
            Order {order.order_number} <StatusBadge status={order.status} isSmall />
          </span>
        }
        description={describeOrigin(order, nameOf)}
      />
      <DialogBody>
        <div className={column}>
          {isOutdated ? (
            <Notice tone="danger" title="What you see may be out of date: the last refresh failed" />
          ) : null}
          <CancelRequest order={order} />
          {may('refunds') ? <PaidOrderDecision order={order} save={decision} /> : null}
          {/* In each layout the keyboard and screen readers follow the order on the screen: what is needed first comes first. */}
          {isDrawer ? (
            <>
              {arrange(items, customer, payments, delivery)}
              {papers}
              {timeline}
            </>
          ) : (
            <div className="grid grid-cols-[minmax(0,1fr)_19rem] items-start gap-4">
              <div className={column}>
                {arrange(items, payments)}
                {timeline}
              </div>
              <div className={column}>
                {arrange(customer, delivery)}
                {papers}
              </div>
            </div>
          )}
        </div>
      </DialogBody>
      <NextStep order={order} saving={decision.savingStatus} />
    </>
  );
}

const column = 'grid grid-cols-[minmax(0,1fr)] gap-3 md:gap-4';

interface NextStepProps {
  order: WholeOrder;
  /** The status that another action is currently setting. */
  saving: OrderStatus | undefined;
}

/** At the thumb: the button that moves the order on, any other status beside it, and what else its delivery needs behind a menu. */
function NextStep({ order, saving }: NextStepProps) {
  const status = useOrderStatus();
  const steps = useNextSteps();
  const failure = useFailure();
  const delivery = order.delivery && { ...order.delivery, order };
  const step = delivery && workStep(order, delivery);
  const may = useMay();
  const actions: RowAction[] = delivery
    ? [
        ...(step === 'on_the_way' ? [{ label: 'Could not deliver', run: () => failure.ask(delivery) }] : []),
        ...(step === 'preparing' ? [{ label: 'Give back', run: () => steps.set(delivery, 'prepare') }] : []),
        ...(takesRider(order)
          ? [
              {
                label: delivery.delivery_person ? 'Other rider' : 'Assign a rider',
                run: () => steps.assign(delivery.id),
              },
            ]
          : []),
        ...(delivery.delivery_phone
          ? [
              {
                label: `Call ${delivery.delivery_person ?? 'the rider'}`,
                href: callTo(delivery.delivery_phone),
              },
            ]
          : []),
      ]
    : [];
  // The counter moves orders on and sets no other status.
  if (!may('orders') && (!step || hasCancelRequest(order))) return null;
  return (
    <DialogFooter isSticky>
      <div className="flex items-center gap-3">
        {may('orders') ? (
          <>
            <span aria-hidden="true" className={`text-sm text-ink-soft ${step ? 'max-md:hidden' : ''}`}>
              Status
            </span>
            <StatusSelect
              label={`Set the status of ${order.order_number}`}
              value={order.status}
              options={orderStatuses}
              saving={status.saving(order) ?? saving}
              confirmation={(to) => confirmOrderStatus(order, to)}
              block={(to) => orderStatusBlock(order, to)}
              onChoose={(to) => status.set(order, to)}
            />
          </>
        ) : null}
        {delivery && step && !hasCancelRequest(order) ? (
          <span className="flex min-w-0 grow items-center gap-1 md:ml-auto md:min-w-56 md:grow-0">
            <NextStepButton delivery={delivery} steps={steps} isLarge isBusy={failure.isSaving(delivery)} />
            {actions.length > 0 ? <RowMenu name={order.order_number} actions={() => actions} /> : null}
          </span>
        ) : null}
      </div>
      {failure.question}
    </DialogFooter>
  );
}

/** When it was placed, or who entered it and how it came. */
function describeOrigin({ source, events, created_at }: WholeOrder, nameOf: NameOf): string {
  if (source === 'storefront') return `Placed ${formatDateTime(created_at)}`;
  const by = nameOf(events.find(({ kind }) => kind === 'order_placed')?.actor_email ?? 'the shop');
  return `Entered by ${by} · ${sourceInSentence(source)}, ${formatDateTime(created_at)}`;
}

function Items({ order }: { order: WholeOrder }) {
  const total = shownAmount(order.total_amount, order.payment_status);
  return (
    <Part title="Items">
      <ul className="grid gap-3">
        {order.order_items.map(({ id, product_name, quantity, unit_price, product }) => {
          const [drink, brand] = drinkAndBrand({ product_name, product });
          return (
            <li key={id} className="flex items-center gap-3">
              <span className="block size-11 shrink-0 md:size-14">
                <ProductImage
                  src={product?.image_url ?? null}
                  alt=""
                  sizes="56px"
                  className="size-full rounded-md text-2xl!"
                />
              </span>
              <span className="min-w-0 flex-1">
                <span className="block text-lg leading-snug font-bold wrap-anywhere">
                  {quantity} × {drink}
                </span>
                <span className="block text-sm text-ink-soft">
                  {[brand, !product && 'no longer in the catalogue'].filter(Boolean).join(' · ')}
                </span>
              </span>
              <span className="text-right whitespace-nowrap tabular-nums">
                <span className="block font-semibold">{formatKes(quantity * unit_price)}</span>
                {quantity > 1 ? (
                  <span className="block text-xs text-ink-soft">{formatKes(unit_price)} each</span>
                ) : null}
              </span>
            </li>
          );
        })}
      </ul>
      {order.delivery_notes && !order.anonymised_at ? (
        <p className="mt-3 flex gap-2 rounded-md border border-ember-200 bg-ember-50 px-3 py-2 font-semibold wrap-anywhere whitespace-pre-line">
          <StaffIcon name="note" className="mt-0.5 size-5 shrink-0 text-ember-700" />
          <span>
            <span className="sr-only">Customer's notes: </span>
            {order.delivery_notes}
          </span>
        </p>
      ) : null}
      <dl className="mt-3 grid grid-cols-[1fr_auto] gap-y-1 border-t border-line pt-2 text-sm tabular-nums">
        {order.discount_cents > 0 ? (
          <>
            <dt className="text-ink-soft wrap-anywhere">Discount ({order.discount_code})</dt>
            <dd className="text-right">−{formatKes(order.discount_cents)}</dd>
          </>
        ) : null}
        <dt className="text-ink-soft">Delivery fee</dt>
        <dd className="text-right">
          {order.awaits_agreement
            ? 'to be agreed'
            : order.delivery_fee === 0
              ? 'free'
              : formatKes(order.delivery_fee)}
        </dd>
        {total === order.total_amount ? null : (
          <>
            <dt className="text-ink-soft">Rounded up to whole shillings</dt>
            <dd className="text-right">{formatKes(total - order.total_amount)}</dd>
          </>
        )}
        <dt className="text-base font-bold">Total</dt>
        <dd className="text-right text-base font-bold">{formatKes(total)}</dd>
      </dl>
    </Part>
  );
}

function Customer({ order }: { order: WholeOrder }) {
  const may = useMay();
  const about = `Your order ${order.tracking_number}`;
  if (order.anonymised_at) {
    return (
      <Part title="Customer">
        <p className="text-sm text-ink-soft">
          Name, phone, email, address and notes were removed {formatDateTime(order.anonymised_at)}.
        </p>
      </Part>
    );
  }
  const city = otherCity(order);
  return (
    <Part title="Customer">
      {order.erasure_requested_at ? (
        <p className="mb-2 text-sm font-semibold">
          To be erased once this order is closed, as requested {formatDateTime(order.erasure_requested_at)}.
        </p>
      ) : null}
      <p className="flex gap-2 wrap-anywhere">
        <Icon name="pin" className="mt-0.5 size-5 shrink-0 text-ink-soft" />
        <span>
          <MapLink order={order} className="tap font-semibold underline" />
          {city ? `, ${city}` : ''}
          {order.area_name || order.map_point ? (
            <span className="flex flex-wrap gap-x-3 text-sm">
              {order.area_name ? <span className="text-ink-soft">{order.area_name}</span> : null}
              {order.map_point ? <b>Exact place shared</b> : null}
            </span>
          ) : null}
        </span>
      </p>
      <p className="mt-1 font-semibold wrap-anywhere">
        {order.customer_name}{' '}
        <span className="font-normal whitespace-nowrap text-ink-soft">
          {formatPhone(order.customer_phone)}
        </span>{' '}
        {may('orders') ? (
          <Link to={`/admin/customers/${order.customer_phone}`} className="tap whitespace-nowrap underline">
            {order.nth_order > 1 ? `${ordinal(order.nth_order)} order` : 'First order'}
            <span className="sr-only">: the customer</span>
          </Link>
        ) : null}
      </p>
      <div className="mt-3 grid grid-cols-2 gap-2">
        <ContactLink
          href={callTo(order.customer_phone)}
          icon="phone"
          label="Call"
          who={order.customer_name}
          className="min-h-12! px-2!"
        />
        <ContactLink
          href={chatTo(order.customer_phone, about)}
          icon="chat"
          label="WhatsApp"
          who={order.customer_name}
          className="min-h-12! px-2!"
        />
      </div>
      <p className="mt-2 text-sm wrap-anywhere">
        {order.customer_email ? (
          <a href={mailTo(order.customer_email, about)} className="tap underline">
            <span className="sr-only">Mail </span>
            {order.customer_email}
          </a>
        ) : (
          <span className="text-ink-soft">No email address: messages go as texts</span>
        )}
      </p>
    </Part>
  );
}

function Delivery({ order }: { order: WholeOrder }) {
  const { email } = useMember();
  const nameOf = useNameOf();
  const assign = useDialogOpener('assign');
  const { delivery } = order;
  const step = delivery && workStep(order, delivery);
  const chat = delivery && jobChat(order, delivery);
  const holder = delivery && step === 'preparing' ? whoHasIt(delivery.taken_by, email, nameOf) : null;
  return (
    <Part title="Delivery">
      {delivery ? (
        <>
          <p className="flex flex-wrap items-center gap-x-3 gap-y-1 text-sm">
            <StatusBadge status={delivery.delivery_status} />
            {step && !order.delivery_day ? (
              <Due at={dueAt(order, delivery.created_at)} paidAt={delivery.created_at} />
            ) : null}
            {order.delivery_day ? <b>For {formatDay(order.delivery_day)}</b> : null}
            {holder ? <b title={delivery.taken_by ?? undefined}>{holder}</b> : null}
            {step === 'ready' ? <b>Packed</b> : null}
          </p>
          {delivery.failure_reason && step === 'failed' ? (
            <p className="mt-1 text-sm font-semibold text-danger">
              {labelOfFailure(delivery.failure_reason)}
              {delivery.failures > 1 ? `, ${delivery.failures} times` : ''}
            </p>
          ) : null}
          {delivery.wrong_codes > 0 && step === 'on_the_way' ? <WrongCodes delivery={delivery} /> : null}
          <dl className="mt-2 grid gap-1 text-sm">
            <Fact term="Rider">
              {delivery.delivery_person ? (
                <AssignedRider delivery={delivery} />
              ) : order.is_collected ? (
                'None: the customer collects it at the shop'
              ) : (
                'Not assigned'
              )}
            </Fact>
            {delivery.pickup_time ? (
              <Fact term="Picked up">{formatDateTime(delivery.pickup_time)}</Fact>
            ) : null}
            {delivery.delivery_time ? (
              <Fact term="Delivered">{formatDateTime(delivery.delivery_time)}</Fact>
            ) : null}
            {delivery.proven_by ? (
              <Fact term="Proof">
                {delivery.proven_by === 'code' ? "The customer's code" : 'None: finished by staff'}
              </Fact>
            ) : null}
            {order.rating ? (
              <Fact term="Rating">
                <b>{order.rating.stars} of 5</b>
                {order.rating.words ? (
                  <span className="block whitespace-pre-line wrap-anywhere">{order.rating.words}</span>
                ) : null}
              </Fact>
            ) : null}
            {delivery.collected_cents !== null &&
            (order.payment_status === 'unpaid' || order.payment_method !== 'cash') ? (
              <Fact term="Cash">
                <b>
                  The rider {order.payment_status === 'unpaid' ? 'has' : 'also got'}{' '}
                  {formatKes(delivery.collected_cents)}
                </b>
              </Fact>
            ) : null}
            {delivery.delivery_notes ? (
              <Fact term="Instructions">
                <span className="whitespace-pre-line">{delivery.delivery_notes}</span>
              </Fact>
            ) : null}
          </dl>
          <p className="mt-2 flex flex-wrap gap-4 text-sm">
            {delivery.delivery_person || !takesRider(order) ? null : (
              <button
                type="button"
                aria-haspopup="dialog"
                onClick={() => assign(delivery.id)}
                className="tap font-semibold underline"
              >
                Assign a rider
              </button>
            )}
            {chat && delivery.delivery_person && order.status !== 'cancelled' && step ? (
              <a href={chat} target="_blank" rel="noreferrer" className="tap font-semibold underline">
                WhatsApp the job to the rider
              </a>
            ) : null}
            <Link
              to={`/admin/deliveries?search=${encodeURIComponent(order.order_number)}`}
              className="tap font-semibold underline"
            >
              Go to its delivery
            </Link>
          </p>
        </>
      ) : (
        <p className="text-sm text-ink-soft">
          {order.is_collected
            ? 'Collected at the shop: packed and handed over once it is paid'
            : 'Begins once the order is paid'}
        </p>
      )}
    </Part>
  );
}

function Fact({ term, children }: { term: string; children: ReactNode }) {
  return (
    <div className="flex gap-2">
      <dt className="shrink-0 text-ink-soft">{term}</dt>
      <dd className="min-w-0 break-words">{children}</dd>
    </div>
  );
}

/** What the order is looked up and proved with. */
function Papers({ order }: { order: WholeOrder }) {
  return (
    <Part title="Tracking and print">
      <div className="grid gap-2 text-sm">
        <div className="flex flex-wrap items-center gap-2">
          {/* The customer's page, in another tab, so that this screen stays. */}
          <a
            href={`/track-order/${order.tracking_number}`}
            target="_blank"
            rel="noreferrer"
            className="tap font-semibold underline"
          >
            {order.tracking_number}
            <span className="sr-only"> (opens the tracking page in a new tab)</span>
          </a>
          <CopyButton text={order.tracking_number} what="tracking number" />
        </div>
        <PrintOrder order={order} />
        <Terms order={order} />
      </div>
    </Part>
  );
}

/** The customer's confirmations with the order. Orders entered by staff have none. */
function Terms({ order: { terms_accepted_at, accepted_terms } }: { order: WholeOrder }) {
  if (!terms_accepted_at) return null;
  const isTicked = (accepted_terms as { is_ticked?: unknown } | null)?.is_ticked === true;
  return (
    <p className="text-xs text-ink-soft">
      Confirmed being 18 or older and accepted the terms{' '}
      {isTicked ? 'by ticking the box' : 'by placing the order'}, {formatDateTime(terms_accepted_at)}.
    </p>
  );
}
