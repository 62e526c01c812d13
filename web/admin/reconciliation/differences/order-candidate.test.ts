import { expect, test } from 'vitest';
import type { Candidate } from '../reconciliation-queries.ts';
import { hintsOf, matchingEnd } from './order-candidate.tsx';

const candidate = (change: Partial<Candidate>): Candidate => ({
  id: 'o',
  order_number: 'ORD-1042',
  tracking_number: 'JJ-20261121-1234',
  customer_name: 'Wanjiku',
  customer_phone: '+254712345678',
  items: '2 × Ginger Lemon 500 ml',
  charge_cents: 95_100,
  payment_status: 'unpaid',
  status: 'pending',
  created_at: '2026-11-21T09:00:00Z',
  lacks_receipt: false,
  is_named: false,
  fits_amount: true,
  phone_match: null,
  shares_name: null,
  is_certain: false,
  ...change,
});

test.each<[string | null, string | null, number]>([
  ['digits', '2547*****678', 3],
  ['digits', '254 7** *** 678', 3],
  ['digits', '0712***5678', 4],
  ['whole', '0712345678', 9],
  ['differs', '2547*****679', 0],
  [null, '', 0],
  [null, null, 0],
])('a phone that is %j to %j marks so many of its last digits: %i', (phone_match, payer, digits) => {
  expect(matchingEnd(candidate({ phone_match }), payer)).toBe(digits);
});

test('hints name what speaks for an order, and what against it', () => {
  const words = (change: Partial<Candidate>) => hintsOf(candidate(change)).map(([hint]) => hint);
  expect(words({ is_named: true, phone_match: 'digits', shares_name: true })).toEqual([
    'Named by the payer',
    'Phone digits match',
    'Same name',
    'Same amount',
  ]);
  expect(words({ phone_match: 'differs', fits_amount: false })).toEqual(['Another phone', 'Another amount']);
});
