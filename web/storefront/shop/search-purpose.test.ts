import { expect, test } from 'vitest';
import { readSearchPurpose } from './search-purpose.ts';

test.each(['JJ-20261123-4209', 'jj202611234209', 'order JJ 20261123 4209'])('%s names an order', (search) => {
  expect(readSearchPurpose(search)).toEqual({ kind: 'order', trackingNumber: 'JJ-20261123-4209' });
});

test.each(['ord1040', 'ORD-1040', 'order no. 1040'])('%s names an order by its order number', (search) => {
  expect(readSearchPurpose(search)).toEqual({ kind: 'order', trackingNumber: 'ORD-1040' });
});

test.each(['ord 104', 'track my order', 'where is my parcel'])('%s is about an order', (search) => {
  expect(readSearchPurpose(search)).toEqual({ kind: 'order', trackingNumber: null });
});

test.each([
  '950',
  '1,200',
  'under 1000',
  'KSh 950',
  '950/=',
  '500 bob',
  'less than 800',
  'chini ya 1000',
  'ksh700',
  '700kes',
  '700Bob',
  'shs 700',
  '<700',
  '700 or less',
  'bei ya 700',
  'shilingi 700',
  '500 - 700',
  '500 to 700',
])('%s is about a price', (search) => {
  expect(readSearchPurpose(search)).toEqual({ kind: 'price' });
});

test.each([
  'vodka',
  '500ml',
  '7up',
  '🥭',
  'o’brien',
  '%',
  '',
  '1 litre',
  'border mango',
  '0712-345678',
  'fresh2go',
])('%s is about neither', (search) => {
  expect(readSearchPurpose(search)).toBeNull();
});

test.each([
  ['do you deliver to Mombasa', 'delivery'],
  ['how long delivery', 'delivery'],
  ['delivery fee', 'delivery'],
  ['shipping', 'delivery'],
  ['where are you', 'contact'],
  ['are you open now', 'contact'],
  ['opening hours', 'contact'],
  ['whatsapp', 'contact'],
  ['phone number', 'contact'],
  ['how to pay', 'question'],
  ['mpesa', 'question'],
  ['M-PESA', 'question'],
  ['is it alcoholic', 'question'],
  ['is this halal', 'question'],
  ['refund', 'question'],
])('%s asks the shop: %s', (search, kind) => {
  expect(readSearchPurpose(search)).toEqual({ kind });
});

test.each(['paypal juice', 'payload', 'showcase', 'tiller', 'ageless', 'mango and passion', 'openwater'])(
  '%s asks nothing',
  (search) => {
    expect(readSearchPurpose(search)).toBeNull();
  },
);

test('reads at most the maximum length of a search text', () => {
  expect(readSearchPurpose(`${'x '.repeat(200)}under 1000`)).toBeNull();
});
