import { expect, test } from 'vitest';
import { placeOutsideNairobi } from './delivery-place.ts';

test.each([
  ['Mombasa', 'Mombasa'],
  ['mombasa, nyali', 'Mombasa'],
  ['Kampala, Uganda', 'Kampala'],
  ['KISUMU CITY', 'Kisumu'],
  ['Eldoret town, Rupa Mall', 'Eldoret'],
  ['Section 58, Nakuru', 'Nakuru'],
  ['Diani Beach', 'Diani'],
  ['Murang’a', "Murang'a"],
  ['Dar es Salaam', 'Dar es Salaam'],
  ['Homa Bay', 'Homa Bay'],
  ['P.O. Meru', 'Meru'],
  ['Nyali, Links Road', 'Nyali'],
])('finds that %j is in %s', (location, place) => expect(placeOutsideNairobi(location)).toBe(place));

test.each([
  '',
  'Westlands, Mpaka Road',
  'Mombasa Road, Capital Centre',
  'Off Mombasa Rd',
  'Nakuru Street',
  'Kisumu Lane, Nairobi',
  'Nairobi, near Meru shop',
  'Ngong Road',
  'Kampala House, Westlands',
  'Embu Court',
  'Merula Apartments',
  'Karen',
  'Roysambu',
  '...',
])('takes %j for Nairobi', (location) => expect(placeOutsideNairobi(location)).toBeNull());

test('reads a bounded part of a long text', () =>
  expect(placeOutsideNairobi(`${'x '.repeat(1_000_000)}Mombasa`)).toBeNull());
