import { expect, it } from 'vitest';
import { isCheapPattern } from './pattern-cost.ts';

it.each([
  'mango',
  '^m.*o$',
  '[[:alpha:]]{2,40}',
  '(a|b)+c?',
  '\\yjuice\\y',
  '[]x[]{20}',
  '((ab){3}){4}',
  'a{',
  '(',
])('the pattern %s is cheap', (pattern) => {
  expect(isCheapPattern(pattern)).toBe(true);
});

it.each([
  ['counts that multiply', '((a{1,200}){1,200}){1,200}'],
  ['counts that multiply, twice', '(a{1,255}){1,255}'],
  ['counts after lazy ones', '((a{20,}?){20}?){20}'],
  ['counted brackets', '([ab]{90}){90}'],
  ['many counts side by side', 'a{250}b{250}c{250}'],
  ['references back', '(.*)*.*(.*)*x\\1\\2'],
  ['deep nesting', `${'('.repeat(300)}a${')'.repeat(300)}`],
  ['a group left open', `(${'a{200}('.repeat(20)}`],
  ['length', 'a'.repeat(2000)],
])('a pattern with %s is not cheap', (_why, pattern) => {
  expect(isCheapPattern(pattern)).toBe(false);
});
