import { expect, test } from 'vitest';
import { describeOrderChange } from './order-change.ts';

const shown = { price: 95_000, deliveryFee: 100 };

test.each([
  [shown, []],
  [{ ...shown, deliveryFee: 15_000 }, ['Delivery is now KSh 150.00 (it was KSh 1.00).']],
  [{ ...shown, deliveryFee: 0 }, ['Delivery is now free (it was KSh 1.00).']],
  [{ ...shown, price: 90_000 }, ['One is now KSh 900.00 (it was KSh 950.00).']],
  [
    { price: 90_000, deliveryFee: 200 },
    ['One is now KSh 900.00 (it was KSh 950.00).', 'Delivery is now KSh 2.00 (it was KSh 1.00).'],
  ],
])('describes the change to %j', (now, sentences) => {
  expect(describeOrderChange(shown, now)).toEqual(sentences);
});
