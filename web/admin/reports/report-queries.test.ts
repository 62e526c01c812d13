import { expect, test } from 'vitest';
import { successOf, totalsOf } from './report-queries.ts';

const day = {
  day: '2026-11-28',
  orders: 3,
  sold: 2,
  sold_cents: 190_200,
  received_cents: 95_100,
  refunded_cents: 100,
  net_cents: 95_000,
};
const prompts = [
  { status: 'completed', result_code: '', prompts: 6 },
  { status: 'failed', result_code: '1032', prompts: 1 },
  { status: 'failed', result_code: '1', prompts: 1 },
  { status: 'processing', result_code: '', prompts: 4 },
];

test('adds the days up', () => {
  expect(totalsOf({ days: [day, day], prompts })).toEqual({
    orders: 6,
    sold: 4,
    soldCents: 380_400,
    averageCents: 95_100,
    receivedCents: 190_200,
    refundedCents: 200,
    netCents: 190_000,
    ended: 8,
    paid: 6,
  });
});

test('has no average without paid orders', () => {
  expect(totalsOf({ days: [], prompts: [] })).toMatchObject({ averageCents: null, netCents: 0, ended: 0 });
});

test('counts prompts once their outcome is known', () => {
  expect(successOf(prompts)).toEqual({ ended: 8, paid: 6 });
});
