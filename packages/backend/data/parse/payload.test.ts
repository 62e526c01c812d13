// Limits of a body that are checked without a database.
import { expect, test } from 'vitest';
import { checkNesting } from './payload.ts';

const nested = (levels: number) => `${'[{"a":'.repeat(levels / 2)}1${'}]'.repeat(levels / 2)}`;

test('limits the nesting of JSON', () => {
  expect(() => checkNesting(nested(1000), null)).not.toThrow();
  for (const type of [null, 'application/json; charset=utf-8', 'application/vnd.pgrst.object+json'])
    expect(() => checkNesting(nested(1002), type)).toThrow('JSON is nested deeper than 1000 levels');
});

test('does not count brackets in strings or side by side as nesting', () => {
  const texts = JSON.stringify({ text: `"\\"${'['.repeat(2000)}\\`, more: '{'.repeat(2000) });
  expect(() => checkNesting(texts, null)).not.toThrow();
  expect(() => checkNesting(`[${'[],'.repeat(2000)}{}]`, null)).not.toThrow();
  expect(() => checkNesting('['.repeat(2000), 'text/csv')).not.toThrow();
});
