// Delivery statuses as staff filter by them and set them (docs/product.md#delivery-statuses).
import type {
  DeliveryStatus,
  OrderPaymentMethod,
  OrderPaymentStatus,
  OrderStatus,
} from '../../supabase/types.ts';

/** All of them, in the order of their life. */
export const deliveryStatuses = [
  'pending',
  'assigned',
  'picked_up',
  'in_transit',
  'delivered',
  'failed',
] as const satisfies readonly DeliveryStatus[];

/** Statuses that staff may set once a rider is assigned: a delivery never returns to pending. */
export const statusesOnceAssigned = deliveryStatuses.filter((status) => status !== 'pending');

const isOpenOrder = (status: OrderStatus): boolean => status !== 'delivered' && status !== 'cancelled';

interface PayableOrder {
  status: OrderStatus;
  payment_status: OrderPaymentStatus;
  payment_method: OrderPaymentMethod;
}

/** Whether cash for the order is to be collected at the door. */
export const isCashDue = ({
  payment_status,
  payment_method,
}: Pick<PayableOrder, 'payment_status' | 'payment_method'>): boolean =>
  payment_status === 'unpaid' && payment_method === 'cash';

/**
 * Whether an order is paid, or paid in cash at the door, and neither delivered nor cancelled: then the promise of its
 * delivery time runs. `private.is_to_deliver` in the database.
 */
export const isWaiting = (order: PayableOrder): boolean =>
  (order.payment_status === 'paid' || isCashDue(order)) && isOpenOrder(order.status);

/** What an order that is to be delivered waits for. */
export type WorkStep = 'prepare' | 'preparing' | 'ready' | 'on_the_way' | 'failed';

/** What an order waits for; null: nothing. `private.work_step` in the database. */
export function workStep(
  order: PayableOrder,
  delivery: { delivery_status: DeliveryStatus; taken_by: string | null; ready_at: string | null },
): WorkStep | null {
  if (!isWaiting(order)) return null;
  if (delivery.delivery_status === 'failed') return 'failed';
  if (order.status === 'shipped' || order.status === 'out_for_delivery') return 'on_the_way';
  if (delivery.ready_at !== null) return 'ready';
  return delivery.taken_by === null ? 'prepare' : 'preparing';
}

/** Whether the customer asked to cancel a paid order, and staff have not answered. `private.has_cancel_request` in the database. */
export const hasCancelRequest = (
  order: Pick<PayableOrder, 'status' | 'payment_status'> & {
    cancel_requested_at: string | null;
    cancel_declined_at: string | null;
  },
): boolean =>
  order.cancel_requested_at !== null &&
  order.cancel_declined_at === null &&
  order.payment_status === 'paid' &&
  isOpenOrder(order.status);

/** Whether a rider can be assigned: the customer collects some orders at the shop. `assign_delivery` in the database. */
export const takesRider = ({
  status,
  is_collected,
}: Pick<PayableOrder, 'status'> & { is_collected: boolean }): boolean =>
  !is_collected && status !== 'cancelled';

/** The step after each: a customer who collects the order takes it at the shop, so no rider does. `move_on` in the database. */
export function nextStep(step: WorkStep, order: { is_collected: boolean }): WorkStep | 'delivered' {
  switch (step) {
    case 'prepare':
      return 'preparing';
    case 'preparing':
    case 'failed':
      return 'ready';
    case 'ready':
      return order.is_collected ? 'delivered' : 'on_the_way';
    case 'on_the_way':
      return 'delivered';
  }
}
