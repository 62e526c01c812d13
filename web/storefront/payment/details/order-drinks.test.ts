import { expect, test } from 'vitest';
import type { TrackedItem } from '../../tracking/tracked-order.ts';
import { matchItems } from './order-drinks.ts';

const item = (slug: string | null, quantity: number): TrackedItem => ({
  id: `item-${slug}`,
  slug,
  name: `The ${slug}`,
  quantity,
  unitPrice: 95_000,
  imageUrl: null,
  category: null,
});
const product = (slug: string, stock_quantity: number, price = 95_000) => ({
  id: `id-${slug}`,
  slug,
  name: `The ${slug}`,
  price,
  image_url: null,
  stock_quantity,
});

test('units that the order holds count as left for it', () => {
  const matched = (holdsUnits: boolean) =>
    matchItems([item('mango', 3)], [product('mango', 0)], holdsUnits).stock['id-mango'];
  expect(matched(true)).toEqual({ unitsLeft: 3, isOff: false });
  expect(matched(false)).toEqual({ unitsLeft: 0, isOff: false });
});

test('keeps the order of the drinks, with current prices, and marks one that is not sold any more', () => {
  const { lines, stock, changes } = matchItems(
    [item('mango', 1), item(null, 2), item('ginger', 1)],
    [product('ginger', 9, 99_000), product('mango', 9)],
    true,
  );
  expect(lines.map((line) => [line.product.name, line.product.price, line.quantity])).toEqual([
    ['The mango', 95_000, 1],
    ['The null', 95_000, 2],
    ['The ginger', 99_000, 1],
  ]);
  expect(stock['item-null']).toEqual({ unitsLeft: 0, isOff: true });
  expect(changes).toEqual(['The ginger is now KSh 990.00 (it was KSh 950.00).']);
});
