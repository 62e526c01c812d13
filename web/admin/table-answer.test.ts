import { expect, test } from 'vitest';
import { TableProblem, wordsOf } from './table-answer.ts';

test.each([
  [
    'the service has said',
    new TableProblem({ message: ' The slug is taken ', code: '23505' }, 409),
    'The slug is taken',
  ],
  ['only the browser has said', new TableProblem({ message: 'TypeError: Failed to fetch' }, 0), ''],
  ['a gateway or a hotel has put in between', new TableProblem({ message: '<!doctype html>…' }, 200), ''],
])('what %s is told as what it is', (_, error, words) => {
  expect(wordsOf(error)).toBe(words);
});
