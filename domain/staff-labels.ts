// What staff screens, files and papers call each state of an order, its payments and its delivery.

/** A colour of a badge: red needs staff, yellow and orange wait, blue and purple are under way, green is done, grey is over. */
type LabelTone = 'yellow' | 'blue' | 'purple' | 'orange' | 'green' | 'red' | 'grey';

export interface StaffLabel {
  text: string;
  tone: LabelTone;
}

const label = (text: string, tone: LabelTone): StaffLabel => ({ text, tone });

/** Statuses of orders (specification §4, Admin-managed statuses). */
export const orderStatusLabels: Readonly<Record<string, StaffLabel>> = {
  pending: label('Pending', 'yellow'),
  processing: label('Processing', 'blue'),
  shipped: label('Shipped', 'purple'),
  out_for_delivery: label('Out For Delivery', 'purple'),
  delivered: label('Delivered', 'green'),
  cancelled: label('Cancelled', 'red'),
};

/** Statuses of deliveries; those with the name of an order's status have its label. */
export const deliveryStatusLabels: Readonly<Record<string, StaffLabel>> = {
  pending: label('Pending', 'yellow'),
  assigned: label('Assigned', 'blue'),
  picked_up: label('Picked Up', 'purple'),
  in_transit: label('In Transit', 'orange'),
  delivered: label('Delivered', 'green'),
  failed: label('Failed', 'red'),
};

/** Payment statuses of orders by themselves; `describePaymentOfOrder` also reads the order's status. */
export const paymentStatusLabels: Readonly<Record<string, StaffLabel>> = {
  unpaid: label('Unpaid', 'yellow'),
  paid: label('Paid', 'green'),
  needs_review: label('Needs review', 'red'),
  refunded: label('Refunded', 'grey'),
};

/** Statuses of one payment. */
export const paymentLabels: Readonly<Record<string, StaffLabel>> = {
  initiating: label('Being sent', 'blue'),
  processing: label('Waiting for the PIN', 'blue'),
  completed: label('Received', 'green'),
  failed: label('Failed', 'red'),
  review: label('Needs review', 'red'),
  unresolved: label('No answer', 'orange'),
};

/**
 * The label of a status of an order, a delivery or an order's payment.
 * @param status a status that is not in the tables is shown in words, grey
 */
export function labelOfStatus(status: string): StaffLabel {
  for (const labels of [orderStatusLabels, deliveryStatusLabels, paymentStatusLabels]) {
    const known = Object.hasOwn(labels, status) ? labels[status] : undefined;
    if (known) return known;
  }
  return label(inWords(status), 'grey');
}

/** A payment's label by its status; an unknown one is shown in words, grey. */
export const labelOfPayment = (status: string): StaffLabel =>
  (Object.hasOwn(paymentLabels, status) && paymentLabels[status]) || label(inWords(status), 'grey');

/**
 * Whether an order is paid, as staff read it.
 * @param order `payments`: where M-PESA reported another amount that staff have not resolved, one has the status `review`
 */
export function describePaymentOfOrder(order: {
  status: string;
  payment_status: string;
  payments?: readonly { status: string }[];
}): StaffLabel {
  const { status, payment_status, payments = [] } = order;
  if (payment_status === 'paid' && status === 'cancelled') return label('Refund due', 'red');
  if (payment_status !== 'unpaid') return labelOfStatus(payment_status);
  if (payments.some((payment) => payment.status === 'review')) return label('Needs review', 'red');
  // No payment is expected for a cancelled order.
  return status === 'cancelled' ? label('Unpaid', 'grey') : labelOfStatus('unpaid');
}

const inWords = (status: string): string =>
  status
    .split('_')
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join(' ');
