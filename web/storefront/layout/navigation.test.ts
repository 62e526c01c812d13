import { expect, test } from 'vitest';
import { isCurrent, pages } from './navigation.ts';

const currentAt = (pathname: string, search = '') =>
  pages.filter(({ to }) => isCurrent(to, { pathname, search })).map(({ label }) => label);

test('at most one entry is current', () => {
  expect(currentAt('/')).toEqual(['Home']);
  expect(currentAt('/shop')).toEqual(['Shop']);
  expect(currentAt('/shop', '?filter=brand')).toEqual(['Brands']);
  expect(currentAt('/shop', '?filter=flavor')).toEqual(['Flavors']);
  expect(currentAt('/shop', '?category=Mango&sort=flavor')).toEqual(['Flavors']);
  expect(currentAt('/shop', '?filter=anything')).toEqual(['Shop']);
  expect(currentAt('/delivery', '?utm_source=x')).toEqual(['Delivery']);
  expect(currentAt('/contact/')).toEqual(['Contact']);
});

test('a search belongs to the shop, and a product page to it or to no entry', () => {
  expect(currentAt('/shop', '?search=mango')).toEqual(['Shop']);
  expect(currentAt('/shop/mango-bottle')).toEqual([]);
});
