import { expect, test } from 'vitest';
import { describeOrderFailure } from './order-failure.ts';

test('describes a failure as the order’s, the item’s, or in general', () => {
  expect(describeOrderFailure({ message: 'Too many', details: 'too_many_orders' })).toBe(
    'Failed to create order: Too many',
  );
  expect(describeOrderFailure({ message: 'This product is out of stock', details: 'out_of_stock' })).toBe(
    'Failed to create order item: This product is out of stock',
  );
  expect(describeOrderFailure(null)).toBe('Order was not created successfully');
  expect(describeOrderFailure({ message: 'fetch failed', details: null })).toBe(
    'Failed to place order. Please try again.',
  );
});
