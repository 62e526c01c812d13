import { expect, test } from 'vitest';
import { deliveryStatuses, describeDeliveryStatus, statusesOnceAssigned } from './delivery-status.ts';

test('the filter offers every status in words', () => {
  expect(deliveryStatuses.map(describeDeliveryStatus)).toEqual([
    'Pending',
    'Assigned',
    'Picked Up',
    'In Transit',
    'Delivered',
    'Failed',
  ]);
});

test('an assigned delivery cannot become pending again', () => {
  expect(statusesOnceAssigned).toEqual(['assigned', 'picked_up', 'in_transit', 'delivered', 'failed']);
});

test('an unknown status is shown as it is', () => {
  expect(describeDeliveryStatus('lost_at_sea')).toBe('lost_at_sea');
  expect(describeDeliveryStatus('toString')).toBe('toString');
});
