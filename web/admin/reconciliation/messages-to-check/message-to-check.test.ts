import { expect, test } from 'vitest';
import { canBeEntered, describeMessageToCheck } from './message-to-check.ts';

const message = { problem: 'unreadable' as const, unreadable: [], refund_id: null, payment_id: null };

test.each([
  [['amount'], 'The amount can’t be read'],
  [['amount', 'receipt'], 'The amount and the receipt can’t be read'],
  [['amount', 'receipt', 'time'], 'The amount, the receipt and the time can’t be read'],
  [['code'], 'The result can’t be read'],
])('names what cannot be read: %j', (unreadable, title) => {
  expect(describeMessageToCheck({ ...message, unreadable }).title).toBe(title);
});

test('money that went back cannot be entered as a payment', () => {
  expect(canBeEntered(message)).toBe(true);
  expect(canBeEntered({ ...message, problem: 'unknown_kind' })).toBe(true);
  expect(canBeEntered({ ...message, problem: 'reversed' })).toBe(false);
  expect(canBeEntered({ ...message, refund_id: 'any' })).toBe(false);
});

test('a reversal says whether the shop knows its payment', () => {
  const reversed = { ...message, problem: 'reversed' as const };
  expect(describeMessageToCheck({ ...reversed, payment_id: 'any' }).text).toMatch(/order needs your review/);
  expect(describeMessageToCheck(reversed).text).toMatch(/no payment/);
});
