// Sets a delivery's status from the list.
import type { DeliveryFailureReason, DeliveryStatus } from '../../../supabase/types.ts';
import type { RowChange } from '../live/use-live-changes.ts';
import { statusLabel } from '../status/status-badge.tsx';
import { deliveryNeedsConsent } from '../status/status-change.ts';
import { formatDateTime } from '../ui/time/dates.ts';
import { useStatusChange } from '../undo/use-status-change.ts';
import type { ListedDelivery } from './delivery-queries.ts';
import { lastDeliveryChange } from './last-delivery-change.ts';

/** Whether a row is newer than the one that was seen. Events of earlier changes may arrive late. */
export const isNewer = (row: RowChange['row'], seenUpdatedAt: string): boolean =>
  Date.parse(String(row.updated_at)) > Date.parse(seenUpdatedAt);

export const useDeliveryStatus = () =>
  useStatusChange<ListedDelivery, DeliveryStatus, DeliveryFailureReason>({
    set: (tables, delivery, to, reason) =>
      tables.rpc('set_delivery_status', {
        delivery_id: delivery.id,
        status: to,
        expected_status: delivery.delivery_status,
        although_unpaid: deliveryNeedsConsent(delivery, to),
        failure_reason: reason ?? null,
      }),
    conflict: 'delivery_changed',
    async whatHappened(tables, { order }) {
      const last = await lastDeliveryChange(tables, order.id);
      return last?.details.to
        ? `${last.actor} set the delivery of ${order.order_number} to ${statusLabel(last.details.to)} (${formatDateTime(last.at)}). That stays; nothing of yours was saved.`
        : `The delivery of ${order.order_number} was changed in the meantime. You see its new status now; nothing of yours was saved.`;
    },
    orderNumber: ({ order }) => order.order_number,
    orderId: ({ order }) => order.id,
    contradicts: ({ id, updated_at, order }, to, { table, row }) =>
      (table === 'deliveries' && row.id === id && isNewer(row, updated_at) && row.delivery_status !== to) ||
      (table === 'orders' && row.id === order.id && row.payment_status !== order.payment_status),
    statusOf: ({ delivery_status }) => delivery_status,
    label: statusLabel,
    success: 'Delivery status updated successfully',
    failure: 'Failed to update delivery status',
  });
