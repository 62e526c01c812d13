import { expect, test } from 'vitest';
import { mostSimilar } from './similar-name.ts';

const tables = ['orders', 'order_items', 'products', 'payments'];

test('a misspelt name is known again', () => {
  expect(mostSimilar('order', tables, 0.75)).toBe('orders');
  expect(mostSimilar('prodcuts', tables, 0.75)).toBe('products');
  expect(mostSimilar('Payments', tables, 0.75)).toBe('payments');
});

test('a name that only begins alike is another name', () => {
  expect(mostSimilar('order_items_of_last_year', tables, 0.75)).toBeNull();
  expect(mostSimilar('order_items_of_last_year', tables, 0.33)).toBe('order_items');
});

test('nothing is like a name that shares no letters', () => {
  expect(mostSimilar('xyz', tables, 0.33)).toBeNull();
  expect(mostSimilar('orders', [], 0.33)).toBeNull();
});
