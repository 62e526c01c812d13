import { expect, test } from 'vitest';
import { orderTotal } from './order-contents.ts';

test('the total is the price times the quantity of each drink, and one delivery fee', () => {
  const mango = { price: 95_000, quantity: 3 };
  expect(orderTotal([mango], 100)).toBe(285_100);
  expect(orderTotal([mango, { price: 75_050, quantity: 2 }], 100)).toBe(435_200);
});
