// The fields of a message that name money, read one by one. What a message has but cannot be read is listed, never dropped.
import { readAmountCents } from '../../../../../domain/mpesa/amount.ts';
import { normaliseReceipt } from '../../../../../domain/mpesa/receipt.ts';
import { readMpesaTime } from '../../../../../domain/mpesa/time.ts';

/** A part of a message that cannot be read (`messages_to_check.unreadable`). */
export type UnreadablePart = 'code' | 'receipt' | 'amount' | 'time';

interface MoneyFields {
  /** Ten letters and digits in capitals; null if missing or unreadable. */
  receipt: string | null;
  /** Cents, within 32 bits; null if missing or unreadable. */
  cents: number | null;
  /** Null if missing or unreadable. */
  at: Date | null;
  /** Parts that the message has and that cannot be read. */
  unreadable: UnreadablePart[];
}

/**
 * Reads receipt, amount (in shillings) and time of a message.
 * @param written the values as received; a field that the kind of message lacks is left out
 */
export function readMoneyFields(written: {
  receipt?: unknown;
  amount?: unknown;
  time?: unknown;
}): MoneyFields {
  const receipt = normaliseReceipt(written.receipt);
  const cents = readAmountCents(written.amount);
  const at = readMpesaTime(written.time);
  const unreadable: UnreadablePart[] = [];
  if (receipt === null && isPresent(written.receipt)) unreadable.push('receipt');
  if (cents === null && isPresent(written.amount)) unreadable.push('amount');
  if (at === null && isPresent(written.time)) unreadable.push('time');
  return { receipt, cents, at, unreadable };
}

const isPresent = (value: unknown): boolean =>
  value !== undefined && value !== null && (typeof value !== 'string' || value.trim() !== '');
