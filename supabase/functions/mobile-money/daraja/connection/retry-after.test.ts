import { expect, test } from 'vitest';
import { readLifetime, readRetryAfter } from './retry-after.ts';

const now = new Date('2026-11-26T12:00:00Z');
const hour = 3_600_000;

test.each([
  ['90', 90_000],
  [' 5 ', 5000],
  ['0', 0],
  ['3600', hour],
  ['3601', hour],
  ['999999999', hour],
  ['9'.repeat(400), hour],
  ['Thu, 26 Nov 2026 12:02:00 GMT', 120_000],
  ['Thu, 26 Nov 2026 11:00:00 GMT', 0],
  ['Fri, 26 Nov 2127 12:00:00 GMT', hour],
])('reads the delay %s within an hour', (text, ms) => {
  expect(readRetryAfter(text, now)).toBe(ms);
});

test.each([
  null,
  undefined,
  '',
  '-5',
  '1.5',
  '1e9',
  '0x10',
  'soon',
  'in 5 minutes',
  'Infinity',
  'Thu, 99 Nov 2026 12:00:00 GMT',
  '2026-11-26',
  '<html>',
])('reads no delay from %s', (text) => {
  expect(readRetryAfter(text, now)).toBeNull();
});

test.each([
  [3599, 3_599_000],
  ['3599', 3_599_000],
  [60, 60_000],
  [0.001, 1000],
  [999_999_999, 3_599_000],
  ['Infinity', 3_599_000],
  [-5, 3_599_000],
  [0, 3_599_000],
  ['', 3_599_000],
  ['soon', 3_599_000],
  [Number.NaN, 3_599_000],
  [null, 3_599_000],
  [[60], 3_599_000],
  [{}, 3_599_000],
])('reads the lifetime %s within a second and the documented one', (value, ms) => {
  expect(readLifetime(value, 3_599_000)).toBe(ms);
});
