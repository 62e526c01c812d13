import { expect, test } from 'vitest';
import { describeOrderChange } from './order-change.ts';

const shown = { prices: { mango: 95_000 }, deliveryFee: 100 };
const mango = { productId: 'mango', name: 'Mango Can' };

test.each([
  [shown, []],
  [{ ...shown, deliveryFee: 15_000 }, ['Delivery is now KSh 150.00 (it was KSh 1.00).']],
  [{ ...shown, deliveryFee: 0 }, ['Delivery is now free (it was KSh 1.00).']],
  [{ ...shown, prices: { mango: 90_000 } }, ['One is now KSh 900.00 (it was KSh 950.00).']],
  [
    { prices: { mango: 90_000 }, deliveryFee: 200 },
    ['One is now KSh 900.00 (it was KSh 950.00).', 'Delivery is now KSh 2.00 (it was KSh 1.00).'],
  ],
])('describes the change to %j', (now, sentences) => {
  expect(describeOrderChange(shown, now, [mango])).toEqual(sentences);
});

test('says what the discount is now, and nothing of it without a code', () => {
  const before = { ...shown, discount: 9_500 };
  expect(describeOrderChange(before, { ...shown, discount: 5_000 }, [mango])).toEqual([
    'The discount is now KSh 50.00 (it was KSh 95.00).',
  ]);
  expect(describeOrderChange(before, before, [mango])).toEqual([]);
  expect(describeOrderChange(shown, before, [mango])).toEqual([]);
});

test('names the drinks whose price changed where there are several', () => {
  const before = { prices: { mango: 95_000, ginger: 50_000 }, deliveryFee: 100 };
  const now = { prices: { mango: 95_000, ginger: 60_000 }, deliveryFee: 100 };
  expect(describeOrderChange(before, now, [mango, { productId: 'ginger', name: 'Ginger' }])).toEqual([
    'Ginger is now KSh 600.00 (it was KSh 500.00).',
  ]);
});
