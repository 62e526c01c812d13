import { expect, test } from 'vitest';
import { isStorable } from './storable.ts';

test.each([
  ['a zero character', '\0'],
  ['a lone high surrogate', { note: ['\ud83c'] }],
  ['a lone low surrogate', { '\udf4b': 1 }],
  ['a value nested 50,000 levels deep', JSON.parse(`${'['.repeat(50_000)}${']'.repeat(50_000)}`)],
])('rejects %s', (_, value) => {
  expect(isStorable(value)).toBe(false);
});

test.each(['🍋', '\\u0000 written out', { a: [null, 1, true, { b: 'ü' }] }])('accepts %j', (value) => {
  expect(isStorable(value)).toBe(true);
});
