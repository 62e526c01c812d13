import { expect, test } from 'vitest';
import { deliveryStatuses, statusesOnceAssigned } from './delivery-status.ts';

test('an assigned delivery cannot become pending again', () => {
  expect(statusesOnceAssigned).toEqual(['assigned', 'picked_up', 'in_transit', 'delivered', 'failed']);
  expect(deliveryStatuses).toEqual(['pending', ...statusesOnceAssigned]);
});
