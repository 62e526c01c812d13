// Labels of order statuses for customers, and their progress.

export type BadgeColour = 'yellow' | 'blue' | 'purple' | 'green' | 'red' | 'grey';

const labels: Record<string, { label: string; colour: BadgeColour }> = {
  pending: { label: 'Order Placed', colour: 'yellow' },
  processing: { label: 'Processing', colour: 'blue' },
  out_for_delivery: { label: 'Out for Delivery', colour: 'purple' },
  delivered: { label: 'Delivered', colour: 'green' },
  cancelled: { label: 'Cancelled', colour: 'red' },
};

/** The four steps of the tracker, in order (docs/product.md#tracking). */
export const trackingSteps = ['pending', 'processing', 'out_for_delivery', 'delivered'] as const;

/**
 * A status as the storefront shows it (docs/product.md#order-statuses).
 * @param status the order's status; an unknown one is shown grey and raw
 */
export function describeOrderStatus(status: string): { label: string; colour: BadgeColour } {
  return Object.hasOwn(labels, status) ? (labels[status] ?? raw(status)) : raw(status);
}

const raw = (status: string) => ({ label: status, colour: 'grey' as const });

/**
 * The progress of an order through the four steps.
 * @returns the index of the current step, -1 for a status outside the four, and the share of the bar that is filled, 0 to 1
 */
export function trackingProgress(status: string): { index: number; filled: number } {
  const index = (trackingSteps as readonly string[]).indexOf(status);
  return { index, filled: Math.max(index, 0) / (trackingSteps.length - 1) };
}
