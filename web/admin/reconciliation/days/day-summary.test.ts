import { expect, test } from 'vitest';
import type { BookRow } from '../differences/difference-texts.ts';
import { describeDifference, describeSums, sumsOf } from './day-summary.tsx';

const row = (change: Partial<BookRow>) =>
  ({ our_cents: null, their_cents: null, is_open: false, ...change }) as BookRow;

test('sums received payments only, and payments not compared yet separately', () => {
  expect(
    sumsOf([
      row({ kind: 'matched', payment_status: 'completed', our_cents: 95_100, their_cents: 95_100 }),
      row({ kind: 'not_compared', payment_status: 'completed', our_cents: 100_000 }),
      row({ kind: 'missing_here', their_cents: 5_000, is_open: true }),
      // The shop requested one amount, and M-PESA received another.
      row({
        kind: 'wrong_amount',
        payment_status: 'review',
        our_cents: 95_100,
        their_cents: 100,
        is_open: true,
      }),
    ]),
  ).toEqual({ ours: 195_100, theirs: 100_200, open: 2, uncompared: 100_000 });
});

test('names the sums of a day in one line for paper', () => {
  const matched = row({
    kind: 'matched',
    payment_status: 'completed',
    our_cents: 95_100,
    their_cents: 95_100,
  });
  expect(describeSums([matched])).toBe('Our books KES 951 · M-PESA KES 951 · Difference KES 0 · To decide 0');
  expect(
    describeSums([matched, row({ kind: 'not_compared', payment_status: 'completed', our_cents: 100_000 })]),
  ).toBe(
    'Our books KES 1,951 · not compared yet KES 1,000 · M-PESA KES 951 · Difference KES 0 · To decide 0',
  );
});

test('says that the books agree only if every payment is compared and decided', () => {
  const ours = { payment_status: 'completed', our_cents: 95_100 } as const;
  const matched = row({ ...ours, kind: 'matched', their_cents: 95_100 });
  const waiting = row({ ...ours, kind: 'not_compared' });
  const open = row({ kind: 'wrong_amount', payment_status: 'review', our_cents: 95_100, is_open: true });
  expect(describeDifference([])).toBe('The books agree');
  expect(describeDifference([matched])).toBe('The books agree');
  expect(describeDifference([matched, waiting])).toBe('What is compared agrees');
  expect(describeDifference([waiting])).toBe('Nothing is compared yet');
  expect(describeDifference([matched, open])).toBe('Only the sums agree');
  const missing = row({ kind: 'missing_here', their_cents: 100 });
  expect(describeDifference([matched, { ...missing, is_open: true }])).toBe('More at M-PESA than here');
  expect(describeDifference([matched, missing])).toBe('All of it is decided');
});
