import { expect, test } from 'vitest';
import { firstNameOf } from './use-order-details.ts';

test.each([
  ['Wanjiku Kamau', 'Wanjiku'],
  [' Wanjiku ', 'Wanjiku'],
  ["Ng'ang'a Mwangi", "Ng'ang'a"],
  ['Anne-Marie Atieno', 'Anne-Marie'],
  ['J. Otieno', ''],
  ['A Otieno', ''],
  ['Wanjikuwanjikuwanjikuwanjiku', ''],
  ['😀 Otieno', ''],
  ['', ''],
])('thanks %j as %j', (name, first) => expect(firstNameOf(name)).toBe(first));
