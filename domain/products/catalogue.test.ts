import { expect, test } from 'vitest';
import {
  compareNames,
  groupProducts,
  pageNumberIn,
  readCatalogueQuery,
  searchByWords,
  selectProducts,
  writeCatalogueQuery,
} from './catalogue.ts';

const product = (name: string, brand: string | null, category: string | null, price: number) => ({
  slug: name.toLowerCase(),
  name,
  brand,
  category,
  price,
  tagline: `${name} with khat`,
});
const products = [
  product('Zest', 'Simba', 'Lime', 300),
  product('Mist', null, null, 200),
  product('Amber', 'duma', 'Tamarind', 100),
];
const query = { search: '', brand: null, category: null, sort: 'popularity' as const };
const names = (changes: Partial<Parameters<typeof selectProducts>[1]>, found: string[] | null = null) =>
  selectProducts(products, { ...query, ...changes }, found).map(({ name }) => name);

test('popularity is the order of the list, newest first', () =>
  expect(names({})).toEqual(['Zest', 'Mist', 'Amber']));
test('brand and flavor sort alphabetically; products without one come last', () => {
  expect(names({ sort: 'brand' })).toEqual(['Amber', 'Zest', 'Mist']);
  expect(names({ sort: 'flavor' })).toEqual(['Zest', 'Amber', 'Mist']);
});
test('price sorts the cheapest first', () =>
  expect(names({ sort: 'price' })).toEqual(['Amber', 'Mist', 'Zest']));
test('a search lists its matches, best first unless sorted otherwise', () => {
  const found = ['amber', 'zest', 'gone'];
  expect(names({ sort: 'match' }, found)).toEqual(['Amber', 'Zest']);
  expect(names({ sort: 'popularity' }, found)).toEqual(['Zest', 'Amber']);
  expect(names({ sort: 'match' }, [])).toEqual([]);
});
test('brand and category narrow the list', () => {
  expect(names({ brand: 'Simba' })).toEqual(['Zest']);
  expect(names({ category: 'Tamarind', brand: 'Simba' })).toEqual([]);
  expect(names({ brand: 'Simba', sort: 'match' }, ['amber'])).toEqual([]);
});
test('offline search finds products with every word, in any case and order', () => {
  expect(searchByWords(products, '  KHAT amber ')).toEqual(['amber']);
  expect(searchByWords(products, 'simba')).toEqual(['zest']);
  expect(searchByWords(products, 'simba amber')).toEqual([]);
});
test('a sorted list is divided into brands or flavours', () => {
  const groups = (by: 'brand' | 'flavor') =>
    groupProducts(selectProducts(products, { ...query, sort: by }, null), by).map(
      ({ name, products: members }) => [name, members.length],
    );
  expect(groups('brand')).toEqual([
    ['duma', 1],
    ['Simba', 1],
    [null, 1],
  ]);
  expect(groups('flavor')).toEqual([
    ['Lime', 1],
    ['Tamarind', 1],
    [null, 1],
  ]);
});
test('the URL presets search text and sort; anything unknown is the default', () => {
  const read = (url: string) => readCatalogueQuery(new URLSearchParams(url));
  expect(read('search=mango&filter=flavor')).toEqual({ ...query, search: 'mango', sort: 'flavor' });
  expect(read('filter=size&brand=&sort=')).toEqual(query);
  expect(read('search=mango')).toEqual({ ...query, search: 'mango', sort: 'match' });
});
test.each(['', 'search=mango', 'search=mango&sort=popularity', 'brand=Simba&category=Lime&sort=price'])(
  'writes the URL that it reads: %s',
  (url) => expect(writeCatalogueQuery(readCatalogueQuery(new URLSearchParams(url))).toString()).toBe(url),
);

test('reads an invalid page number as the first page', () => {
  expect(pageNumberIn(new URLSearchParams('page=12'))).toBe(12);
  for (const odd of ['', '0', '-1', '1.5', '1000', 'x', '2x']) {
    expect(pageNumberIn(new URLSearchParams({ page: odd })), odd).toBe(1);
  }
  expect(writeCatalogueQuery({ ...query, brand: 'Simba' }, 2).toString()).toBe('brand=Simba&page=2');
  expect(writeCatalogueQuery(query, 1).toString()).toBe('');
});

test.each([
  ['amber', 'Zest', -1],
  ['Zest', 'amber', 1],
  ['mango', 'Mango', 0],
  ['Café', 'cafe', 0],
  ['Éclair', 'Fig', -1],
  ['Zest', null, -1],
  [null, 'Zest', 1],
  [null, null, 0],
])('of the names %s and %s the order is %i', (one, other, order) =>
  expect(compareNames(one, other)).toBe(order),
);
