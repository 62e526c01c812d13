import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  categoryProblemOf,
  changedFields,
  checkCategoryName,
  checkProductForm,
  copiedForm,
  emptyProductForm,
  knownSpelling,
  mergedForm,
  type ProductForm,
  productFormOf,
  productProblemOf,
  productValues,
  readShillings,
  slugFromName,
  tidyName,
  writeShillings,
} from './product-values.ts';

const good: ProductForm = {
  ...emptyProductForm,
  name: 'Embu Fresh Mango',
  slug: 'embu-fresh-mango',
  price: '950.50',
  stock: '12',
  category: 'Mango',
};

describe('checking the form', () => {
  test('accepts a valid form, also without tagline and description', () => {
    expect(checkProductForm(good)).toEqual({});
    expect(checkProductForm({ ...good, price: '0', stock: '0' })).toEqual({});
  });

  test('reports every required field of an empty form', () => {
    expect(checkProductForm({ ...emptyProductForm, stock: '' })).toEqual({
      name: 'Product name is required',
      slug: 'Product slug is required',
      price: 'Price is required',
      stock: 'Stock quantity must be a whole number',
      category: 'Category is required',
    });
  });

  test.each<[Partial<ProductForm>, Partial<ProductForm>]>([
    [{ name: '  ' }, { name: 'Product name is required' }],
    [{ name: 'x'.repeat(161) }, { name: 'Product name is longer than 160 characters' }],
    [{ slug: ' ' }, { slug: 'Product slug is required' }],
    [{ slug: 'x'.repeat(201) }, { slug: 'Product slug is longer than 200 characters' }],
    [{ lowStockBelow: '-1' }, { lowStockBelow: 'The threshold must be a whole number from 0 to 1,000,000' }],
    [{ lowStockBelow: '2.5' }, { lowStockBelow: 'The threshold must be a whole number from 0 to 1,000,000' }],
    [{ size: 'x'.repeat(41) }, { size: 'Size is longer than 40 characters' }],
    [{ allergens: 'x'.repeat(201) }, { allergens: 'Allergens is longer than 200 characters' }],
    [{ brand: 'x'.repeat(161) }, { brand: 'Brand is longer than 160 characters' }],
    [
      { homeSection: 'top_picks', homePosition: '0' },
      { homePosition: 'The place must be a whole number from 1 to 10,000' },
    ],
    [{ price: '-0.01' }, { price: 'Price must be positive' }],
    [{ price: '10000000.01' }, { price: 'Price is more than KES 10,000,000' }],
    [{ price: 'dear' }, { price: 'Price must be a number with at most two decimals' }],
    [{ price: '9.505' }, { price: 'Price must be a number with at most two decimals' }],
    [{ previousPrice: '950.50' }, { previousPrice: 'The price before an offer must be above the price' }],
    [
      { previousPrice: 'dear' },
      { previousPrice: 'The price before an offer must be a number with at most two decimals' },
    ],
    [
      { previousPrice: '10000000.01' },
      { previousPrice: 'The price before an offer is more than KES 10,000,000' },
    ],
    [{ stock: '-1' }, { stock: 'Stock quantity must be non-negative' }],
    [{ stock: '1.5' }, { stock: 'Stock quantity must be a whole number' }],
    [{ stock: '2147483648' }, { stock: 'Stock quantity is more than 2,147,483,647' }],
    [{ category: '' }, { category: 'Category is required' }],
  ])('reports for %o: %o', (change, problems) => {
    expect(checkProductForm({ ...good, ...change })).toEqual(problems);
  });

  test.each(['Mango', 'mango juice', '-mango', 'mango-', 'man--go', 'mängo', 'mango/1'])(
    'rejects the slug %s',
    (slug) => {
      expect(checkProductForm({ ...good, slug }).slug).toMatch(/small letters a-z and digits/);
    },
  );

  test('accepts the largest values of the database', () => {
    const largest = { ...good, name: '🥭'.repeat(160), price: '10000000', stock: '2147483647' };
    expect(checkProductForm(largest)).toEqual({});
  });
});

describe('shillings', () => {
  test.each<[string, number | null]>([
    ['950', 95_000],
    ['950.5', 95_050],
    ['950.50', 95_050],
    ['950.500', 95_050],
    ['0.1', 10],
    ['.29', 29],
    ['5.', 500],
    [' 7 ', 700],
    ['1.15', 115],
    ['-1', -100],
    ['-0', 0],
    ['', null],
    ['.', null],
    ['-', null],
    ['1e3', null],
    ['1,000', null],
    ['0.005', null],
    ['9'.repeat(20), null],
  ])('%j is %s cents', (text, cents) => {
    expect(readShillings(text)).toBe(cents);
  });

  test('parses every amount that it formats', () => {
    fc.assert(
      fc.property(fc.integer({ min: -1_000_000_000, max: 1_000_000_000 }), (cents) => {
        expect(readShillings(writeShillings(cents))).toBe(cents);
      }),
    );
    expect([5, 50, 95_000, 95_050].map(writeShillings)).toEqual(['0.05', '0.50', '950', '950.50']);
  });
});

test('converts a form to columns, trimmed and with null for empty fields, and back', () => {
  const values = productValues({
    ...good,
    name: ' Embu Fresh Mango ',
    tagline: ' ',
    keeps: ' 3 days ',
    description: ' Cold.\n',
  });
  expect(values).toEqual({
    name: 'Embu Fresh Mango',
    slug: 'embu-fresh-mango',
    tagline: null,
    price: 95_050,
    previous_price: null,
    stock_quantity: 12,
    low_stock_below: null,
    category: 'Mango',
    brand: null,
    home_section: null,
    home_position: null,
    size: null,
    khat_strength: null,
    caffeine: null,
    sweetened_with: null,
    keeps: '3 days',
    allergens: null,
    serving_note: null,
    description: 'Cold.',
  });
  expect(productFormOf(values)).toEqual({ ...good, keeps: '3 days', description: 'Cold.' });
  const onOffer = { ...good, previousPrice: '1100' };
  expect(checkProductForm(onOffer)).toEqual({});
  expect(productValues(onOffer).previous_price).toBe(110_000);
  expect(productFormOf(productValues(onOffer)).previousPrice).toBe('1100');
  expect(() => productValues({ ...good, price: 'dear' })).toThrow(RangeError);
});

test('converts threshold, brand and place on the home page, and back', () => {
  const shown = {
    ...good,
    lowStockBelow: '0',
    brand: 'Meru Gold',
    homeSection: 'top_picks',
    homePosition: '3',
  };
  expect(checkProductForm(shown)).toEqual({});
  const values = productValues({ ...shown, brand: '  Meru   Gold ' });
  expect(values).toMatchObject({
    low_stock_below: 0,
    brand: 'Meru Gold',
    home_section: 'top_picks',
    home_position: 3,
  });
  expect(productFormOf(values)).toEqual(shown);
  // Without a section there is no place in it.
  const hidden = { ...shown, homeSection: '', homePosition: 'first' };
  expect(checkProductForm(hidden)).toEqual({});
  expect(productValues(hidden)).toMatchObject({ home_section: null, home_position: null });
});

test('a copy has no units, no place on the home page and another address', () => {
  const copy = copiedForm({
    ...productValues({ ...good, brand: 'Meru Gold', homeSection: 'top_picks', homePosition: '3' }),
    slug: 'embu-fresh-mango',
  });
  expect(copy).toEqual({ ...good, brand: 'Meru Gold', stock: '0', slug: 'embu-fresh-mango-copy' });
  const long = copiedForm({ ...productValues(good), slug: `${'x'.repeat(194)}-yyyyy` });
  expect(checkProductForm(long)).toEqual({});
});

test('a brand is spelled as the shop spells it', () => {
  const brands = ['Embu Fresh', 'Meru Gold'];
  expect(knownSpelling(' meru  GOLD ', brands)).toBe('Meru Gold');
  expect(knownSpelling('Meru Silver', brands)).toBe('Meru Silver');
  expect(knownSpelling('', brands)).toBe('');
});

test('lists changed fields in order, ignoring spaces at the ends', () => {
  expect(changedFields(good, { ...good, name: 'Embu Fresh Mango ' })).toEqual([]);
  expect(changedFields(good, { ...good, description: 'New', price: '900', name: 'New' })).toEqual([
    'name',
    'price',
    'description',
  ]);
});

test('merges two edits; the later save wins where both changed a field', () => {
  const theirs = { ...good, price: '900', stock: '10', tagline: 'Theirs' };
  const mine = { ...good, name: 'Mine', tagline: 'Mine' };
  expect(mergedForm(good, mine, theirs)).toEqual({
    ...good,
    name: 'Mine',
    tagline: 'Mine',
    price: '900',
    stock: '10',
  });
});

describe('slugs', () => {
  test.each([
    ['Embu Fresh Mango', 'embu-fresh-mango'],
    ['  Mango  &  Lime! ', 'mango-lime'],
    ['Café Crème – 330ml', 'cafe-creme-330ml'],
    ["Wanjikũ's Best", 'wanjikus-best'],
    ['Smørrebrød Straße Łódź', 'smorrebrod-strasse-lodz'],
    ['--a - - b--', 'a-b'],
    ['Ｆｕｌｌ width', 'full-width'],
    ['🥭', ''],
    ['ምሳሌ', ''],
  ])('%s becomes %j', (name, slug) => {
    expect(slugFromName(name)).toBe(slug);
  });

  test('generates a valid slug or none for any name', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 300 }), (name) => {
        const slug = slugFromName(name);
        expect(slug === '' || checkProductForm({ ...good, slug }).slug === undefined, slug).toBe(true);
      }),
    );
  });
});

describe('an error of the database', () => {
  const refusal = (code: string, constraint: string) => ({
    code,
    message: `duplicate key value violates unique constraint "${constraint}"`,
  });

  test('shows a taken slug and a deleted category beside their fields', () => {
    expect(productProblemOf(refusal('23505', 'product slugs are unique'))).toEqual({
      field: 'slug',
      text: 'Another product has this slug already',
    });
    expect(productProblemOf(refusal('23503', "a product's category exists"))?.field).toBe('category');
    expect(productProblemOf(refusal('23514', 'a price is not negative'))?.field).toBe('price');
    expect(productProblemOf(refusal('23514', 'a previous price is above the price'))?.field).toBe(
      'previousPrice',
    );
  });

  test('without a field is shown as a message', () => {
    expect(productProblemOf({ code: '42501', message: 'permission denied for table products' })).toBeNull();
    expect(productProblemOf({ message: 'Failed to fetch' })).toBeNull();
    expect(productProblemOf(refusal('23505', 'something else'))).toBeNull();
  });

  test('shows a category name that is taken, in any case, beside its field', () => {
    for (const name of ['category names are unique', 'category names are unique in any case']) {
      expect(categoryProblemOf(refusal('23505', name))).toBe('There is a category of this name already');
    }
    expect(categoryProblemOf({ message: 'Failed to fetch' })).toBeNull();
  });
});

describe('category names', () => {
  test('are compared without regard to case and spaces', () => {
    expect(checkCategoryName(' passion  fruit ', ['Mango', 'Passion Fruit'])).toMatch(/already/);
    expect(checkCategoryName('Passion', ['Mango', 'Passion Fruit'])).toBeNull();
    expect(tidyName(' Passion \n fruit ')).toBe('Passion fruit');
  });

  test('are required and limited in length', () => {
    expect(checkCategoryName('  ', [])).toBe('Category name is required');
    expect(checkCategoryName('x'.repeat(81), [])).toBe('Category name is longer than 80 characters');
  });
});
