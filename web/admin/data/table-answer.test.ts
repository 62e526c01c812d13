import { expect, test } from 'vitest';
import { ConflictError, isUnanswered, messageForUser, TableProblem } from './table-answer.ts';

test.each([
  [
    'a procedure of ours refused',
    new TableProblem({ message: 'This order is not paid', code: 'PT409' }, 409),
    'This order is not paid',
  ],
  ['the shop itself noticed', new ConflictError('Someone else changed this'), 'Someone else changed this'],
  [
    'the database said',
    new TableProblem({ message: 'duplicate key value violates unique constraint', code: '23505' }, 409),
    '',
  ],
  ['the table service said', new TableProblem({ message: 'JWT expired', code: 'PGRST303' }, 401), ''],
  ['a program said', new TypeError('x is not a function'), ''],
  ['only the browser has said', new TableProblem({ message: 'TypeError: Failed to fetch' }, 0), ''],
  ['a gateway or a hotel has put in between', new TableProblem({ message: '<!doctype html>…' }, 200), ''],
])('shows what is written for people only: %s', (_, error, words) => {
  expect(messageForUser(error)).toBe(words);
});

test('distinguishes a call without a response from a refused one', () => {
  expect([0, 503, 409, 500].map((status) => isUnanswered(new TableProblem({ message: '' }, status)))).toEqual(
    [true, true, false, false],
  );
  expect(isUnanswered(new ConflictError())).toBe(false);
});
