import { expect, it } from 'vitest';
import { patternCost } from './pattern-cost.ts';

it.each([
  ['mango', 5],
  ['^m.*o$', 3],
  ['[[:alpha:]]{2,40}', 40],
  ['(a|b)+c?', 4],
  ['\\yjuice\\y', 7],
  ['[]x[]{20}', 20],
  ['((ab){3}){4}', 40],
  ['((a{20,}?){20}?){20}', 8420],
  ['((a{1,200}){1,200}){1,200}', 8_040_200],
  ['a{250}b{250}c{250}', 750],
  ['a{', 2],
  ['[\\]]x', 2],
  ['[^]a]b', 2],
  ['a{2,}', 2],
  ['(', 0],
])('the pattern %s has about %i states', (pattern, states) => {
  expect(patternCost(pattern)).toBe(states);
});

it.each([
  ['back references', '(.*)*.*(.*)*x\\1\\2'],
  ['deep nesting', `${'('.repeat(300)}a${')'.repeat(300)}`],
  ['length', 'a'.repeat(2000)],
])('a pattern with %s has too many', (_why, pattern) => {
  expect(patternCost(pattern)).toBe(Number.POSITIVE_INFINITY);
});

it.each([
  ['escapes in a bracket', '[\\', '0}\\0}\\'],
  ['classes in a bracket', '[', '[:'],
  ['brackets', '', '['],
  ['repetitions', '', '{1'],
])('parses a pattern of many %s in linear time', (_what, prefix, repeated) => {
  const pattern = (prefix + repeated.repeat(1000)).slice(0, 1000);
  // With backtracking, these would exceed the test's timeout.
  expect(patternCost(pattern)).toBeLessThanOrEqual(1000);
});
