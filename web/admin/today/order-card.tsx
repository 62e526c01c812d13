// An order of the queue: what to pack first, then for whom, by when, and one button that moves it on.

import { Link, useLocation } from 'react-router';
import { dueAt, minutesLeft } from '../../../domain/deliveries/delivery-promise.ts';
import {
  hasCancelRequest,
  isCashDue,
  takesRider,
  type WorkStep,
} from '../../../domain/deliveries/delivery-status.ts';
import { chargeCents, formatKes } from '../../../domain/money.ts';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { Icon } from '../../ui/icons.tsx';
import { ordinal } from '../customers/ordinal.ts';
import type { ListedDelivery } from '../deliveries/delivery-queries.ts';
import { jobChat } from '../deliveries/rider-chat.ts';
import type { Rider } from '../deliveries/rider-queries.ts';
import { useFailure } from '../deliveries/use-failure.tsx';
import { useDialogOpener } from '../dialogs/use-dialog-parameter.ts';
import { fromThisPage } from '../dialogs/use-dialog-url-close.ts';
import { useMay, useMember } from '../layout/roles/use-member.tsx';
import { StaffIcon } from '../layout/sidebar/staff-icons.tsx';
import { prepareOrderDialog } from '../orders/list/order-columns.tsx';
import { areaOf, drinkAndBrand } from '../orders/place.ts';
import { labelOfFailure } from '../status/staff-labels.ts';
import { callTo } from '../ui/contact-link.tsx';
import { useNameOf } from '../ui/staff-name.tsx';
import { useNow } from '../ui/time/age.tsx';
import { formatClock } from '../ui/time/dates.ts';
import { Due } from '../ui/time/due.tsx';
import { usePart } from '../ui/use-part.ts';
import { NextStepButton } from './next-step-button.tsx';
import { stepLabels, useNextStep } from './use-next-step.ts';
import { whoHasIt } from './who-has-it.ts';

export interface OrderCardProps {
  delivery: ListedDelivery;
  step: WorkStep;
  /** Takes orders that have no rider. */
  rider: Rider | undefined;
  /** Called with the name of the rider who takes it. */
  onHandOver(name: string): void;
  /** Whether it has just arrived: it stands out until it was in view for some seconds. */
  isNew?: boolean;
  /** Whether it names its step. */
  showsStep?: boolean;
}

const loadCancelAnswer = () => import('../orders/cancel-answer.tsx');

/** Secondary buttons beside the next step; narrower at the counter, where the letters are larger. */
const secondary =
  'max-w-full shrink-0 px-4! max-sm:px-3! counter:min-h-14 counter:px-3! counter:max-2xl:max-w-26 counter:leading-tight';

export function OrderCard({
  delivery,
  step,
  rider,
  onHandOver,
  isNew = false,
  showsStep = false,
}: OrderCardProps) {
  const { order } = delivery;
  const may = useMay();
  // Staying in counter mode while the order is open.
  const { search } = useLocation();
  const due = dueAt(order, delivery.created_at);
  const now = useNow();
  const isLate = minutesLeft(due, now) < 0;
  const isAsked = hasCancelRequest(order);
  const urgent = isLate || isAsked || step === 'failed';
  return (
    <li
      data-delivery={delivery.id}
      className={`grid grid-cols-[minmax(0,1fr)] content-start gap-1.5 rounded-lg border border-line bg-card p-3 shadow-sm ${urgent ? 'border-l-4 border-l-danger' : ''} ${isNew ? 'new-order' : ''}`}
    >
      {isNew ? <span className="sr-only">New order</span> : null}
      <div className="flex items-start justify-between gap-3">
        <CardDrinks order={order} />
        <span className="shrink-0 text-right text-sm counter:text-lg">
          <Due at={due} paidAt={delivery.created_at} />
          {showsStep && step !== 'failed' ? (
            <span className="block text-ink-soft">{stepLabels[step]}</span>
          ) : null}
        </span>
      </div>
      {order.delivery_notes ? (
        <p className="flex gap-1.5 rounded-md bg-ember-50 px-2 py-1 text-sm font-semibold wrap-anywhere whitespace-pre-line counter:text-lg counter:leading-snug">
          <StaffIcon name="note" className="mt-0.5 size-4 shrink-0 text-ember-700" />
          <span>
            <span className="sr-only">Customer's notes: </span>
            {order.delivery_notes}
          </span>
        </p>
      ) : null}
      <p className="text-sm text-ink-soft wrap-anywhere counter:text-base">
        <Link
          to={{ pathname: `/admin/today/${order.id}`, search }}
          state={fromThisPage}
          preventScrollReset
          aria-haspopup="dialog"
          onPointerEnter={prepareOrderDialog}
          onFocus={prepareOrderDialog}
          className="tap font-semibold text-ink underline"
        >
          {order.order_number}
        </Link>
        {'\u00a0'}· {areaOf(order)}
        {'\u00a0'}· <bdi>{order.customer_name.split(/\s/)[0]}</bdi>
        {order.nth_order > 1 && may('orders') ? `, ${ordinal(order.nth_order)} order` : ''}
        <Who delivery={delivery} step={step} />
      </p>
      {isCashDue(order) ? (
        <p className="text-sm font-bold text-ember-700 counter:text-lg">
          Collect {formatKes(chargeCents(order.total_amount))} in cash
        </p>
      ) : null}
      {isAsked ? (
        <p className="text-sm font-semibold text-danger counter:text-lg">
          The customer asked to cancel, {formatClock(order.cancel_requested_at ?? '', now)}
        </p>
      ) : null}
      {step === 'failed' ? (
        <p className="text-sm font-semibold text-danger counter:text-lg">
          {delivery.failure_reason ? labelOfFailure(delivery.failure_reason) : 'The delivery failed'}
          {delivery.failures > 1 ? `, ${delivery.failures} times` : ''}
        </p>
      ) : null}
      <OrderActions delivery={delivery} step={step} rider={rider} onHandOver={onHandOver} />
    </li>
  );
}

/** What to pack, first and whole. */
export function CardDrinks({ order }: { order: Pick<ListedDelivery['order'], 'order_items'> }) {
  return (
    <ul className="min-w-0">
      {order.order_items.map((item, index) => {
        const [drink, brand] = drinkAndBrand(item);
        return (
          <li key={index} className="leading-snug wrap-anywhere">
            <span className="text-base font-bold counter:text-2xl counter:leading-tight">
              {item.quantity} × {drink}
            </span>{' '}
            {brand ? (
              <span className="inline-block text-sm text-ink-soft counter:text-base">{brand}</span>
            ) : null}
          </li>
        );
      })}
    </ul>
  );
}

/** Who prepares it, or who carries it. */
function Who({ delivery, step }: Pick<OrderCardProps, 'delivery' | 'step'>) {
  const { email } = useMember();
  const nameOf = useNameOf();
  const { order, taken_by, delivery_person } = delivery;
  const chat = delivery_person && jobChat(order, delivery);
  const holder = step === 'preparing' ? whoHasIt(taken_by, email, nameOf) : null;
  return (
    <>
      {holder ? (
        <span title={taken_by ?? undefined}>
          {'\u00a0'}· <b className="inline-block text-ink">{holder}</b>
        </span>
      ) : null}
      {delivery_person ? (
        // At the counter the button names the rider of an order that is still here.
        <span className={step === 'on_the_way' ? '' : 'counter:hidden'}>
          {'\u00a0'}· Rider <bdi className="font-semibold text-ink">{delivery_person}</bdi>
        </span>
      ) : null}
      {chat ? (
        // Not at the counter, whose tablet is no phone.
        <span className="counter:hidden">
          {'\u00a0'}·{' '}
          <a href={chat} target="_blank" rel="noreferrer" className="tap font-semibold text-ink underline">
            WhatsApp<span className="sr-only"> the job {order.order_number} to its rider</span>
          </a>
        </span>
      ) : null}
    </>
  );
}

/** Calls the customer, and moves the order on or back. */
export function OrderActions({ delivery, step, rider, onHandOver }: OrderCardProps) {
  const { order } = delivery;
  const may = useMay();
  const { search } = useLocation();
  // Its own, so that the next order can be moved while this one is being saved.
  const next = useNextStep(rider);
  const failure = useFailure();
  const assign = useDialogOpener('assign');
  const hasRider = (delivery.delivery_person ?? rider?.name) !== undefined;
  const isSaving = next.saving(delivery) !== undefined || failure.isSaving(delivery);
  const isAsked = hasCancelRequest(order);
  const answer = usePart(loadCancelAnswer, isAsked);
  const forOrder = <span className="sr-only"> {order.order_number}</span>;
  return (
    <div className="flex flex-wrap gap-1.5 pt-0.5 sm:gap-2">
      {order.customer_phone && !order.anonymised_at ? (
        <a
          href={callTo(order.customer_phone)}
          className="grid size-11 shrink-0 place-items-center rounded-pill bg-paper-deep text-ink-soft hover:bg-line counter:size-14"
        >
          <Icon name="phone" className="size-4.5" />
          <span className="sr-only">Call {order.customer_name}</span>
        </a>
      ) : null}
      {isAsked && answer ? <answer.CancelAnswer order={order} /> : null}
      {step === 'preparing' && !isAsked ? (
        <Button
          tone="quiet"
          isBusy={isSaving}
          onClick={() => next.set(delivery, 'prepare')}
          className={secondary}
        >
          Give back{forOrder}
        </Button>
      ) : null}
      {step === 'ready' && !isAsked && hasRider && takesRider(order) ? (
        <Button tone="quiet" isBusy={isSaving} onClick={() => assign(delivery.id)} className={secondary}>
          Other rider{forOrder}
        </Button>
      ) : null}
      {step === 'failed' && may('refunds') ? (
        <Link
          to={{ pathname: `/admin/today/${order.id}`, search }}
          state={fromThisPage}
          preventScrollReset
          aria-haspopup="dialog"
          className={`${buttonStyle('quiet')} ${secondary}`}
        >
          Refund or cancel{forOrder}
        </Link>
      ) : null}
      {step === 'on_the_way' ? (
        <Button tone="quiet" isBusy={isSaving} onClick={() => failure.ask(delivery)} className={secondary}>
          Failed{forOrder}
        </Button>
      ) : null}
      {isAsked ? null : (
        <NextStepButton
          delivery={delivery}
          steps={{ rider, chooseRider: onHandOver, assign, ...next }}
          isLarge
          isBusy={failure.isSaving(delivery)}
        />
      )}
      {failure.question}
    </div>
  );
}
