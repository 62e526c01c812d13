// Delivery statuses as staff see and set them (specification §4, Admin-managed statuses).

/** All of them, in the order of their life (the filter of specification §2, Admin Deliveries). */
export const deliveryStatuses = [
  'pending',
  'assigned',
  'picked_up',
  'in_transit',
  'delivered',
  'failed',
] as const;
export type DeliveryStatus = (typeof deliveryStatuses)[number];

/** What staff may set once somebody delivers: everything but pending. */
export const statusesOnceAssigned = deliveryStatuses.filter((status) => status !== 'pending');

const labels: Record<DeliveryStatus, string> = {
  pending: 'Pending',
  assigned: 'Assigned',
  picked_up: 'Picked Up',
  in_transit: 'In Transit',
  delivered: 'Delivered',
  failed: 'Failed',
};

/**
 * A status in words.
 * @param status as the database keeps it; an unknown one comes back raw
 */
export function describeDeliveryStatus(status: string): string {
  return Object.hasOwn(labels, status) ? labels[status as DeliveryStatus] : status;
}
