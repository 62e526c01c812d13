import { expect, test } from 'vitest';
import { sortOrderable } from './order-again.ts';

const product = (slug: string, stock_quantity: number) => ({
  id: `id-${slug}`,
  slug,
  name: slug,
  price: 95_000,
  image_url: null,
  stock_quantity,
});

test('orders again what can be ordered, in the same order, and names the rest', () => {
  const drinks = ['mango', 'gone', 'ginger', 'sold-out'].map((slug, index) => ({
    slug,
    name: `The ${slug}`,
    quantity: index + 1,
  }));
  const { lines, missing } = sortOrderable(drinks, [
    product('sold-out', 0),
    product('ginger', 9),
    product('mango', 1),
  ]);
  expect(lines.map((line) => [line.product.slug, line.quantity])).toEqual([
    ['mango', 1],
    ['ginger', 3],
  ]);
  expect(missing).toEqual(['The gone', 'The sold-out']);
});
