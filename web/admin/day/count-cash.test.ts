import { expect, test } from 'vitest';
import { readCounted, readCounts } from './count-cash.ts';

test.each([
  ['711', 71_100],
  ['KES 1,951', 195_100],
  ['0', 0],
  ['-200', -20_000],
  ['', null],
  ['12.50', null],
  ['1.951', null],
  ['all', null],
])('reads %j as %j cents', (text, cents) => {
  expect(readCounted(text)).toBe(cents);
});

const cash = [
  { member: 'amina', expected_cents: 71_100 },
  { member: 'brian', expected_cents: 0 },
];

test('what was counted as expected needs no reason, and keeps none', () => {
  expect(
    readCounts(cash, {
      amina: { counted: '711', reason: 'typed before' },
      brian: { counted: '0', reason: '' },
    }),
  ).toEqual({
    counts: [
      { member: 'amina', expected_cents: 71_100, counted_cents: 71_100, reason: null },
      { member: 'brian', expected_cents: 0, counted_cents: 0, reason: null },
    ],
  });
});

test.each([
  [{}, 'amina', 'counted'],
  [{ amina: { counted: '700', reason: '' } }, 'amina', 'reason'],
  [{ amina: { counted: '700', reason: ' a' } }, 'amina', 'reason'],
  [{ amina: { counted: '700', reason: 'Wrong change' } }, 'brian', 'counted'],
] as const)('names the first problem of %j', (typed, member, field) => {
  expect(readCounts(cash, typed)).toMatchObject({ problem: { member, field } });
});
