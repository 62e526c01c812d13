import { expect, test } from 'vitest';
import { titleWithCount } from './use-counts.ts';

test.each([
  ['Today · Jani Juice Admin', 3, '(3) Today · Jani Juice Admin'],
  ['(3) Today · Jani Juice Admin', 12, '(12) Today · Jani Juice Admin'],
  ['(3) Today · Jani Juice Admin', 0, 'Today · Jani Juice Admin'],
  ['Today · Jani Juice (2) Admin', 0, 'Today · Jani Juice (2) Admin'],
])('counts in the title %s: %i', (title, count, expected) => {
  expect(titleWithCount(title, count)).toBe(expected);
});
