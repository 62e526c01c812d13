import { expect, test } from 'vitest';
import { changedTags } from './page-changes.ts';

const mango = {
  slug: 'mango-can',
  category: 'Mango',
  is_active: true,
  home_section: null,
  home_position: null,
};
const change = (rows: { old?: object; new?: object }) =>
  changedTags(JSON.stringify({ table: 'products', ...rows }));

test('a changed product affects its own page and the lists of all products only', () => {
  expect(change({ old: mango, new: mango })).toEqual(['products', 'products:slug:mango-can']);
});

test('a moved product affects its former and its new pages', () => {
  expect(change({ old: mango, new: { ...mango, category: 'Passion', slug: 'passion-can' } })).toEqual([
    'products',
    'products:slug:mango-can',
    'products:slug:passion-can',
    'products:category:Mango',
    'products:category:Passion',
    'products:home',
  ]);
  expect(change({ old: mango, new: { ...mango, home_section: 'top_picks', home_position: 1 } })).toEqual([
    'products',
    'products:slug:mango-can',
    'products:home',
  ]);
});

test.each([
  ['is added', { new: mango }],
  ['is deleted', { old: mango }],
  ['is deactivated', { old: mango, new: { ...mango, is_active: false } }],
  ['is activated', { old: { ...mango, is_active: false }, new: mango }],
])('a product that %s affects its own page, its category and the home page', (_, rows) => {
  expect(change(rows)).toEqual([
    'products',
    'products:slug:mango-can',
    'products:category:Mango',
    'products:home',
  ]);
});

test('an inactive product affects no page', () => {
  const hidden = { ...mango, is_active: false };
  expect(change({ old: hidden, new: { ...hidden, category: null } })).toEqual([]);
  expect(change({ new: hidden })).toEqual([]);
});

test.each([
  'store_settings',
  'categories',
  'brands',
  'shop_texts',
  'search_synonyms',
  'delivery_areas',
  'ratings',
])('%s is one tag', (table) => {
  expect(changedTags(JSON.stringify({ table }))).toEqual([table]);
});

test.each([
  '',
  'products',
  'null',
  '{}',
  '{"table":"orders"}',
  '{"table":"products"}',
  '{"table":"products","new":{"slug":1}}',
])('returns null for %j, whose pages are unknown', (payload) => expect(changedTags(payload)).toBeNull());
