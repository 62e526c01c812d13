import { expect, test } from 'vitest';
import { describeOrderStatus, trackingProgress, trackingSteps } from './order-status.ts';

test('known statuses have a label and a colour', () => {
  expect(describeOrderStatus('pending')).toEqual({ label: 'Order Placed', colour: 'yellow' });
  expect(describeOrderStatus('out_for_delivery')).toEqual({ label: 'Out for Delivery', colour: 'purple' });
});

test('an unknown status is shown grey and raw, with nothing complete', () => {
  for (const status of ['lost_at_sea', 'toString', '']) {
    expect(describeOrderStatus(status as never)).toEqual({ label: status, colour: 'grey' });
    expect(trackingProgress(status as never)).toEqual({ index: -1, filled: 0 });
  }
});

test('the bar fills in thirds', () => {
  const filled = trackingSteps.map((status) => trackingProgress(status).filled);
  expect(filled).toEqual([0, 1 / 3, 2 / 3, 1]);
});
