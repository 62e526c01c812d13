import { expect, test } from 'vitest';
import {
  deliveryStatuses,
  nextStep,
  statusesOnceAssigned,
  takesRider,
  type WorkStep,
} from './delivery-status.ts';

test('an assigned delivery cannot become pending again', () => {
  expect(statusesOnceAssigned).toEqual(['assigned', 'picked_up', 'in_transit', 'delivered', 'failed']);
  expect(deliveryStatuses).toEqual(['pending', ...statusesOnceAssigned]);
});

test.each<[step: WorkStep, delivered: ReturnType<typeof nextStep>, collected: ReturnType<typeof nextStep>]>([
  ['prepare', 'preparing', 'preparing'],
  ['preparing', 'ready', 'ready'],
  ['ready', 'on_the_way', 'delivered'],
  ['on_the_way', 'delivered', 'delivered'],
  ['failed', 'ready', 'ready'],
])('after %s comes %s, for a collected order %s', (step, delivered, collected) => {
  expect(nextStep(step, { is_collected: false })).toBe(delivered);
  expect(nextStep(step, { is_collected: true })).toBe(collected);
});

test('a rider takes no order that is collected or cancelled', () => {
  expect(takesRider({ status: 'processing', is_collected: false })).toBe(true);
  expect(takesRider({ status: 'processing', is_collected: true })).toBe(false);
  expect(takesRider({ status: 'cancelled', is_collected: false })).toBe(false);
});
