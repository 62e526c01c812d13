import { expect, test } from 'vitest';
import { areaOf, drinksOf, unitsOf } from './place.ts';

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
