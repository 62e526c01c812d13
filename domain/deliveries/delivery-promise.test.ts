import { expect, test } from 'vitest';
import { dueAt, formatArrival, minutesLeft } from './delivery-promise.ts';

const now = Date.parse('2026-11-28T22:30:00+03:00');

test.each([
  ['2026-11-28T22:45:00+03:00', '22:45'],
  ['2026-11-28T23:59:00+03:00', '23:59'],
  ['2026-11-29T00:00:00+03:00', '00:00 tomorrow'],
  ['2026-11-29T08:45:00+03:00', '08:45 tomorrow'],
  ['2026-11-30T08:45:00+03:00', '08:45 on Mon 30 Nov'],
  // Late: the promise was yesterday.
  ['2026-11-27T23:30:00+03:00', '23:30 on Fri 27 Nov'],
])('shows an arrival at %s as %s', (when, words) => {
  expect(formatArrival(when, now)).toBe(words);
});

test('counts minutes to the promise, and to an hour after the payment without one', () => {
  const paidAt = '2026-11-28T22:00:00+03:00';
  expect(minutesLeft(dueAt({ promised_at: null }, paidAt), now)).toBe(30);
  expect(minutesLeft(dueAt({ promised_at: '2026-11-28T22:29:59+03:00' }, paidAt), now)).toBe(-1);
});
