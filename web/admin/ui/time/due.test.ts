import { expect, test } from 'vitest';
import { formatDue } from './due.tsx';

const now = Date.parse('2026-11-28T10:00:00Z');

test.each([
  // minutes since the payment, what staff read
  [0, '1 h left'],
  [0.5, '59 min left'],
  [48, '12 min left'],
  [60, '0 min left'],
  [60.5, '1 min late'],
  [68, '8 min late'],
  [120, '1 h late'],
  [179, '1 h 59 min late'],
  [60 + 48 * 60, '2 days late'],
])('%d minutes after its payment an order has %s', (minutes, words) => {
  expect(formatDue(new Date(now + (60 - minutes) * 60_000).toISOString(), now)).toBe(words);
});
