import { expect, test } from 'vitest';
import { areaOf, drinkAndBrand, drinksOf, unitsOf } from './place.ts';

test('an area omits building, unit and the usual city', () => {
  const shipping_address = 'Mpaka Road, Westlands, Building: Delta, Unit: 4';
  expect(areaOf({ shipping_address, city: 'Nairobi' })).toBe('Mpaka Road, Westlands');
  expect(areaOf({ shipping_address: 'Nyali, Unit: 2', city: 'Mombasa' })).toBe('Nyali, Mombasa');
  expect(areaOf({ shipping_address: '', city: 'Nairobi' })).toBe('');
});

test('drinks are listed with their quantities', () => {
  const items = [
    { quantity: 2, product_name: 'Embu Fresh Mango' },
    { quantity: 1, product_name: '' },
  ];
  expect(drinksOf(items)).toBe('2 × Embu Fresh Mango, 1 × Product');
  expect([unitsOf(items), unitsOf([]), unitsOf(items.slice(1))]).toEqual(['3 items', '0 items', '1 item']);
});

test.each([
  // name, brand, what is read first, what second
  ['Embu Fresh Mango', 'Embu Fresh', 'Mango', 'Embu Fresh'],
  ['Embu Freshly Pressed', 'Embu Fresh', 'Embu Freshly Pressed', null],
  ['Embu Fresh', 'Embu Fresh', 'Embu Fresh', null],
  ['Mango', null, 'Mango', null],
  ['', 'Embu Fresh', 'Product', null],
])('%j of the brand %j is read as %j, then %j', (product_name, brand, drink, second) => {
  expect(drinkAndBrand({ product_name, product: { brand } })).toEqual([drink, second]);
  expect(drinkAndBrand({ product_name: product_name || 'Product', product: null })).toEqual([
    product_name || 'Product',
    null,
  ]);
});
