import { describe, expect, test } from 'vitest';
import { describePress, offeredSteps, type Press, readShillings } from './rider-page.ts';

test.each([
  ['711', 71_100],
  [' 1,901 ', 190_100],
  ['KSh 1 901', 190_100],
  ['ksh.711.00', 71_100],
  ['711/=', 71_100],
  ['0', 0],
  ['', null],
  ['711.50', null],
  ['-711', null],
  ['abc', null],
  ['12345678', null],
  ['７１１', null],
])('reads the cash %j as %j cents', (typed, cents) => {
  expect(readShillings(typed)).toBe(cents);
});

test('a delivery can be finished from each step after the pickup', () => {
  expect(offeredSteps.assigned).toEqual(['picked_up']);
  for (const status of ['picked_up', 'in_transit'] as const)
    expect(offeredSteps[status]).toEqual(expect.arrayContaining(['delivered', 'failed']));
});

describe('after a press', () => {
  const press = (change: Partial<Press>) =>
    describePress({ delivery_id: 'd', outcome: 'done', order_number: 'ORD-1', ...change });

  test.each<[Partial<Press>, boolean, string]>([
    [{ outcome: 'done', status: 'picked_up' }, true, 'ORD-1: Picked up.'],
    [
      { outcome: 'done', status: 'delivered', received_cents: 71_100 },
      false,
      'ORD-1: Delivered. It was paid by M-PESA before: give KSh 711.00 back, or call the shop.',
    ],
    [
      { outcome: 'already', status: 'failed', failure: 'no_answer' },
      true,
      'ORD-1 was set to “Could not deliver” (Phone not answered) before. Nothing was changed.',
    ],
    [
      { outcome: 'already', status: 'delivered', step: 'delivered' },
      true,
      'ORD-1 was set to “Delivered” before. Nothing was changed.',
    ],
    [
      { outcome: 'already', status: 'failed', failure: 'no_answer', step: 'delivered' },
      false,
      'ORD-1 was set to “Could not deliver” (Phone not answered) before. Nothing was changed. Call the shop if that is wrong.',
    ],
    [{ outcome: 'cancelled' }, false, 'ORD-1 was cancelled. If you have it, bring it back to the shop.'],
    [
      { outcome: 'wrong_code', tries_left: 1 },
      false,
      'ORD-1: wrong code. Ask the customer again: 1 try left.',
    ],
    [
      { outcome: 'wrong_code', tries_left: 4 },
      false,
      'ORD-1: wrong code. Ask the customer again: 4 tries left.',
    ],
    [
      { outcome: 'cash_differs', cash_cents: 71_100, received_cents: 70_000 },
      false,
      'ORD-1 costs KSh 711.00, and you typed KSh 700.00. If that is right, tick “Another amount” and press again.',
    ],
  ])('%j is reported', (change, isDone, text) => {
    expect(press(change)).toEqual({ isDone, text });
  });

  test('an order of another rider is not named', () => {
    expect(press({ outcome: 'not_yours' }).text).not.toContain('ORD-1');
  });
});
