import { expect, test } from 'vitest';
import { type DeliveryArea, describePromise, feeIn, feeRange } from './delivery-area.ts';

const area: DeliveryArea = {
  id: 'Karen',
  name: 'Karen',
  spellings: [],
  fee_cents: null,
  promise_from_minutes: 15,
  promise_to_minutes: 60,
  needs_agreement: false,
};
const areas = [area, { ...area, id: 'Kilimani' }, { ...area, id: 'Outside Nairobi', needs_agreement: true }];

test('takes the fee of the area, else that of the shop, and none until it is agreed', () => {
  expect(feeIn(null, 20_000)).toBe(20_000);
  expect(feeIn(area, 20_000)).toBe(20_000);
  expect(feeIn({ ...area, fee_cents: 0 }, 20_000)).toBe(0);
  expect(feeIn({ ...area, fee_cents: 35_000 }, 20_000)).toBe(35_000);
  expect(feeIn({ ...area, fee_cents: 35_000, needs_agreement: true }, 20_000)).toBe(0);
});

test('gives the range of fees, without areas in which the fee is agreed', () => {
  const withFee = (fee: number, at: number) =>
    areas.map((area, index) => (index === at ? { ...area, fee_cents: fee } : area));
  expect(feeRange([], 20_000)).toEqual({ lowest: 20_000, highest: 20_000, differs: false });
  expect(feeRange(areas, 100)).toEqual({ lowest: 100, highest: 100, differs: false });
  expect(feeRange(withFee(35_000, 1), 100)).toEqual({ lowest: 100, highest: 35_000, differs: true });
  expect(feeRange(withFee(35_000, 2), 100).differs).toBe(false);
  expect(
    feeRange(
      areas.map((area) => ({ ...area, fee_cents: 5_000 })),
      100,
    ),
  ).toEqual({
    lowest: 5_000,
    highest: 5_000,
    differs: false,
  });
});

test.each([
  [15, 60, '15-60 minutes'],
  [30, 30, '30 minutes'],
  [60, 120, '60-120 minutes'],
  [120, 240, '2-4 hours'],
  [90, 200, '90-200 minutes'],
  [1440, 1440, '1 day'],
  [1440, 4320, '1-3 days'],
  [60, 2880, '1-2 days'],
])('says %i to %i minutes as %s', (promise_from_minutes, promise_to_minutes, words) =>
  expect(describePromise({ promise_from_minutes, promise_to_minutes })).toBe(words),
);
