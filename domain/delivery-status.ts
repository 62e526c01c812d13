// Delivery statuses as staff filter by them and set them (specification §4, Admin-managed statuses).

/** All of them, in the order of their life (specification §2, Admin Deliveries). */
export const deliveryStatuses = [
  'pending',
  'assigned',
  'picked_up',
  'in_transit',
  'delivered',
  'failed',
] as const;

/** What staff may set once somebody delivers: there is no way back to pending. */
export const statusesOnceAssigned = deliveryStatuses.filter((status) => status !== 'pending');
