// The details of an order, above the list. Open while the URL names an order.

import { type ReactNode, useId } from 'react';
import { Link, Navigate, useLocation } from 'react-router';
import { chargeCents, formatKes, shownAmount } from '../../../domain/money.ts';
import { formatPhone, msisdn } from '../../../domain/phone.ts';
import type { OrderStatus } from '../../../supabase/types.ts';
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { DialogBody, DialogHeading, DialogOrDrawer } from '../../ui/dialog/dialog-or-drawer.tsx';
import { Notice } from '../../ui/notice.tsx';
import { ProductImage } from '../../ui/product-image.tsx';
import { Spinner } from '../../ui/spinner.tsx';
import { AssignedRider } from '../deliveries/assigned-rider.tsx';
import { openParts } from '../print/money-to-collect.ts';
import { PrintOrder } from '../print/print-order.tsx';
import { dayOf } from '../reconciliation/days/nairobi-day.ts';
import { describeMoneyOfOrder } from '../reconciliation/differences/order-difference.ts';
import { describePaymentOfOrder, labelOfPayment, type StaffLabel } from '../status/staff-labels.ts';
import { StatusBadge } from '../status/status-badge.tsx';
import { confirmOrderStatus, orderStatusBlock } from '../status/status-change.ts';
import { StatusSelect } from '../status/status-select.tsx';
import { ContactLink, callTo, mailTo } from '../ui/contact-link.tsx';
import { formatDateTime } from '../ui/dates.ts';
import { useLastValue } from '../ui/use-last-value.ts';
import { decisionOf, orderStatuses, useOrder, type WholeOrder } from './order-queries.ts';
import { ChangeNotes } from './payments/change-notes.tsx';
import { ConfirmTillPayment } from './payments/confirm-till-payment.tsx';
import { PaidOrderDecision, useOrderDecision } from './payments/paid-order-decision.tsx';
import { TakeBack } from './payments/take-back.tsx';
import { RefundForm } from './refunds/refund-form.tsx';
import { isRefundable, lastRefund, moneyOf, type PaymentOfOrder } from './refunds/refund-queries.ts';
import { RefundState } from './refunds/refund-state.tsx';
import { describeReview, plainFailure } from './timeline/order-event-texts.ts';
import { OrderTimeline } from './timeline/order-timeline.tsx';
import { useOrderStatus } from './use-order-status.ts';

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
  // It was opened by its tracking number.
  if (order && order.id !== id) return <Navigate to={`/admin/orders/${order.id}`} replace state={state} />;
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
  return (
    <>
      <DialogHeading
        title={
          <span className="flex flex-wrap items-center gap-x-3 gap-y-1">
            Order {order.order_number} <StatusBadge status={order.status} />
          </span>
        }
        description={`Placed ${formatDateTime(order.created_at)}`}
      />
      <DialogBody>
        <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
          {isOutdated ? (
            <Notice tone="danger" title="What you see may be out of date: the last refresh failed" />
          ) : null}
          <PaidOrderDecision order={order} save={decision} />
          <div className="grid grid-cols-[minmax(0,1fr)] items-start gap-4 md:grid-cols-[minmax(0,1fr)_19rem]">
            <div className="grid grid-cols-[minmax(0,1fr)] gap-4 md:col-start-2 md:row-start-1">
              <Status order={order} saving={decision.savingStatus} />
              <Customer order={order} />
              <Delivery order={order} />
            </div>
            <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
              <Items order={order} />
              <Payments order={order} />
              <Part title="Timeline">
                <OrderTimeline orderId={order.id} events={order.events} />
              </Part>
            </div>
          </div>
        </div>
      </DialogBody>
    </>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  const id = useId();
  return (
    <section aria-labelledby={id} className="rounded-lg border border-line bg-card px-4 py-4">
      <h3 id={id} className="mb-3 font-display text-lg font-bold">
        {title}
      </h3>
      {children}
    </section>
  );
}

interface StatusProps {
  order: WholeOrder;
  /** The status that another action is currently setting. */
  saving: OrderStatus | undefined;
}

function Status({ order, saving }: StatusProps) {
  const status = useOrderStatus();
  return (
    <Part title="Status">
      <div className="grid gap-3 text-sm">
        <StatusSelect
          label={`Set the status of ${order.order_number}`}
          value={order.status}
          options={orderStatuses}
          saving={status.saving(order) ?? saving}
          confirmation={(to) => confirmOrderStatus(order, to)}
          block={(to) => orderStatusBlock(order, to)}
          onChoose={(to) => status.set(order, to)}
        />
        <div>
          <p className="text-ink-soft">Tracking number</p>
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
        </div>
        <PrintOrder order={order} />
      </div>
    </Part>
  );
}

function Items({ order }: { order: WholeOrder }) {
  const total = shownAmount(order.total_amount, order.payment_status);
  return (
    <Part title="Items">
      <ul className="grid gap-3">
        {order.order_items.map(({ id, product_name, quantity, unit_price, product }) => (
          <li key={id} className="flex items-center gap-3">
            <span className="block size-14 shrink-0">
              <ProductImage
                src={product?.image_url ?? null}
                alt=""
                sizes="56px"
                className="size-full rounded-md text-2xl!"
              />
            </span>
            <span className="min-w-0 flex-1">
              <span className="block font-semibold break-words">{product_name || 'Product'}</span>
              <span className="block text-sm text-ink-soft">
                {quantity} × {formatKes(unit_price)}
                {product ? null : ' · no longer in the catalogue'}
              </span>
            </span>
            <span className="font-semibold whitespace-nowrap tabular-nums">
              {formatKes(quantity * unit_price)}
            </span>
          </li>
        ))}
      </ul>
      <dl className="mt-4 grid grid-cols-[1fr_auto] gap-y-1 border-t border-line pt-3 text-sm tabular-nums">
        <dt className="text-ink-soft">Delivery fee</dt>
        <dd className="text-right">{order.delivery_fee === 0 ? 'free' : formatKes(order.delivery_fee)}</dd>
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

/** Payments for this order that are less than its charge: they wait in the reconciliation. */
function Parts({ order }: { order: WholeOrder }) {
  const open = openParts(order.parts);
  if (open.length === 0) return null;
  return (
    <ul className="mb-3 grid gap-2 rounded-md border border-line bg-paper-deep px-3 py-2 text-sm">
      {open.map(({ receipt, received_cents, transacted_at }) => (
        <li key={receipt}>
          {describeMoneyOfOrder({
            cents: received_cents,
            isAssigned: false,
            chargeCents: chargeCents(order.total_amount),
            paymentStatus: order.payment_status,
            status: order.status,
            bookedCents: moneyOf(order).came,
            waitingCents: open.reduce((cents, part) => cents + part.received_cents, 0),
          })}{' '}
          <Link
            to={`/admin/reconciliation?day=${dayOf(new Date(transacted_at))}&view=${receipt}`}
            className="tap font-semibold underline"
          >
            Decide about {receipt}
          </Link>
        </li>
      ))}
    </ul>
  );
}

/** Payments of another amount than the charge: staff resolve them in the reconciliation. */
function InReview({ order }: { order: WholeOrder }) {
  const reviewed = order.payments.find(({ status }) => status === 'review');
  if (!reviewed) return null;
  return (
    <p className="mb-3 rounded-md border border-danger/40 bg-danger-soft px-3 py-2 text-sm">
      The customer was asked not to pay again while you check this payment.{' '}
      <Link
        to={`/admin/reconciliation?day=${dayOf(new Date(reviewed.created_at))}`}
        className="tap font-semibold underline"
      >
        Decide in Reconciliation
      </Link>
    </p>
  );
}

function describeMoneyOf(order: WholeOrder): StaffLabel {
  const { came, left } = moneyOf(order);
  if (left > 0 && left < came) return { text: 'Partly refunded', tone: 'yellow' };
  // The resolution above shows the amount due.
  return describePaymentOfOrder({ ...order, status: 'pending' });
}

function Payments({ order }: { order: WholeOrder }) {
  const { text, tone } = describeMoneyOf(order);
  return (
    <Part title="Payments">
      <p className="mb-3">
        <Badge tone={tone}>{text}</Badge>
      </p>
      <Parts order={order} />
      <InReview order={order} />
      {order.payments.length === 0 ? (
        order.parts.length === 0 ? (
          <p className="text-sm text-ink-soft">The customer has not tried to pay yet.</p>
        ) : null
      ) : (
        <ul className="grid gap-3">
          {order.payments.map((payment) => {
            const state = labelOfPayment(payment.status);
            return (
              <li key={payment.id} className="border-t border-line pt-3 text-sm first:border-0 first:pt-0">
                <p className="flex flex-wrap items-center justify-between gap-2">
                  <span>
                    <span className="font-semibold tabular-nums">{formatKes(payment.charge_cents)}</span> by
                    M-PESA, {payment.method === 'till' ? 'to the till' : formatPhone(payment.phone)}
                  </span>
                  <span className="flex gap-1.5">
                    {payment.refunded_at ? (
                      <Badge tone="grey">Sent back</Badge>
                    ) : payment.needs_refund ? (
                      <Badge tone="red">To be sent back</Badge>
                    ) : null}
                    <Badge tone={state.tone}>{state.text}</Badge>
                  </span>
                </p>
                <p className="mt-1 break-words text-ink-soft">
                  {payment.receipt ? (
                    <>
                      Receipt <span className="font-semibold text-ink">{payment.receipt}</span> ·{' '}
                    </>
                  ) : null}
                  {payment.status === 'review' || (payment.status === 'failed' && payment.result_code === '0')
                    ? `${describeReview(payment.result_description)} · `
                    : payment.status === 'failed'
                      ? `${plainFailure(payment.result_code)} ${payment.result_code ? `(code ${payment.result_code}) ` : ''}· `
                      : null}
                  {formatDateTime(payment.completed_at ?? payment.created_at)}
                </p>
                <RefundOf order={order} payment={payment} />
                <TakeBack order={order} payment={payment} />
                <ChangeNotes payment={payment} />
              </li>
            );
          })}
        </ul>
      )}
      <ConfirmTillPayment order={order} />
    </Part>
  );
}

/** Payments in addition to the order's own payment, which is shown above. */
function RefundOf({ order, payment }: { order: WholeOrder; payment: PaymentOfOrder }) {
  const refund = lastRefund(payment.refunds);
  const isHere = payment.needs_refund || decisionOf(order) === null;
  if (!isHere || (!refund && !isRefundable(order, payment))) return null;
  return (
    <div className="mt-2 grid gap-2">
      {refund ? <RefundState refund={refund} order={order} /> : null}
      {isRefundable(order, payment) ? <RefundForm order={order} payment={payment} /> : null}
    </div>
  );
}

function Customer({ order }: { order: WholeOrder }) {
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
  return (
    <Part title="Customer">
      {order.erasure_requested_at ? (
        <p className="mb-2 text-sm font-semibold">
          To be erased once this order is closed, as requested {formatDateTime(order.erasure_requested_at)}.
        </p>
      ) : null}
      <p className="font-semibold wrap-anywhere">{order.customer_name}</p>
      <p className="text-sm wrap-anywhere text-ink-soft">
        {formatPhone(order.customer_phone)}
        <br />
        {order.customer_email}
      </p>
      <div className="mt-3 grid grid-cols-3 gap-2">
        <ContactLink
          href={callTo(order.customer_phone)}
          icon="phone"
          label="Call"
          who={order.customer_name}
        />
        <ContactLink
          href={`https://wa.me/${msisdn(order.customer_phone)}?text=${encodeURIComponent(about)}`}
          icon="chat"
          label="Chat"
          who={order.customer_name}
        />
        <ContactLink
          href={mailTo(order.customer_email, about)}
          icon="mail"
          label="Mail"
          who={order.customer_name}
        />
      </div>
      <Terms order={order} />
    </Part>
  );
}

/** The customer's confirmations with the order. Orders entered by staff have none. */
function Terms({ order: { terms_accepted_at, accepted_terms } }: { order: WholeOrder }) {
  if (!terms_accepted_at) return null;
  const isTicked = (accepted_terms as { is_ticked?: unknown } | null)?.is_ticked === true;
  return (
    <p className="mt-3 text-xs text-ink-soft">
      Confirmed being 18 or older and accepted the terms{' '}
      {isTicked ? 'by ticking the box' : 'by placing the order'}, {formatDateTime(terms_accepted_at)}.
    </p>
  );
}

function Delivery({ order }: { order: WholeOrder }) {
  const { delivery } = order;
  return (
    <Part title="Delivery">
      <dl className="grid gap-2 text-sm">
        <Fact term="To">{[order.shipping_address, order.city].filter(Boolean).join(', ')}</Fact>
        {order.delivery_notes ? (
          <Fact term="Customer's notes">
            <span className="whitespace-pre-line">{order.delivery_notes}</span>
          </Fact>
        ) : null}
        {delivery ? (
          <>
            <Fact term="State">
              <StatusBadge status={delivery.delivery_status} />
            </Fact>
            <Fact term="By">
              {delivery.delivery_person ? <AssignedRider delivery={delivery} /> : 'Not assigned'}
            </Fact>
            {delivery.pickup_time ? (
              <Fact term="Picked up">{formatDateTime(delivery.pickup_time)}</Fact>
            ) : null}
            {delivery.delivery_time ? (
              <Fact term="Delivered">{formatDateTime(delivery.delivery_time)}</Fact>
            ) : null}
            {delivery.delivery_notes ? (
              <Fact term="Instructions">
                <span className="whitespace-pre-line">{delivery.delivery_notes}</span>
              </Fact>
            ) : null}
          </>
        ) : (
          <Fact term="State">Begins once the order is paid</Fact>
        )}
      </dl>
      {delivery ? (
        <p className="mt-2 flex flex-wrap gap-4 text-sm">
          {delivery.delivery_person || order.status === 'cancelled' ? null : (
            <Link
              to={`/admin/deliveries?search=${encodeURIComponent(order.order_number)}&assign=${delivery.id}`}
              className="tap font-semibold underline"
            >
              Assign a rider
            </Link>
          )}
          <Link
            to={`/admin/deliveries?search=${encodeURIComponent(order.order_number)}`}
            className="tap font-semibold underline"
          >
            Go to its delivery
          </Link>
        </p>
      ) : null}
    </Part>
  );
}

function Fact({ term, children }: { term: string; children: ReactNode }) {
  return (
    <div>
      <dt className="text-ink-soft">{term}</dt>
      <dd className="break-words">{children}</dd>
    </div>
  );
}
