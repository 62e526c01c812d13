// A delivery in the list (specification §2, Admin Deliveries), and in the exported file.
import { Link } from 'react-router';
import { statusesOnceAssigned } from '../../../domain/delivery-status.ts';
import { formatPhone } from '../../../domain/phone.ts';
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { callTo } from '../contact-link.tsx';
import { formatDateTime } from '../dates.ts';
import { StaffIcon } from '../layout/staff-icons.tsx';
import type { CsvColumn } from '../list/csv.ts';
import type { Column } from '../list/row-list.tsx';
import { StatusBadge, statusWords } from '../status-badge.tsx';
import { confirmDeliveryStatus, deliveryStatusBlock } from '../status-change.ts';
import { StatusSelect } from '../status-select.tsx';
import { useDialogOpener } from '../use-dialog-parameter.ts';
import type { ListedDelivery } from './delivery-queries.ts';
import { MapLink } from './map-link.tsx';
import type { useDeliveryStatus } from './use-delivery-status.ts';

export function deliveryColumns(status: ReturnType<typeof useDeliveryStatus>): Column<ListedDelivery>[] {
  return [
    {
      title: 'Order #',
      card: 'heading',
      show: ({ order }) => (
        <Link to={`/admin/orders/${order.id}`} className="tap font-semibold whitespace-nowrap underline">
          {order.order_number}
        </Link>
      ),
    },
    {
      title: 'Customer',
      card: 'alone',
      show: ({ order }) => (
        <span className="block max-w-80 break-words table:max-w-60 table:min-w-48">
          {order.customer_name}
          <span className="block text-ink-soft">{order.city}</span>
          {order.anonymised_at ? null : (
            <span className="mt-0.5 flex flex-wrap gap-x-3 text-ink-soft">
              <a href={`tel:${order.customer_phone}`} className="tap whitespace-nowrap underline">
                {formatPhone(order.customer_phone)}
              </a>
              <MapLink order={order} />
            </span>
          )}
        </span>
      ),
    },
    {
      title: 'Delivery Person',
      show: ({ delivery_person, delivery_phone, delivery_notes }) =>
        delivery_person ? (
          <span className="block max-w-56 break-words max-table:ml-auto">
            {delivery_person}
            {delivery_phone ? (
              <span className="block">
                <a href={callTo(delivery_phone)} className="tap text-ink-soft underline">
                  {delivery_phone}
                </a>
              </span>
            ) : null}
            {delivery_notes ? (
              <span className="line-clamp-2 whitespace-pre-line text-ink-soft" title={delivery_notes}>
                {delivery_notes}
              </span>
            ) : null}
          </span>
        ) : (
          <span className="text-ink-soft">Not assigned</span>
        ),
    },
    {
      title: 'Vehicle',
      show: ({ delivery_vehicle }) => (
        <span className="block max-w-36 break-words max-table:ml-auto">{delivery_vehicle || 'N/A'}</span>
      ),
    },
    {
      title: 'Status',
      card: 'corner',
      show: ({ delivery_status, order }) => (
        <span className="flex flex-col items-end gap-1.5 whitespace-nowrap table:items-start">
          <StatusBadge status={delivery_status} />
          {order.status === 'cancelled' ? <Badge tone="red">Order cancelled</Badge> : null}
        </span>
      ),
    },
    {
      title: 'Times',
      show: ({ pickup_time, delivery_time }) =>
        pickup_time || delivery_time ? (
          <span className="block text-sm">
            {pickup_time ? <Time word="Picked" at={pickup_time} /> : null}
            {delivery_time ? <Time word="Delivered" at={delivery_time} /> : null}
          </span>
        ) : (
          <span className="text-ink-soft">
            <span aria-hidden="true">—</span>
            <span className="sr-only">None yet</span>
          </span>
        ),
    },
    {
      title: 'Actions',
      card: 'actions',
      show: (delivery) => (
        <span className="flex items-center gap-2">
          <AssignButton delivery={delivery} />
          {delivery.delivery_person ? (
            <StatusSelect
              label={`Delivery status of ${delivery.order.order_number}`}
              value={delivery.delivery_status}
              options={statusesOnceAssigned}
              saving={status.saving(delivery)}
              confirmation={(to) => confirmDeliveryStatus(delivery, to)}
              block={(to) => deliveryStatusBlock(delivery, to)}
              onChoose={(to) => status.set(delivery, to)}
            />
          ) : null}
        </span>
      ),
    },
  ];
}

function Time({ word, at }: { word: string; at: string }) {
  return (
    <span className="block">
      <span className="text-ink-soft">{word}:</span> <time dateTime={at}>{formatDateTime(at)}</time>
    </span>
  );
}

/** Assigns what nobody has yet; what somebody has can be edited. A cancelled order is not brought to anyone. */
function AssignButton({ delivery: { id, delivery_person, order } }: { delivery: ListedDelivery }) {
  const open = useDialogOpener('assign');
  if (order.status === 'cancelled') return null;
  return delivery_person ? (
    <button
      type="button"
      onClick={() => open(id)}
      aria-haspopup="dialog"
      aria-label={`Edit assignment of ${order.order_number}`}
      title="Edit assignment"
      className="grid size-11 shrink-0 place-items-center rounded-md text-ink-soft transition-colors hover:bg-paper-deep hover:text-ink"
    >
      <StaffIcon name="pencil" />
    </button>
  ) : (
    <Button onClick={() => open(id)} aria-haspopup="dialog">
      Assign<span className="sr-only"> {order.order_number}</span>
    </Button>
  );
}

export const exportColumns: CsvColumn<ListedDelivery>[] = [
  { title: 'Order #', value: ({ order }) => order.order_number },
  { title: 'Customer', value: ({ order }) => order.customer_name },
  { title: 'Customer phone', value: ({ order }) => order.customer_phone },
  { title: 'Address', value: ({ order }) => order.shipping_address },
  { title: 'City', value: ({ order }) => order.city },
  { title: 'Total (KES)', value: ({ order }) => order.total_amount / 100 },
  { title: 'Status', value: ({ delivery_status }) => statusWords(delivery_status) },
  { title: 'Delivery person', value: ({ delivery_person }) => delivery_person },
  { title: 'Phone', value: ({ delivery_phone }) => delivery_phone },
  { title: 'Vehicle', value: ({ delivery_vehicle }) => delivery_vehicle },
  { title: 'Delivery notes', value: ({ delivery_notes }) => delivery_notes },
  { title: 'Made', value: ({ created_at }) => created_at },
  { title: 'Picked', value: ({ pickup_time }) => pickup_time },
  { title: 'Delivered', value: ({ delivery_time }) => delivery_time },
];
