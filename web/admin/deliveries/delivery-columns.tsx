// A delivery in the list (docs/product.md#deliveries-screen): as a table row, as a compact row, and in the export.
import { Link } from 'react-router';
import { dueAt } from '../../../domain/deliveries/delivery-promise.ts';
import {
  isWaiting,
  statusesOnceAssigned,
  takesRider,
  workStep,
} from '../../../domain/deliveries/delivery-status.ts';
import { shownAmount } from '../../../domain/money.ts';
import { formatPhone } from '../../../domain/people/phone.ts';
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Icon } from '../../ui/icons.tsx';
import { NthOrder } from '../customers/nth-order.tsx';
import type { CsvColumn } from '../list/export/csv.ts';
import { phoneCell } from '../list/phone-cell.ts';
import type { Column } from '../list/row-list.tsx';
import { RowMenu } from '../list/row-menu.tsx';
import type { RowAction } from '../list/row-menu-items.tsx';
import { contactActions } from '../orders/contact-actions.ts';
import { Drinks } from '../orders/drinks.tsx';
import { drinksOf, otherCity } from '../orders/place.ts';
import { labelOfFailure } from '../status/staff-labels.ts';
import { StatusBadge, statusLabel } from '../status/status-badge.tsx';
import { confirmDeliveryStatus, deliveryStatusBlock } from '../status/status-change.ts';
import { StatusSelect } from '../status/status-select.tsx';
import { NextStepButton, type NextSteps } from '../today/next-step-button.tsx';
import { callTo } from '../ui/contact-link.tsx';
import { Age, useNow } from '../ui/time/age.tsx';
import { formatClock, formatForFile } from '../ui/time/dates.ts';
import { Due } from '../ui/time/due.tsx';
import type { ListedDelivery } from './delivery-queries.ts';
import { MapLink } from './map-link.tsx';
import { jobChat } from './rider-chat.ts';
import type { useDeliveryStatus } from './use-delivery-status.ts';

type DeliveryStatus = ReturnType<typeof useDeliveryStatus>;

interface RowControls {
  status: DeliveryStatus;
  steps: NextSteps;
}

export function deliveryColumns({ status, steps }: RowControls): Column<ListedDelivery>[] {
  return [
    {
      title: 'Order #',
      width: '5.75rem',
      sort: 'date',
      show: (delivery) => (
        <>
          <OrderLink delivery={delivery} className="block leading-6" />
          <span className="block text-xs">
            <DeliveryAge delivery={delivery} />
          </span>
        </>
      ),
    },
    {
      title: 'Customer',
      sort: 'customer',
      show: ({ order }) => (
        <>
          <span className="flex items-baseline gap-1.5">
            <span className="truncate font-semibold" title={order.customer_name}>
              {order.customer_name}
            </span>
            <NthOrder nth={order.nth_order} />
          </span>
          {order.anonymised_at ? null : (
            <span className="flex gap-1.5 text-xs leading-5 text-ink-soft">
              <CustomerPhone order={order} className="underline" />
              <MapLink order={order} className="truncate underline" />
              <OtherCity order={order} />
            </span>
          )}
        </>
      ),
    },
    {
      title: 'Items',
      width: '14%',
      show: ({ order }) => <Drinks order={order} />,
    },
    {
      title: 'Delivery Person',
      width: '9.5rem',
      sort: 'rider',
      show: (delivery) => <Rider delivery={delivery} />,
    },
    {
      title: 'Vehicle',
      width: '6rem',
      show: ({ delivery_vehicle }) => (
        <span className="block leading-5 wrap-anywhere">{delivery_vehicle || 'N/A'}</span>
      ),
    },
    {
      title: 'Status',
      width: '8rem',
      sort: 'status',
      show: (delivery) => <StatusControl delivery={delivery} status={status} />,
    },
    { title: 'Times', width: '8.75rem', show: (delivery) => <Times delivery={delivery} /> },
    {
      title: 'Actions',
      width: '8.75rem',
      show: (delivery) => <Actions delivery={delivery} steps={steps} />,
    },
  ];
}

/** On phones: short lines next to the controls. */
export function DeliveryRow({ delivery, status, steps }: RowControls & { delivery: ListedDelivery }) {
  const { order, delivery_person } = delivery;
  return (
    <div className="grid grid-cols-[minmax(0,1fr)_8.75rem] items-center gap-x-2 sm:grid-cols-[minmax(0,1fr)_16.5rem] lg:grid-cols-[minmax(0,1fr)_18rem]">
      <div className="grid min-w-0 grid-cols-1 gap-x-3 text-sm leading-5 md:grid-cols-[10.5rem_minmax(0,1fr)]">
        <p className="flex items-center gap-2 whitespace-nowrap">
          <OrderLink delivery={delivery} className="py-0.5" />
          <DeliveryAge delivery={delivery} />
        </p>
        {/* As many lines with a rider as without one: then the address shares that of the name on a phone. */}
        <p className={`min-w-0 gap-1.5 ${delivery_person ? 'flex md:contents' : 'contents'}`}>
          <span
            className={`flex min-w-0 items-baseline gap-1 md:col-start-2 ${delivery_person ? 'max-md:max-w-3/5 max-md:shrink-0' : ''}`}
          >
            <span className="truncate font-semibold">{order.customer_name}</span>
            <NthOrder nth={order.nth_order} />
          </span>
          {order.anonymised_at ? null : (
            <span className="flex min-w-0 gap-1.5 md:col-start-1">
              <MapLink order={order} className="min-w-0 truncate py-0.5 underline" />
              <OtherCity order={order} />
            </span>
          )}
        </p>
        <div className="min-w-0 md:col-start-2">
          <Drinks order={order} />
        </div>
        {delivery_person ? (
          <p className="flex min-w-0 gap-2 text-ink-soft md:col-span-2">
            <Rider delivery={delivery} />
            <LastTime delivery={delivery} />
          </p>
        ) : null}
      </div>
      <div className="grid sm:flex sm:flex-row-reverse sm:flex-wrap sm:items-center sm:justify-between">
        <Actions delivery={delivery} steps={steps} />
        {delivery_person ? (
          <StatusControl delivery={delivery} status={status} />
        ) : order.status === 'cancelled' ? (
          <span className="justify-self-end">
            <CancelledBadge />
          </span>
        ) : null}
      </div>
    </div>
  );
}

/** The next step, and everything else behind a menu. Without a rider the next step is to assign one, unless it is collected. */
function Actions({ delivery, steps }: { delivery: ListedDelivery; steps: NextSteps }) {
  const { id, order, delivery_person } = delivery;
  const step = workStep(order, delivery);
  const actions = (): RowAction[] => [
    { label: 'View the order', to: `/admin/orders/${order.id}` },
    ...(delivery_person && takesRider(order)
      ? [{ label: 'Edit assignment', run: () => steps.assign(id) }]
      : []),
    ...(step === 'prepare' && !delivery_person
      ? [{ label: 'Prepare', run: () => steps.set(delivery, 'preparing') }]
      : []),
    ...(step === 'preparing' && !delivery_person
      ? [{ label: 'Ready', run: () => steps.set(delivery, 'ready') }]
      : []),
    ...(step === 'preparing' ? [{ label: 'Give back', run: () => steps.set(delivery, 'prepare') }] : []),
    ...(delivery.delivery_phone
      ? [{ label: `Call ${delivery_person ?? 'the rider'}`, href: callTo(delivery.delivery_phone) }]
      : []),
    ...contactActions(order),
  ];
  return (
    <span className="flex min-w-0 items-center justify-end gap-0.5">
      {delivery_person || order.is_collected ? (
        <NextStepButton delivery={delivery} steps={steps} />
      ) : takesRider(order) ? (
        <Button
          onClick={() => steps.assign(id)}
          aria-haspopup="dialog"
          className="min-h-10! grow px-2! text-xs! shadow-none! rows:min-h-11!"
        >
          Assign<span className="sr-only"> {order.order_number}</span>
        </Button>
      ) : null}
      <RowMenu name={order.order_number} actions={actions} />
    </span>
  );
}

type Order = ListedDelivery['order'];

function OrderLink({ delivery: { order }, className }: { delivery: ListedDelivery; className: string }) {
  return (
    <Link
      to={`/admin/orders/${order.id}`}
      data-row-link
      className={`font-semibold whitespace-nowrap underline ${className}`}
    >
      {order.order_number}
    </Link>
  );
}

function DeliveryAge({ delivery }: { delivery: ListedDelivery }) {
  return isWaiting(delivery.order) ? (
    <Due at={dueAt(delivery.order, delivery.created_at)} paidAt={delivery.created_at} />
  ) : (
    <Age at={delivery.created_at} />
  );
}

function CustomerPhone({ order, className }: { order: Order; className: string }) {
  return (
    <a href={callTo(order.customer_phone)} className={`whitespace-nowrap tabular-nums ${className}`}>
      {formatPhone(order.customer_phone)}
    </a>
  );
}

function OtherCity({ order }: { order: Order }) {
  const city = otherCity(order);
  return city ? <span className="font-semibold whitespace-nowrap text-ink">{city}</span> : null;
}

function Rider({ delivery }: { delivery: ListedDelivery }) {
  const { delivery_person, delivery_phone, delivery_notes } = delivery;
  if (!delivery_person)
    return (
      <span className="text-ink-soft">{delivery.order.is_collected ? 'Collected' : 'Not assigned'}</span>
    );
  const chat = workStep(delivery.order, delivery) && jobChat(delivery.order, delivery);
  return (
    <>
      <span className="flex min-w-0 items-center gap-1.5">
        <bdi className="truncate" title={delivery_person}>
          {delivery_person}
        </bdi>
        {chat ? (
          <a
            href={chat}
            target="_blank"
            rel="noreferrer"
            title="WhatsApp the job to the rider"
            aria-label={`WhatsApp ${delivery.order.order_number} to ${delivery_person}`}
            className="tap -my-2.25! flex shrink-0 text-leaf-700"
          >
            <Icon name="chat" className="size-4" />
          </a>
        ) : null}
      </span>
      <span className="flex gap-2 text-xs leading-5 rows:min-w-0 rows:text-sm max-sm:hidden">
        {delivery_phone ? (
          <a href={callTo(delivery_phone)} className="whitespace-nowrap underline rows:-my-1 rows:py-1">
            {delivery_phone}
          </a>
        ) : null}
        {delivery_notes ? (
          <span className="truncate text-ink-soft" title={delivery_notes}>
            <span className="sr-only">Instructions: </span>
            {delivery_notes}
          </span>
        ) : null}
      </span>
    </>
  );
}

const CancelledBadge = () => (
  <Badge tone="red" isSmall>
    <span className="whitespace-nowrap">Order cancelled</span>
  </Badge>
);

function StatusControl({ delivery, status }: { delivery: ListedDelivery; status: DeliveryStatus }) {
  return (
    <span className="grid justify-items-start">
      {delivery.delivery_person ? (
        <StatusSelect
          label={`Delivery status of ${delivery.order.order_number}`}
          value={delivery.delivery_status}
          options={statusesOnceAssigned}
          saving={status.saving(delivery)}
          confirmation={(to) => confirmDeliveryStatus(delivery, to)}
          block={(to) => deliveryStatusBlock(delivery, to)}
          onChoose={(to, reason) => status.set(delivery, to, reason)}
        />
      ) : (
        <StatusBadge status={delivery.delivery_status} isSmall />
      )}
      {delivery.order.status === 'cancelled' ? <CancelledBadge /> : null}
    </span>
  );
}

function Times({ delivery: { pickup_time, delivery_time } }: { delivery: ListedDelivery }) {
  if (!pickup_time && !delivery_time) {
    return (
      <span className="text-ink-soft">
        <span aria-hidden="true">—</span>
        <span className="sr-only">None yet</span>
      </span>
    );
  }
  return (
    <span className="block text-xs leading-5">
      {pickup_time ? <Time word="Picked" at={pickup_time} /> : null}
      {delivery_time ? <Time word="Delivered" at={delivery_time} /> : null}
    </span>
  );
}

function LastTime({ delivery: { pickup_time, delivery_time } }: { delivery: ListedDelivery }) {
  const now = useNow();
  const at = delivery_time ?? pickup_time;
  if (!at) return null;
  const word = delivery_time ? 'Delivered' : 'Picked';
  // Its label would overlap the status on a narrow phone.
  return (
    <span title={word} className="flex shrink-0 items-center gap-1 text-xs">
      <Icon name={delivery_time ? 'check' : 'truck'} className="size-3.5 text-ink-soft" />
      <span className="sr-only">{word}: </span>
      <time dateTime={at} className="truncate">
        {formatClock(at, now)}
      </time>
    </span>
  );
}

function Time({ word, at }: { word: string; at: string }) {
  const now = useNow();
  return (
    <span className="block truncate">
      <span className="text-ink-soft">{word}:</span> <time dateTime={at}>{formatClock(at, now)}</time>
    </span>
  );
}

export const exportColumns: CsvColumn<ListedDelivery>[] = [
  { title: 'Order #', value: ({ order }) => order.order_number },
  { title: 'Customer', value: ({ order }) => order.customer_name },
  { title: 'Customer phone', value: ({ order }) => phoneCell(order.customer_phone) },
  { title: 'Address', value: ({ order }) => order.shipping_address },
  { title: 'City', value: ({ order }) => order.city },
  { title: 'Area', value: ({ order }) => order.area_name },
  {
    title: 'Items',
    value: ({ order }) =>
      order.order_items.map(({ quantity, product_name }) => `${quantity} x ${product_name}`).join('; '),
  },
  { title: "Customer's notes", value: ({ order }) => order.delivery_notes },
  { title: 'Total (KES)', value: ({ order }) => shownAmount(order.total_amount, order.payment_status) / 100 },
  { title: 'Status', value: ({ delivery_status }) => statusLabel(delivery_status) },
  { title: 'Delivery person', value: ({ delivery_person }) => delivery_person },
  { title: 'Phone', value: ({ delivery_phone }) => phoneCell(delivery_phone) },
  { title: 'Vehicle', value: ({ delivery_vehicle }) => delivery_vehicle },
  { title: 'Delivery notes', value: ({ delivery_notes }) => delivery_notes },
  { title: 'Paid (Nairobi time)', value: ({ created_at }) => formatForFile(created_at) },
  { title: 'Picked (Nairobi time)', value: ({ pickup_time }) => formatForFile(pickup_time) },
  { title: 'Delivered (Nairobi time)', value: ({ delivery_time }) => formatForFile(delivery_time) },
  { title: 'Failed tries', value: ({ failures }) => failures },
  {
    title: 'Why it failed',
    value: ({ failure_reason }) => failure_reason && labelOfFailure(failure_reason),
  },
];

/** @param hasAllPhones whether phones of finished deliveries are printed, too: no rider needs them */
export const printColumns = (hasAllPhones: boolean): CsvColumn<ListedDelivery>[] => [
  { title: 'Order #', value: ({ order }) => order.order_number },
  { title: 'Customer', value: ({ order }) => order.customer_name },
  {
    title: 'Phone',
    value: ({ order }) => (hasAllPhones || isWaiting(order) ? formatPhone(order.customer_phone) : null),
  },
  {
    title: 'Address',
    value: ({ order }) => [order.shipping_address, otherCity(order)].filter(Boolean).join(', '),
  },
  { title: 'Area', value: ({ order }) => order.area_name },
  { title: 'Items', value: ({ order }) => drinksOf(order.order_items) },
  { title: "Customer's notes", value: ({ order }) => order.delivery_notes },
  { title: 'Delivery person', value: ({ delivery_person }) => delivery_person },
  { title: 'Status', value: ({ delivery_status }) => statusLabel(delivery_status) },
];
