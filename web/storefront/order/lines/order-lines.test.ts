import { expect, test } from 'vitest';
import { describeUnits, type OrderedProduct, problemOfLine, readLines, withQuantity } from './order-lines.ts';

const product = (id: string): OrderedProduct => ({
  id,
  slug: id,
  name: id,
  price: 95_000,
  image_url: null,
  stock_quantity: 5,
  category: null,
  brand: null,
});
const [mango, ginger] = [product('mango'), product('ginger')];

test('adds a drink as the last line, changes its quantity in place, and removes it', () => {
  const one = withQuantity([], mango, 1);
  const two = withQuantity(one, ginger, 2);
  expect(two.map(({ product: { id }, quantity }) => [id, quantity])).toEqual([
    ['mango', 1],
    ['ginger', 2],
  ]);
  expect(describeUnits(two)).toBe('3 drinks');
  expect(withQuantity(two, mango, 4).map(({ quantity }) => quantity)).toEqual([4, 2]);
  expect(withQuantity(two, mango, 0)).toEqual([{ product: ginger, quantity: 2 }]);
});

test.each([
  [1, { unitsLeft: 1, isOff: false }, null],
  [2, { unitsLeft: 1, isOff: false }, { kind: 'too_many', left: 1 }],
  [1, { unitsLeft: 0, isOff: false }, { kind: 'sold_out' }],
  [1, { unitsLeft: 5, isOff: true }, { kind: 'off' }],
] as const)('%i of %j: %j', (quantity, stock, problem) => {
  expect(problemOfLine(quantity, stock)).toEqual(problem);
});

test('reads stored lines, at most ten, and leaves out what is none', () => {
  const lines = [{ product: mango, quantity: 2 }];
  expect(readLines(JSON.parse(JSON.stringify(lines)))).toEqual(lines);
  const bad = [
    null,
    'text',
    { product: mango },
    { product: mango, quantity: 0 },
    { product: { ...mango, price: '1' }, quantity: 1 },
  ];
  expect(readLines([...bad, ...lines])).toEqual(lines);
  for (const none of [null, undefined, {}, 'text']) expect(readLines(none)).toEqual([]);
  expect(readLines(Array(11).fill(lines[0]))).toHaveLength(10);
  const harmful = { product: { ...mango, image_url: 'javascript:alert(1)' }, quantity: 1 };
  expect(readLines([harmful])[0]?.product.image_url).toBeNull();
});
