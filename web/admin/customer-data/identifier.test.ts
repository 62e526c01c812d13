import { expect, test } from 'vitest';
import { identifierOf } from './identifier.ts';

test.each([
  ['0711 604 588', '+254711604588'],
  ['+254 (0)711 604 588', '+254711604588'],
  ['Njeri, 0711604588', '+254711604588'],
  [' njeri@example.com ', 'njeri@example.com'],
  ['0711604588@example.com', '0711604588@example.com'],
  ['njeri.0711604588@example.com', 'njeri.0711604588@example.com'],
  ['NJERI+254711604588@Example.com', 'NJERI+254711604588@Example.com'],
  ['Njeri', null],
  ['njeri@example', null],
  ['', null],
])('%j is read as %j', (typed, identifier) => {
  expect(identifierOf(typed)).toBe(identifier);
});
