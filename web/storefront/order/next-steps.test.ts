import { expect, test } from 'vitest';
import type { DeliveryArea } from '../../../domain/deliveries/delivery-area.ts';
import { agreementNote, nextSteps } from './next-steps.ts';

const westlands: DeliveryArea = {
  id: 'westlands',
  name: 'Westlands',
  spellings: [],
  fee_cents: null,
  promise_from_minutes: 15,
  promise_to_minutes: 60,
  needs_agreement: false,
};
const outside = { ...westlands, id: 'outside', name: 'Outside Nairobi', needs_agreement: true };

test('promises 15-60 minutes without an area, and in one with this promise', () => {
  for (const area of [null, westlands]) {
    expect(nextSteps(area)).toBe(
      "At your door in 15-60 minutes within Nairobi. Next, you'll pay with M-PESA.",
    );
  }
  expect(agreementNote({ area: westlands, place: 'Westlands' })).toBeNull();
  expect(agreementNote(null)).toBeNull();
});

test('promises what the area promises', () => {
  expect(nextSteps({ ...westlands, promise_from_minutes: 1440, promise_to_minutes: 4320 })).toBe(
    "At your door in 1-3 days. Next, you'll pay with M-PESA.",
  );
});

test('promises no time before it is agreed, and says what follows', () => {
  expect(nextSteps(outside)).toBe("We agree the delivery fee and day with you first. You'll pay after that.");
  expect(agreementNote({ area: outside, place: 'Mombasa' })).toBe(
    "We'll call or WhatsApp you to agree the fee and day for Mombasa.",
  );
  expect(agreementNote({ area: outside, place: 'Outside Nairobi' })).toBe(
    "We'll call or WhatsApp you to agree the fee and day.",
  );
});

test('says when it arrives, once that is known, except where the day is agreed', () => {
  expect(nextSteps(null, 'Arrives by 22:14')).toBe("Arrives by 22:14. Next, you'll pay with M-PESA.");
  expect(nextSteps(outside, 'Arrives by 22:14')).toBe(nextSteps(outside));
});
