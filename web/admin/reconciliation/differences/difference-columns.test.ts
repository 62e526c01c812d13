import { expect, test } from 'vitest';
import { sumsOf } from '../days/day-summary.tsx';
import { exportColumns, printColumns } from './difference-columns.tsx';
import type { BookRow } from './difference-texts.ts';

const row = (change: Partial<BookRow>) =>
  ({ kind: 'wrong_amount', our_cents: 95_100, their_cents: 95_000, ...change }) as BookRow;
const cell = (columns: typeof printColumns, title: string, of: BookRow) =>
  columns.find((column) => column.title === title)?.value(of);

test('the columns of the shop add up to its sum: money that was only requested is not in the books', () => {
  const inReview = row({ payment_status: 'review' });
  expect(sumsOf([inReview]).ours).toBe(0);
  expect(cell(exportColumns, 'Our books (KES)', inReview)).toBeNull();
  expect(cell(printColumns, 'Our books', inReview)).toBe('KES 951 requested');
  const paid = row({ payment_status: 'completed' });
  expect(sumsOf([paid]).ours).toBe(95_100);
  expect(cell(exportColumns, 'Our books (KES)', paid)).toBe(951);
  expect(cell(printColumns, 'Our books', paid)).toBe('KES 951');
});
