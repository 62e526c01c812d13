// An order of the queue: what to pack first, then for whom, by when, and one button that moves it on.
import { useState } from 'react';
import { Link } from 'react-router';
import { minutesLeft, type WorkStep } from '../../../domain/delivery-status.ts';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { Icon } from '../../ui/icons.tsx';
import type { ListedDelivery } from '../deliveries/delivery-queries.ts';
import type { Rider } from '../deliveries/rider-queries.ts';
import { useDeliveryStatus } from '../deliveries/use-delivery-status.ts';
import { useDialogOpener } from '../dialogs/use-dialog-parameter.ts';
import { fromThisPage } from '../dialogs/use-dialog-url-close.ts';
import { StaffIcon } from '../layout/staff-icons.tsx';
import { useMember } from '../layout/use-member.tsx';
import { loadOrderDialog } from '../orders/list/order-columns.tsx';
import { areaOf, drinkAndBrand } from '../orders/place.ts';
import { labelOfFailure } from '../status/staff-labels.ts';
import { confirmDeliveryStatus } from '../status/status-change.ts';
import { loadConfirmation } from '../status/status-select.tsx';
import { useNow } from '../ui/age.tsx';
import { callTo } from '../ui/contact-link.tsx';
import { Due } from '../ui/due.tsx';
import { usePart } from '../ui/use-part.ts';
import { nextSteps, useNextStep } from './use-next-step.ts';

interface OrderCardProps {
  delivery: ListedDelivery;
  step: WorkStep;
  /** Takes orders that have no rider. */
  rider: Rider | undefined;
  /** Called with the name of the rider who takes it. */
  onHandOver(name: string): void;
}

const prepareDialog = () => void loadOrderDialog().catch(() => {});

export function OrderCard({ delivery, step, rider, onHandOver }: OrderCardProps) {
  const { order } = delivery;
  const isLate = minutesLeft(delivery.created_at, useNow()) < 0;
  const urgent = isLate || step === 'failed';
  return (
    <li
      className={`grid grid-cols-[minmax(0,1fr)] gap-1.5 rounded-lg border border-line bg-card p-3 shadow-sm ${urgent ? 'border-l-4 border-l-danger' : ''}`}
    >
      <div className="flex items-start justify-between gap-3">
        <ul className="min-w-0">
          {order.order_items.map((item, index) => {
            const [drink, brand] = drinkAndBrand(item);
            return (
              <li key={index} className="leading-snug wrap-anywhere">
                <span className="text-base font-bold">
                  {item.quantity} × {drink}
                </span>
                {brand ? <span className="text-sm text-ink-soft"> {brand}</span> : null}
              </li>
            );
          })}
        </ul>
        <span className="shrink-0 text-sm">
          <Due paidAt={delivery.created_at} />
        </span>
      </div>
      {order.delivery_notes ? (
        <p className="flex gap-1.5 rounded-md bg-ember-50 px-2 py-1 text-sm font-semibold wrap-anywhere whitespace-pre-line">
          <StaffIcon name="note" className="mt-0.5 size-4 shrink-0 text-ember-700" />
          <span>
            <span className="sr-only">Customer's notes: </span>
            {order.delivery_notes}
          </span>
        </p>
      ) : null}
      <p className="text-sm text-ink-soft wrap-anywhere">
        <Link
          to={`/admin/today/${order.id}`}
          state={fromThisPage}
          preventScrollReset
          aria-haspopup="dialog"
          onPointerEnter={prepareDialog}
          onFocus={prepareDialog}
          className="tap font-semibold text-ink underline"
        >
          {order.order_number}
        </Link>{' '}
        · {areaOf(order)} · <bdi>{order.customer_name.split(/\s/)[0]}</bdi>
        <Who delivery={delivery} step={step} />
      </p>
      {step === 'failed' ? (
        <p className="text-sm font-semibold text-danger">
          {delivery.failure_reason ? labelOfFailure(delivery.failure_reason) : 'The delivery failed'}
          {delivery.failures > 1 ? `, ${delivery.failures} times` : ''}
        </p>
      ) : null}
      <Actions delivery={delivery} step={step} rider={rider} onHandOver={onHandOver} />
    </li>
  );
}

/** Who prepares it, or who carries it. */
function Who({ delivery, step }: Pick<OrderCardProps, 'delivery' | 'step'>) {
  const { email } = useMember();
  const { taken_by, delivery_person } = delivery;
  const preparer = taken_by === null ? null : taken_by === email ? 'You' : taken_by.split('@')[0];
  return (
    <>
      {preparer && step === 'preparing' ? (
        <span title={taken_by ?? undefined}>
          {' '}
          · <b className="text-ink">{preparer === 'You' ? 'You have it' : `${preparer} has it`}</b>
        </span>
      ) : null}
      {delivery_person ? (
        <>
          {' '}
          · Rider <bdi className="font-semibold text-ink">{delivery_person}</bdi>
        </>
      ) : null}
    </>
  );
}

function Actions({ delivery, step, rider, onHandOver }: OrderCardProps) {
  const { order } = delivery;
  const next = useNextStep(rider);
  const status = useDeliveryStatus();
  const assign = useDialogOpener('assign');
  const [to, label] = nextSteps[step];
  const carrier = delivery.delivery_person ?? rider?.name;
  const needsRider = step === 'ready' && carrier === undefined;
  const [isAsking, setAsking] = useState(false);
  const question = confirmDeliveryStatus(delivery, 'failed');
  const dialog = usePart(loadConfirmation, isAsking, () => setAsking(false));
  const isSaving = next.saving(delivery) !== undefined || status.saving(delivery) !== undefined;
  const forOrder = <span className="sr-only"> {order.order_number}</span>;
  return (
    <div className="flex gap-2 pt-0.5">
      {order.customer_phone && !order.anonymised_at ? (
        <a
          href={callTo(order.customer_phone)}
          className="grid size-11 shrink-0 place-items-center rounded-pill bg-paper-deep text-ink-soft hover:bg-line"
        >
          <Icon name="phone" className="size-4.5" />
          <span className="sr-only">Call {order.customer_name}</span>
        </a>
      ) : null}
      {step === 'preparing' ? (
        <Button
          tone="quiet"
          isBusy={isSaving}
          onClick={() => next.set(delivery, 'prepare')}
          className="shrink-0 px-4! whitespace-nowrap"
        >
          Give back{forOrder}
        </Button>
      ) : null}
      {step === 'ready' && !needsRider ? (
        <Button
          tone="quiet"
          isBusy={isSaving}
          onClick={() => assign(delivery.id)}
          className="shrink-0 px-4! whitespace-nowrap"
        >
          Other rider{forOrder}
        </Button>
      ) : null}
      {step === 'failed' ? (
        <Link
          to={`/admin/today/${order.id}`}
          state={fromThisPage}
          preventScrollReset
          aria-haspopup="dialog"
          className={`${buttonStyle('quiet')} shrink-0 px-4! whitespace-nowrap`}
        >
          Refund or cancel{forOrder}
        </Link>
      ) : null}
      {step === 'on_the_way' ? (
        <Button
          tone="quiet"
          isBusy={isSaving}
          onClick={() => setAsking(true)}
          className="shrink-0 px-4! whitespace-nowrap"
        >
          Failed{forOrder}
        </Button>
      ) : null}
      <Button
        tone={step === 'prepare' ? 'dusk' : 'leaf'}
        isBusy={isSaving}
        onClick={() => {
          if (needsRider) {
            assign(delivery.id);
            return;
          }
          if (step === 'ready' && carrier) onHandOver(carrier);
          next.set(delivery, to);
        }}
        className="min-w-0 grow px-3!"
      >
        {/* The number for screen readers is clipped with the text: placed beyond it, it would widen the page. */}
        <span className="relative truncate">
          {needsRider
            ? 'Choose a rider'
            : step === 'ready'
              ? `Hand over to ${carrier?.split(/\s/)[0]}`
              : label}
          {forOrder}
        </span>
      </Button>
      {dialog && question ? (
        <dialog.StatusConfirmation
          confirmation={question}
          isOpen={isAsking}
          onCancel={() => setAsking(false)}
          onConfirm={(reason) => {
            setAsking(false);
            status.set(delivery, 'failed', reason);
          }}
        />
      ) : null}
    </div>
  );
}
