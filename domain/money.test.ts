import fc from 'fast-check';
import { expect, test } from 'vitest';
import { chargeCents, formatKes, formatKsh, formatSaving, shownAmount } from './money.ts';

test('formats amounts for customers as KSh with cents and thousands separators', () => {
  expect(formatKsh(123400)).toBe('KSh 1,234.00');
  expect(formatKsh(100)).toBe('KSh 1.00');
  expect(formatKsh(5)).toBe('KSh 0.05');
});

test('formats amounts for staff as KES, with cents only if there are any', () => {
  expect(formatKes(123400)).toBe('KES 1,234');
  expect(formatKes(123450)).toBe('KES 1,234.5');
});

test('formats numbers as the en-KE locale does', () => {
  const inKenya = (cents: number, least: number) =>
    (cents / 100).toLocaleString('en-KE', { minimumFractionDigits: least, maximumFractionDigits: 2 });
  fc.assert(
    fc.property(fc.integer(), (cents) => {
      expect(formatKsh(cents)).toBe(`KSh ${inKenya(cents, 2)}`);
      expect(formatKes(cents)).toBe(`KES ${inKenya(cents, 0)}`);
    }),
    { examples: [[0], [-1], [99], [100], [99_999], [100_000], [123_456_789]] },
  );
});

test('charges whole shillings, rounded up', () => {
  expect([100, 101, 199, 200].map(chargeCents)).toEqual([100, 200, 200, 200]);
});

test.each([
  // total, payment status, shown
  [130_050, 'unpaid', 'KES 1,300.5'],
  [130_050, 'paid', 'KES 1,301'],
  [130_050, 'needs_review', 'KES 1,301'],
  [130_050, 'refunded', 'KES 1,301'],
  [130_001, 'paid', 'KES 1,301'],
  [130_099, 'paid', 'KES 1,301'],
  [130_000, 'unpaid', 'KES 1,300'],
  [130_000, 'paid', 'KES 1,300'],
  [1, 'paid', 'KES 1'],
] as const)('an order of %i cents that is %s shows %s', (total, paymentStatus, shown) => {
  expect(formatKes(shownAmount(total, paymentStatus))).toBe(shown);
});

test('the saving of an offer has cents only when there are any', () => {
  expect(formatSaving(95_000, 110_000)).toBe('KSh 150');
  expect(formatSaving(99_950, 250_000)).toBe('KSh 1,500.50');
  expect(formatSaving(75_000, null)).toBeNull();
});
