// Readers of M-PESA's texts, by the shared examples.
import { expect, test } from 'vitest';
import { readAmountCents } from './amount.ts';
import {
  amountExamples,
  kindExamples,
  payerPhoneExamples,
  receiptExamples,
  timeExamples,
} from './examples.ts';
import { readPayerPhone } from './payer-phone.ts';
import { normaliseReceipt } from './receipt.ts';
import { readMpesaTime } from './time.ts';
import { transactionKindOf } from './transaction-kind.ts';

test.each(receiptExamples)('%j as a receipt is %j', (written, receipt) => {
  expect(normaliseReceipt(written)).toBe(receipt);
});

test('a normalised receipt stays the same', () => {
  for (const [, receipt] of receiptExamples) if (receipt) expect(normaliseReceipt(receipt)).toBe(receipt);
});

test.each([null, undefined, true, {}, ['UKL3AB12CD']])('%j is not a receipt', (value) => {
  expect(normaliseReceipt(value)).toBeNull();
});

test.each(amountExamples)('%j as an amount is %j cents', (written, cents) => {
  expect(readAmountCents(written)).toBe(cents);
});

test('every whole number of cents is read as written, with and without groups', () => {
  for (let cents = 1; cents < 250_000_00; cents = Math.ceil(cents * 1.01)) {
    const text = (cents / 100).toFixed(2);
    const grouped = text.replace(/\B(?=(\d{3})+\.)/g, ',');
    expect([readAmountCents(cents / 100), readAmountCents(text), readAmountCents(`Ksh${grouped}`)]).toEqual([
      cents,
      cents,
      cents,
    ]);
  }
});

test.each(timeExamples)('%j as a time is %j', (written, moment) => {
  expect(readMpesaTime(written)?.toISOString() ?? null).toBe(moment);
});

test.each(payerPhoneExamples)('%j as a payer’s phone is %j', (written, phone) => {
  expect(readPayerPhone(written)).toBe(phone);
});

test.each(kindExamples)('%j is the type of kind %s', (written, kind) => {
  expect(transactionKindOf(written)).toBe(kind);
});
