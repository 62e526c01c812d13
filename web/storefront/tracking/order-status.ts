// Labels of order statuses for customers, and their progress.
import type { ShownStatus } from '../../lib/orders/order-meaning.ts';

export type BadgeColour = 'yellow' | 'blue' | 'purple' | 'green' | 'red' | 'grey';

const labels: Record<ShownStatus, { label: string; colour: BadgeColour }> = {
  pending: { label: 'Order Placed', colour: 'yellow' },
  processing: { label: 'Processing', colour: 'blue' },
  out_for_delivery: { label: 'Out for Delivery', colour: 'purple' },
  delivered: { label: 'Delivered', colour: 'green' },
  cancelled: { label: 'Cancelled', colour: 'red' },
};

/** The four steps of the tracker, in order (docs/product.md#tracking). */
export const trackingSteps: readonly ShownStatus[] = [
  'pending',
  'processing',
  'out_for_delivery',
  'delivered',
];

/**
 * A status as the storefront shows it (docs/product.md#order-statuses).
 * @param status the order's status; one that a later version added is shown grey and raw
 */
export const describeOrderStatus = (status: ShownStatus): { label: string; colour: BadgeColour } =>
  Object.hasOwn(labels, status) ? labels[status] : { label: status, colour: 'grey' };

/**
 * The progress of an order through the four steps.
 * @returns the index of the current step, -1 for a status outside the four, and the share of the bar that is filled, 0 to 1
 */
export function trackingProgress(status: ShownStatus): { index: number; filled: number } {
  const index = trackingSteps.indexOf(status);
  return { index, filled: Math.max(index, 0) / (trackingSteps.length - 1) };
}
