import { expect, test } from 'vitest';
import { describeFee } from './fee-words.ts';

const area = (fee_cents: number | null, needs_agreement = false) => ({
  id: '',
  name: '',
  spellings: [],
  fee_cents,
  promise_from_minutes: 15,
  promise_to_minutes: 60,
  needs_agreement,
});

test.each([
  [[null, null], 100, 'KES 1 delivery fee applies to all orders', '+ KSh 1.00 delivery'],
  [[null, 35_000], 100, 'Delivery from KES 1, depending on the area', '+ delivery from KSh 1.00'],
  [[35_000, 35_000], 100, 'KES 350 delivery fee applies to all orders', '+ KSh 350.00 delivery'],
  [[null, null], 0, 'Free delivery on all orders', 'Free delivery'],
  [[null, 0], 100, 'Free delivery in some areas', 'Free delivery in some areas'],
])('areas with the fees %j and a shop fee of %i: %s', (fees, shopFee, banner, short) => {
  const areas = [...fees.map((fee) => area(fee)), area(90_000, true)];
  const words = describeFee(areas, shopFee);
  expect(words).toMatchObject({ banner, short });
  if (new Set(fees).size > 1)
    expect(Object.values(words).join(' ')).not.toMatch(/all orders|every order|adds/);
});
