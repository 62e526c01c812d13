// Translation of row changes on a hosted project to cache tags of pages.
import { expect, test } from 'vitest';
import { createChangeReader } from './follow-page-changes.ts';

const mango = {
  id: '1',
  slug: 'mango-bottle',
  name: 'Mango',
  category: 'bottles',
  is_active: true,
  home_section: null,
  home_position: null,
  stock_quantity: 10,
};
const change = (eventType: string, row: Record<string, unknown>, table = 'products') => ({
  table,
  eventType,
  new: eventType === 'DELETE' ? {} : row,
  old: eventType === 'INSERT' ? {} : { id: row.id },
});

test('the first change of a product may affect any page, later ones only its own pages', () => {
  const read = createChangeReader();
  expect(read(change('UPDATE', mango))).toBeNull();
  expect(read(change('UPDATE', { ...mango, name: 'Mango Gold' }))).toEqual([
    'products',
    'products:slug:mango-bottle',
  ]);
});

test('units taken by an order affect no page until the product is sold out', () => {
  const read = createChangeReader();
  read(change('INSERT', mango));
  expect(read(change('UPDATE', { ...mango, stock_quantity: 9 }))).toEqual([]);
  expect(read(change('UPDATE', { ...mango, stock_quantity: 0 }))).toContain('products:slug:mango-bottle');
});

test('a product that staff set to sold out affects its pages', () => {
  const read = createChangeReader();
  read(change('INSERT', mango));
  const soldOut = { ...mango, sold_out_until: '2026-11-28T15:30:00Z' };
  expect(read(change('UPDATE', soldOut))).toContain('products:slug:mango-bottle');
  expect(read(change('UPDATE', { ...soldOut, stock_quantity: 9 }))).toEqual([]);
});

test('an added or removed product affects its category and the home page', () => {
  const read = createChangeReader();
  const expected = ['products', 'products:slug:mango-bottle', 'products:category:bottles', 'products:home'];
  expect(read(change('INSERT', mango))).toEqual(expected);
  expect(read(change('DELETE', mango))).toEqual(expected);
  expect(read(change('DELETE', mango))).toBeNull();
});

test('a row of another table affects all pages made from that table', () => {
  expect(createChangeReader()(change('UPDATE', { id: 1 }, 'store_settings'))).toEqual(['store_settings']);
});
