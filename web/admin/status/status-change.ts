// Rules of a status change before it is saved: unavailable statuses, confirmations, and consent.
import { deliveryFailures } from '../../../domain/deliveries/delivery-failure.ts';
import { chargeCents, formatKes } from '../../../domain/money.ts';
import type {
  DeliveryFailureReason,
  DeliveryStatus,
  OrderPaymentStatus,
  OrderStatus,
  PaymentStatus,
} from '../../../supabase/types.ts';
import { keysOf } from '../data/keys-of.ts';
import { hasLeftShop, hasPaymentInReview, needsReview } from './states.ts';
import { statusLabel } from './status-badge.tsx';

/** What a change of an order's status depends on. */
export interface OrderState {
  order_number: string;
  status: OrderStatus;
  payment_status: OrderPaymentStatus;
  /** In cents. */
  total_amount: number;
  payments?: readonly { status: PaymentStatus }[];
  /** The customer takes it along at the shop. */
  is_collected?: boolean;
  /** Null without a delivery. Undefined where it is not known. */
  delivery?: { id: string; delivery_person: string | null } | null;
}

/** The same for a delivery. */
export interface DeliveryState {
  delivery_status: DeliveryStatus;
  order: OrderState;
}

/** Why a delivery failed: value and label of a button. */
export interface Choice {
  value: DeliveryFailureReason;
  label: string;
}

/** A confirmation before a change is saved. */
export interface Confirmation {
  title: string;
  text: string;
  /** Label of the button that saves. Null: choosing one of `choices` does. */
  confirm: string | null;
  choices?: readonly Choice[];
  tone: 'danger' | 'leaf';
  /** What staff may have meant instead: a screen of the panel. */
  instead?: { label: string; to: string };
}

/** How far an order has come; a cancelled one begins again. */
const orderRank: Record<OrderStatus, number> = {
  cancelled: 0,
  pending: 0,
  processing: 1,
  shipped: 2,
  out_for_delivery: 2,
  delivered: 3,
};
const deliveryRank: Record<DeliveryStatus, number> = {
  failed: 0,
  pending: 0,
  assigned: 1,
  picked_up: 2,
  in_transit: 3,
  delivered: 4,
};
/** The order status at which a delivery status hands the order over, if any; `private.order_status_of_delivery` in the database. */
const orderStatusOf: Record<DeliveryStatus, OrderStatus | null> = {
  pending: null,
  assigned: null,
  failed: null,
  picked_up: 'out_for_delivery',
  in_transit: 'out_for_delivery',
  delivered: 'delivered',
};

/** Whether an order leaves the shop, or arrives, by this change; `private.check_handover` in the database. */
const isHandover = (from: OrderStatus, to: OrderStatus): boolean =>
  hasLeftShop(to) && orderRank[to] !== orderRank[from];

/** Whether the database requires consent: an unpaid order is handed over. */
export const needsConsent = ({ status, payment_status }: OrderState, to: OrderStatus): boolean =>
  payment_status !== 'paid' && isHandover(status, to);

export function deliveryNeedsConsent({ order }: DeliveryState, to: DeliveryStatus): boolean {
  const status = orderStatusOf[to];
  return status !== null && needsConsent(order, status);
}

/** Why a status cannot be chosen for an order, in two or three words; null if it can. */
export const orderStatusBlock = (
  { status, payment_status, is_collected = false }: OrderState,
  to: OrderStatus,
): string | null =>
  payment_status === 'refunded' && isHandover(status, to)
    ? 'Money sent back'
    : is_collected && orderRank[to] === orderRank.shipped
      ? 'Collected'
      : null;

/** The same for a delivery. */
export function deliveryStatusBlock({ order }: DeliveryState, to: DeliveryStatus): string | null {
  if (order.status === 'cancelled') return to === 'failed' ? null : 'Order cancelled';
  const status = orderStatusOf[to];
  return status && orderStatusBlock(order, status);
}

/** The confirmation of a status; null if it is saved at once. */
export function confirmOrderStatus(order: OrderState, to: OrderStatus): Confirmation | null {
  const { order_number, status, payment_status } = order;
  const words = statusLabel(to);
  if (to === 'cancelled') {
    return {
      title: `Cancel order ${order_number}?`,
      text: [
        payment_status === 'paid' &&
          `${formatKes(chargeCents(order.total_amount))} was paid: a refund becomes due.`,
        hasPaymentInReview(order) &&
          'A payment of it needs review: decide about that money in Reconciliation.',
        hasLeftShop(status) ? 'The drinks are not put back into stock.' : 'The drinks go back into stock.',
      ]
        .filter(Boolean)
        .join(' '),
      confirm: 'Cancel the order',
      tone: 'danger',
    };
  }
  if (needsConsent(order, to)) return confirmUnpaid(order, to === 'delivered' ? 'Deliver' : 'Ship');
  const hasNoRider =
    isHandover(status, to) && order.delivery?.delivery_person === null && order.is_collected !== true;
  if (status === 'cancelled') {
    return {
      title: `Take order ${order_number} up again?`,
      text: `It was cancelled. Its status becomes ${words}, and its drinks are taken out of stock again.${hasNoRider ? ' No rider is assigned.' : ''}`,
      confirm: `Set to ${words}`,
      tone: 'leaf',
    };
  }
  if (orderRank[to] >= orderRank[status]) {
    return hasNoRider && order.delivery
      ? confirmWithoutRider(order, order.delivery.id, to === 'delivered' ? 'Deliver' : 'Ship')
      : null;
  }
  return {
    title: `Set order ${order_number} back to ${words}?`,
    text: `It is ${statusLabel(status)} now. The customer gets no message about this step back.`,
    confirm: `Set back to ${words}`,
    tone: 'danger',
  };
}

const failures: readonly Choice[] = keysOf(deliveryFailures).map((value) => ({
  value,
  label: deliveryFailures[value].label,
}));

/** The same for a delivery, whose order follows it. */
export function confirmDeliveryStatus(delivery: DeliveryState, to: DeliveryStatus): Confirmation | null {
  const { delivery_status: from, order } = delivery;
  if (deliveryNeedsConsent(delivery, to)) {
    return confirmUnpaid(order, to === 'delivered' ? 'Deliver' : 'Hand over');
  }
  const words = statusLabel(to);
  const hasLeft = deliveryRank[from] >= 2 || hasLeftShop(order.status);
  if (to === 'failed') {
    if (!hasLeft || order.status === 'cancelled') return null;
    return {
      title: `Why did the delivery of ${order.order_number} fail?`,
      text: 'The order waits for another try. The customer reads the reason, and that you will call.',
      confirm: null,
      choices: failures,
      tone: 'danger',
    };
  }
  if (deliveryRank[to] >= deliveryRank[from]) return null;
  return {
    title: `Set the delivery of ${order.order_number} back to ${words}?`,
    text: `It is ${statusLabel(from)} now. The order follows, and the customer gets no message.`,
    confirm: `Set back to ${words}`,
    tone: 'danger',
  };
}

function confirmWithoutRider(
  { order_number }: OrderState,
  deliveryId: string,
  verb: 'Deliver' | 'Ship',
): Confirmation {
  return {
    title: `No rider is assigned to ${order_number}`,
    text:
      verb === 'Ship'
        ? 'Ship anyway? The customer gets the message that it is on its way, and it stays in "To assign" until it has a rider.'
        : 'Set it to Delivered anyway? Do so when the customer has the drinks already.',
    confirm: `${verb} without a rider`,
    tone: 'danger',
    instead: {
      label: 'Assign a rider',
      to: `/admin/deliveries?search=${encodeURIComponent(order_number)}&assign=${deliveryId}`,
    },
  };
}

function confirmUnpaid(order: OrderState, verb: string): Confirmation {
  const { order_number } = order;
  return needsReview(order)
    ? {
        title: `The payment of ${order_number} needs review`,
        text: 'Usually you decide about the money first, in the order. Hand it over all the same?',
        confirm: `${verb} before the review`,
        tone: 'danger',
      }
    : {
        title: `Order ${order_number} is not paid`,
        text: 'Hand it over all the same? Do so only when the customer pays in another way, such as cash at the door.',
        confirm: `${verb} unpaid`,
        tone: 'danger',
      };
}
