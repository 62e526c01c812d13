import { expect, test } from 'vitest';
import { checkDeliveryForm } from './delivery-form.ts';

const good = { person: 'Joseph Otieno', phone: '0712 345 678', vehicle: 'Motorbike', notes: '' };

test('accepts a valid form, with and without notes', () => {
  expect(checkDeliveryForm(good)).toBeNull();
  expect(checkDeliveryForm({ ...good, notes: 'Call at the gate' })).toBeNull();
});

test.each([
  [{ person: '  ' }, { person: 'Delivery person name is required' }],
  [{ phone: '' }, { phone: 'Phone number is required' }],
  [{ vehicle: '\t' }, { vehicle: 'Vehicle information is required' }],
  [{ person: 'x'.repeat(121) }, { person: 'The name is longer than 120 characters' }],
  [{ phone: '0'.repeat(41) }, { phone: 'The phone number is longer than 40 characters' }],
  [{ vehicle: 'x'.repeat(121) }, { vehicle: 'The vehicle information is longer than 120 characters' }],
  [{ notes: 'x'.repeat(501) }, { notes: 'The delivery notes are longer than 500 characters' }],
])('reports for %j: %j', (change, problems) => {
  expect(checkDeliveryForm({ ...good, ...change })).toEqual(problems);
});

test('reports all problems at once', () => {
  expect(checkDeliveryForm({ person: '', phone: '', vehicle: '', notes: '' })).toEqual({
    person: 'Delivery person name is required',
    phone: 'Phone number is required',
    vehicle: 'Vehicle information is required',
  });
});

test('ignores surrounding spaces, and counts a surrogate pair as one character', () => {
  expect(checkDeliveryForm({ ...good, person: ` ${'🛵'.repeat(120)} ` })).toBeNull();
});

test('accepts a phone number in any format', () => {
  for (const phone of ['+254712345678', '020 222 0000', '+256 772 123456']) {
    expect(checkDeliveryForm({ ...good, phone })).toBeNull();
  }
});
