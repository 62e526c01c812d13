// Generates M-PESA receipt numbers: ten characters, the first three of which are the Nairobi date.
import { randomInt } from 'node:crypto';
import { nairobiTime } from './nairobi-time.ts';

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';
const ALPHANUMERICS = `${LETTERS}0123456789`;

/** Year letter (N = 2019 … U = 2026), month A–L, day 1–9 then A = 10 … V = 31. */
export function receiptDatePrefix(epochMs: number): string {
  const { year, month, day } = nairobiTime(epochMs);
  const dayOfMonth = Number(day);
  return (
    LETTERS.charAt((Number(year) - 2006) % LETTERS.length) +
    LETTERS.charAt(Number(month) - 1) +
    (dayOfMonth < 10 ? String(dayOfMonth) : LETTERS.charAt(dayOfMonth - 10))
  );
}

/** An unused receipt number for this time. */
export function drawReceipt(epochMs: number, isTaken: (receipt: string) => boolean): string {
  for (;;) {
    let receipt = receiptDatePrefix(epochMs);
    while (receipt.length < 10) receipt += ALPHANUMERICS.charAt(randomInt(ALPHANUMERICS.length));
    if (!isTaken(receipt)) return receipt;
  }
}
