import { expect, test } from 'vitest';
import { readCatalogueQuery, selectProducts } from './catalogue.ts';

const product = (
  name: string,
  brand: string | null,
  category: string | null,
  price: number,
  created_at: string,
) => ({
  name,
  brand,
  category,
  price,
  created_at,
  tagline: null,
  description: `${name} with khat`,
});
const products = [
  product('Zest', 'Simba', 'Lime', 300, '2026-01-03'),
  product('Amber', 'duma', 'Tamarind', 100, '2026-01-01'),
  product('Mist', null, null, 200, '2026-01-02'),
];
const query = { search: '', brand: null, category: null, sort: 'popularity' as const };
const names = (changes: Partial<Parameters<typeof selectProducts>[1]>) =>
  selectProducts(products, { ...query, ...changes }).map(({ name }) => name);

test('popularity lists the newest first', () => expect(names({})).toEqual(['Zest', 'Mist', 'Amber']));
test('brand and flavor sort alphabetically, without one last', () => {
  expect(names({ sort: 'brand' })).toEqual(['Amber', 'Zest', 'Mist']);
  expect(names({ sort: 'flavor' })).toEqual(['Zest', 'Amber', 'Mist']);
});
test('price sorts the cheapest first', () =>
  expect(names({ sort: 'price' })).toEqual(['Amber', 'Mist', 'Zest']));
test('search looks everywhere and ignores case and blanks around it', () => {
  expect(names({ search: '  AMBER with ' })).toEqual(['Amber']);
  expect(names({ search: 'simba' })).toEqual(['Zest']);
  expect(names({ search: 'tea' })).toEqual([]);
});
test('brand and category narrow the list', () => {
  expect(names({ brand: 'Simba' })).toEqual(['Zest']);
  expect(names({ category: 'Tamarind', brand: 'Simba' })).toEqual([]);
});
test('the address presets search text and sort; anything unknown is the default', () => {
  expect(readCatalogueQuery(new URLSearchParams('search=mango&filter=flavor'))).toEqual({
    ...query,
    search: 'mango',
    sort: 'flavor',
  });
  expect(readCatalogueQuery(new URLSearchParams('filter=size&brand='))).toEqual(query);
});
