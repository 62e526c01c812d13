import { expect, test } from 'vitest';
import { countText } from './count-text.ts';

const orders = { one: 'order', many: 'orders', isSearch: false, isSorted: false };

test.each([
  [0, {}, '0 orders'],
  [1, {}, '1 order'],
  [201, {}, '201 orders'],
  [10_001, {}, '10,000+ orders'],
  [54_321, {}, '54,321 orders'],
  [200, { isSearch: true }, '200 orders'],
  [201, { isSearch: true }, 'More than 200 orders'],
  [5000, { isSorted: true }, '5,000 orders'],
  [5001, { isSorted: true }, '5,001 orders, the newest 5,000 sorted'],
  [200, { isSearch: true, isSorted: true }, '200 orders'],
  [201, { isSearch: true, isSorted: true }, 'More than 200 orders, the newest 500 sorted'],
])('of %i rows %o it says "%s"', (count, given, text) => {
  expect(countText(count, { ...orders, ...given })).toBe(text);
});
