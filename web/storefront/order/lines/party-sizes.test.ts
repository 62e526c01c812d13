import { expect, test } from 'vitest';
import { partySizesFor } from './party-sizes.ts';

test('offers the quantities for a party that are in stock', () => {
  expect(partySizesFor(100)).toEqual([6, 12, 24]);
  expect(partySizesFor(23)).toEqual([6, 12]);
  expect(partySizesFor(6)).toEqual([6]);
  expect(partySizesFor(5)).toEqual([]);
});
