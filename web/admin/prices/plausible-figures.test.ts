import { expect, test } from 'vitest';
import { questionsAboutFee, questionsAboutProduct } from './plausible-figures.ts';

const typical = 95_000;

test.each([
  // former price, new price, questions
  [95_000, 95_000, 0],
  [95_000, 99_000, 0],
  [95_000, 190_000, 0],
  [95_000, 47_500, 0],
  [95_000, 0, 1],
  [95_000, 950, 1],
  [95_000, 9_500, 1],
  [95_000, 950_000, 1],
  [95_000, 9_500_000, 1],
  // It was given away before.
  [0, 0, 0],
  [0, 95_000, 0],
  [0, 9_500_000, 1],
  [null, 95_000, 0],
  [null, 300_000, 0],
  [null, 0, 1],
  [null, 950, 1],
  [null, 9_500_000, 1],
])('a price that goes from %s to %d cents raises %d questions', (before, price, count) => {
  const saved = before === null ? null : { price: before, stock: 5 };
  expect(questionsAboutProduct(saved, { price, stock: 5 }, typical)).toHaveLength(count);
});

test.each([
  [20, 20, 0],
  [20, 0, 0],
  [20, 120, 0],
  [20, 201, 0],
  [20, 2_000, 1],
  [0, 100, 0],
  [0, 10_000, 1],
  [1_000, 2_000, 0],
])('a stock that goes from %d to %d raises %d questions', (before, stock, count) => {
  expect(questionsAboutProduct({ price: 100, stock: before }, { price: 100, stock }, typical)).toHaveLength(
    count,
  );
});

test.each([
  // former fee, new fee, questions
  [100, 100, 0],
  [100, 0, 0],
  [100, 15_000, 0],
  [100, 20_000, 0],
  [100, 25_000, 0],
  [100, 95_000, 0],
  [100, 96_000, 1],
  [20_000, 15_000, 0],
  [20_000, 70_000, 1],
  [20_000, 0, 1],
  [20_000, 25_000, 0],
  [100, 1_500_000, 1],
  [20_000, 1_500_000, 1],
  [1_500_000, 20_000, 1],
])('a fee that goes from %d to %d cents raises %d questions', (before, after, count) => {
  expect(questionsAboutFee(before, after, typical)).toHaveLength(count);
});

test('a question names the figures', () => {
  expect(questionsAboutProduct({ price: 95_000, stock: 20 }, { price: 950, stock: 5000 }, typical)).toEqual([
    'The price goes from KES 950 to KES 9.5.',
    'The stock goes from 20 to 5000.',
  ]);
  expect(questionsAboutFee(100, 1_500_000, null)).toEqual([
    'The delivery fee goes from KES 1 to KES 15,000, for every order.',
  ]);
  expect(questionsAboutProduct(null, { price: 950, stock: 0 }, null)).toEqual([]);
});
