import { expect, test } from 'vitest';
import { checkOrderForm, orderFormOf } from './order-form.ts';

const good = {
  name: 'Amina Otieno',
  email: 'amina@example.com',
  phone: '0712345678',
  location: 'Westlands',
  building: '',
  unit: '',
  notes: '',
  areaId: '',
  mapPoint: '',
};

test('accepts a valid form', () => expect(checkOrderForm(good)).toEqual([]));

test('accepts texts with the invisible characters of a pasted contact', () =>
  expect(
    checkOrderForm({
      ...good,
      name: '\u202aAmina\u202c',
      email: 'amina@example.com\u200b',
      location: 'CBD\u200d',
    }),
  ).toEqual([]));

test('accepts a phone with more punctuation than digits, and the longest texts', () => {
  const longest = { name: '🌸'.repeat(120), location: ` ${'x'.repeat(200)} `, notes: 'x\r\n'.repeat(250) };
  expect(checkOrderForm({ ...good, ...longest, phone: '+254 (0) 712 - 345 - 678' })).toEqual([]);
});

test.each([
  [{ name: ' A ' }, 'Invalid Name', 'Please enter a valid name (at least 2 characters)'],
  [{ email: 'amina@example' }, 'Invalid Email', 'Please enter a valid email address'],
  [{ email: 'ami na@example.com' }, 'Invalid Email', 'Please enter a valid email address'],
  [
    { phone: '12345' },
    'Invalid Phone',
    'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)',
  ],
  [{ location: '  ab ' }, 'Invalid Location', 'Please enter a valid delivery location'],
  [{ name: '\u200b\u200b' }, 'Invalid Name', 'Please enter a valid name (at least 2 characters)'],
  [{ name: 'A\u0301\u0301' }, 'Invalid Name', 'Please enter a valid name (at least 2 characters)'],
  [{ location: '...' }, 'Invalid Location', 'Please enter a valid delivery location'],
  [{ location: '- 4 -' }, 'Invalid Location', 'Please enter a valid delivery location'],
  [{ location: '\u3164\u3164\u3164' }, 'Invalid Location', 'Please enter a valid delivery location'],
  [{ name: '🌸'.repeat(121) }, 'Name Too Long', 'The name is longer than 120 characters'],
  [{ location: 'x'.repeat(201) }, 'Location Too Long', 'The delivery location is longer than 200 characters'],
  [
    { building: 'x'.repeat(121) },
    'Building Name Too Long',
    'The building name is longer than 120 characters',
  ],
  [
    { unit: 'x'.repeat(61) },
    'House/Unit Number Too Long',
    'The house/unit number is longer than 60 characters',
  ],
  [{ notes: 'x'.repeat(501) }, 'Notes Too Long', 'The delivery notes are longer than 500 characters'],
])('reports for %j: %s', (change, title, text) => {
  expect(checkOrderForm({ ...good, ...change })).toMatchObject([{ title, text }]);
});

test('reports every problem: name, then email, then phone, then location, then lengths, then the box', () => {
  const empty = {
    name: '',
    email: '',
    phone: '',
    location: '',
    building: '',
    unit: '',
    notes: 'x'.repeat(501),
    areaId: '',
    mapPoint: '',
  };
  expect(checkOrderForm(empty, true).map(({ field }) => field)).toEqual([
    'name',
    'email',
    'phone',
    'location',
    'notes',
    'acceptsTerms',
  ]);
});

test.each([
  ['Westlands', { location: 'Westlands', building: '', unit: '' }],
  ['Westlands, Building: Sarit', { location: 'Westlands', building: 'Sarit', unit: '' }],
  [
    'Westlands, Mpaka Rd, Building: Sarit, B, Unit: 4B',
    { location: 'Westlands, Mpaka Rd', building: 'Sarit, B', unit: '4B' },
  ],
  ['Westlands, Unit: 4B', { location: 'Westlands', building: '', unit: '4B' }],
  [null, { location: '', building: '', unit: '' }],
])('fills in a form from the address %j of an earlier order', (address, parts) =>
  expect(
    orderFormOf({
      customerName: 'Amina',
      customerEmail: 'amina@example.com',
      customerPhone: '+254712345678',
      address,
      deliveryNotes: null,
    }),
  ).toEqual({
    name: 'Amina',
    email: 'amina@example.com',
    phone: '0712345678',
    notes: '',
    areaId: '',
    mapPoint: '',
    ...parts,
  }),
);

test('staff may leave out the email address, and the location of a collected order; what they type is checked', () => {
  const fields = (change: object, optional: Parameters<typeof checkOrderForm>[2]) =>
    checkOrderForm({ ...good, ...change }, false, optional).map(({ field }) => field);
  expect(fields({ email: ' ' }, ['email'])).toEqual([]);
  expect(fields({ email: 'amina' }, ['email'])).toEqual(['email']);
  expect(fields({ email: '', location: '' }, ['email'])).toEqual(['location']);
  expect(fields({ location: '' }, ['location'])).toEqual([]);
  expect(fields({ location: '-' }, ['location'])).toEqual(['location']);
  expect(fields({ email: '', location: '' }, [])).toEqual(['email', 'location']);
});
