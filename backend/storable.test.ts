import { expect, test } from 'vitest';
import { isStorable } from './storable.ts';

test.each([
  ['a zero character', '\0'],
  ['half a character', { note: ['\ud83c'] }],
  ['the other half', { '\udf4b': 1 }],
  ['what is nested without end', JSON.parse(`${'['.repeat(50_000)}${']'.repeat(50_000)}`)],
])('rejects %s', (_, value) => {
  expect(isStorable(value)).toBe(false);
});

test.each(['🍋', '\\u0000 written out', { a: [null, 1, true, { b: 'ü' }] }])('%j can be kept', (value) => {
  expect(isStorable(value)).toBe(true);
});
