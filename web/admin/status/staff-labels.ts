// What staff screens, files and papers call each state of an order, its payments and its delivery.
import { deliveryFailures } from '../../../domain/deliveries/delivery-failure.ts';
import type {
  DeliveryFailureReason,
  DeliveryStatus,
  OrderPaymentMethod,
  OrderPaymentStatus,
  OrderSource,
  OrderStatus,
  PaymentStatus,
} from '../../../supabase/types.ts';
import { entryOf, labelOf } from './label-of.ts';
import { hasPaymentInReview } from './states.ts';

/** A colour of a badge: red needs staff, yellow and orange wait, blue and purple are under way, green is done, grey is over. */
type LabelTone = 'yellow' | 'blue' | 'purple' | 'orange' | 'green' | 'red' | 'grey';

export interface StaffLabel {
  text: string;
  tone: LabelTone;
}

const label = (text: string, tone: LabelTone): StaffLabel => ({ text, tone });

/** Statuses of orders (docs/product.md#order-statuses). */
export const orderStatusLabels: Readonly<Record<OrderStatus, StaffLabel>> = {
  pending: label('Pending', 'yellow'),
  processing: label('Processing', 'blue'),
  shipped: label('Shipped', 'purple'),
  out_for_delivery: label('Out For Delivery', 'purple'),
  delivered: label('Delivered', 'green'),
  cancelled: label('Cancelled', 'red'),
};

/** Statuses of deliveries; those with the name of an order's status have its label. */
export const deliveryStatusLabels: Readonly<Record<DeliveryStatus, StaffLabel>> = {
  pending: label('Pending', 'yellow'),
  assigned: label('Assigned', 'blue'),
  picked_up: label('Picked Up', 'purple'),
  in_transit: label('In Transit', 'orange'),
  delivered: label('Delivered', 'green'),
  failed: label('Failed', 'red'),
};

/** How an order came. */
export const sourceLabels: Readonly<Record<OrderSource, string>> = {
  storefront: 'Storefront',
  call: 'Call',
  whatsapp: 'WhatsApp',
  walk_in: 'Walk-in',
};

/** How an order came, within a sentence: `call`. */
export const sourceInSentence = (source: OrderSource): string => {
  const text = labelOf(sourceLabels, source);
  return source === 'whatsapp' ? text : text.toLowerCase();
};

/** Payment statuses of orders by themselves; `describePaymentOfOrder` also reads the order's status. */
export const paymentStatusLabels: Readonly<Record<OrderPaymentStatus, StaffLabel>> = {
  unpaid: label('Unpaid', 'yellow'),
  paid: label('Paid', 'green'),
  needs_review: label('Needs review', 'red'),
  refunded: label('Refunded', 'grey'),
};

/** Statuses of one payment. */
export const paymentLabels: Readonly<Record<PaymentStatus, StaffLabel>> = {
  initiating: label('Being sent', 'blue'),
  processing: label('Waiting for the PIN', 'blue'),
  completed: label('Received', 'green'),
  failed: label('Failed', 'red'),
  review: label('Needs review', 'red'),
  unresolved: label('No answer', 'orange'),
};

const greyLabel = (text: string): StaffLabel => label(text, 'grey');

const labels = { ...orderStatusLabels, ...deliveryStatusLabels, ...paymentStatusLabels };
/** The label of a status of an order, a delivery or an order's payment. */
export const labelOfStatus = (status: keyof typeof labels): StaffLabel => entryOf(labels, status, greyLabel);

/** A payment's label by its status. */
export const labelOfPayment = (status: PaymentStatus): StaffLabel =>
  entryOf(paymentLabels, status, greyLabel);

/** Why a delivery failed. */
export const labelOfFailure = (reason: DeliveryFailureReason): string =>
  entryOf(deliveryFailures, reason, (words) => ({ label: words, words: '' })).label;

/**
 * Whether an order is paid, as staff read it.
 * @param order `payments`: where M-PESA reported another amount that staff have not resolved, one has the status `review`
 */
export function describePaymentOfOrder(order: {
  status: OrderStatus;
  payment_status: OrderPaymentStatus;
  /** Default: not cash. */
  payment_method?: OrderPaymentMethod;
  payments?: readonly { status: PaymentStatus }[];
}): StaffLabel {
  const { status, payment_status } = order;
  if (payment_status === 'paid' && status === 'cancelled') return label('Refund due', 'red');
  if (payment_status !== 'unpaid') return labelOfStatus(payment_status);
  if (hasPaymentInReview(order)) return label('Needs review', 'red');
  if (order.payment_method === 'cash' && status !== 'cancelled') return label('Cash due', 'orange');
  // No payment is expected for a cancelled order.
  return status === 'cancelled' ? label('Unpaid', 'grey') : labelOfStatus('unpaid');
}
