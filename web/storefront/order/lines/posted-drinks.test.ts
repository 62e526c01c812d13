import { expect, test } from 'vitest';
import { createStore } from '../../../../supabase/store.ts';
import type { OrderLine } from './order-lines.ts';
import {
  applyChange,
  changeField,
  changeValues,
  drinkField,
  postedChange,
  postedLines,
  refreshLines,
  searchedField,
  searchField,
  writeDrink,
} from './posted-drinks.ts';

const product = (number: number, stock_quantity = 9) => ({
  id: `a0000000-0000-4000-8000-00000000000${number}`,
  slug: `drink-${number}`,
  name: `Drink ${number}`,
  price: 95_000,
  image_url: null,
  stock_quantity,
  category: null,
  brand: null,
});
const line = (number: number, quantity = 1): OrderLine => ({ product: product(number), quantity });
const idOf = (number: number) => product(number).id;

const submission = (fields: Record<string, string | string[]>) => {
  const sent = new FormData();
  for (const [name, values] of Object.entries(fields))
    for (const value of [values].flat()) sent.append(name, value);
  return sent;
};
/** A store whose table of products has these rows. */
const storeWith = (...products: ReturnType<typeof product>[]) =>
  createStore(
    { url: 'http://shop.test', key: 'key' },
    {
      fetch: async (url) =>
        Response.json(products.filter(({ id }) => decodeURIComponent(String(url)).includes(id))),
    },
  ).tables;
const summary = (lines: readonly OrderLine[]) => lines.map((own) => [own.product.slug, own.quantity]);

test('reads the drinks that a page wrote, and ignores what is none', () => {
  const lines = [line(1, 2), line(2)];
  expect(postedLines(submission({ [drinkField]: lines.map(writeDrink) }))).toEqual(lines);
  expect(postedLines(submission({ [drinkField]: ['', '{', '[]', '{"quantity":1}'] }))).toEqual([]);
});

test.each([
  ['nothing pressed but Place Order', {}, null],
  [
    'Search',
    { [changeField]: changeValues.search, [searchField]: ' mango ' },
    { kind: 'search', term: 'mango' },
  ],
  ['Add', { [changeField]: changeValues.add('x') }, { kind: 'add', id: 'x' }],
  ['One more', { [changeField]: changeValues.set('x', 3) }, { kind: 'set', id: 'x', quantity: 3 }],
  ['Remove', { [changeField]: changeValues.set('x', 0) }, { kind: 'set', id: 'x', quantity: 0 }],
  [
    'Enter with a new search',
    { [changeField]: changeValues.enter, [searchField]: 'mango', [searchedField]: 'ginger' },
    { kind: 'search', term: 'mango' },
  ],
  [
    'Enter with the search that was answered, which orders',
    { [changeField]: changeValues.enter, [searchField]: 'mango', [searchedField]: 'mango' },
    null,
  ],
  ['Enter without a search, which orders', { [changeField]: changeValues.enter }, null],
  ['a quantity that is none', { [changeField]: 'set x -1' }, null],
] as const)('%s', (_, fields, change) => {
  expect(postedChange(submission(fields))).toEqual(change);
});

test('adds, changes and removes a drink, and keeps the last one', async () => {
  const tables = storeWith(product(2));
  const lines = [line(1)];
  const added = await applyChange(tables, lines, { kind: 'add', id: idOf(2) });
  expect(summary(added)).toEqual([
    ['drink-1', 1],
    ['drink-2', 1],
  ]);
  expect(summary(await applyChange(tables, added, { kind: 'add', id: idOf(2) }))).toContainEqual([
    'drink-2',
    2,
  ]);
  expect(summary(await applyChange(tables, added, { kind: 'set', id: idOf(1), quantity: 0 }))).toEqual([
    ['drink-2', 1],
  ]);
  expect(summary(await applyChange(tables, lines, { kind: 'set', id: idOf(1), quantity: 0 }))).toEqual([
    ['drink-1', 1],
  ]);
  // Not sold, or no id at all.
  for (const id of [idOf(3), 'a,b)', ''])
    expect(summary(await applyChange(tables, lines, { kind: 'add', id }))).toEqual([['drink-1', 1]]);
});

test('shows current prices and stock, and which drinks are gone', async () => {
  const dearer = { ...product(1, 3), price: 99_000 };
  const { lines, gone } = await refreshLines(storeWith(dearer), [line(1, 2), line(2)]);
  expect(lines[0]).toEqual({ product: dearer, quantity: 2 });
  expect(lines[1]).toEqual(line(2));
  expect(gone).toEqual([idOf(2)]);
});
