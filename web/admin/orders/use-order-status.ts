// Sets an order's status, from the list and from the order itself.

import type { OrderStatus } from '../../../supabase/types.ts';
import type { Staff } from '../../lib/staff.ts';
import { type StaffStatus, statusLabel } from '../status/status-badge.tsx';
import { needsConsent, type OrderState } from '../status/status-change.ts';
import { knownNameOf } from '../ui/known-names.ts';
import { formatDateTime } from '../ui/time/dates.ts';
import { useStatusChange } from '../undo/use-status-change.ts';

export type OrderSeen = OrderState & { id: string };

export const useOrderStatus = () =>
  useStatusChange<OrderSeen, OrderStatus>({
    set: (tables, order, to) =>
      tables.rpc('set_order_status', {
        order_id: order.id,
        status: to,
        expected_status: order.status,
        // The decision was about another state if the order has been paid or refunded in the meantime.
        expected_payment_status: order.payment_status,
        although_unpaid: needsConsent(order, to),
      }),
    conflict: 'order_changed',
    whatHappened,
    orderNumber: ({ order_number }) => order_number,
    orderId: ({ id }) => id,
    contradicts: (order, to, { table, row }) =>
      table === 'orders' &&
      row.id === order.id &&
      ((row.status !== order.status && row.status !== to) || row.payment_status !== order.payment_status),
    statusOf: ({ status }) => status,
    label: statusLabel,
    success: 'Order status updated successfully',
    failure: 'Failed to update order status',
  });

async function whatHappened(tables: Staff['tables'], { id, order_number }: OrderSeen): Promise<string> {
  const { data } = await tables
    .from('order_events')
    .select('kind, actor_email, details, happened_at')
    .eq('order_id', id)
    .in('kind', ['status_changed', 'payment_status_changed'])
    .order('id', { ascending: false })
    .limit(1);
  const last = data?.[0];
  const to = (last?.details as { to?: StaffStatus } | undefined)?.to;
  if (!last || !to) {
    return `${order_number} was changed in the meantime. You see its new status now; nothing of yours was saved.`;
  }
  const [when, words] = [formatDateTime(last.happened_at), statusLabel(to)];
  return last.kind === 'payment_status_changed'
    ? `The payment of ${order_number} became ${words} (${when}). Nothing of yours was saved: please look at it again.`
    : `${knownNameOf(last.actor_email ?? 'The shop')} set ${order_number} to ${words} (${when}). That stays; nothing of yours was saved.`;
}
