import { expect, test } from 'vitest';
import { nextSteps, outsideNairobiNote } from './next-steps.ts';

test('promises 15-60 minutes in Nairobi and for unknown places', () => {
  for (const location of ['', 'Westlands', 'Mombasa Road']) {
    expect(nextSteps(location)).toBe(
      "At your door in 15-60 minutes within Nairobi. Next, you'll pay with M-PESA.",
    );
    expect(outsideNairobiNote(location)).toBeNull();
  }
});

test('promises no time outside Nairobi, and says what follows', () => {
  expect(nextSteps('Mombasa, Nyali')).toBe("Next, you'll pay with M-PESA.");
  expect(outsideNairobiNote('Mombasa, Nyali')).toBe(
    "We'll call or WhatsApp you to agree the fee and day for Mombasa.",
  );
});
