// The body of a validation or confirmation, read leniently: what is missing or odd becomes null, never an exception.
import { parseFields, storableText } from './json-body.ts';
import { readDarajaTime } from './merchant-password.ts';
import { centsOf } from './stk-callback.ts';

export interface TillPayment {
  receipt: string | null;
  /** Cents, within 32 bits; null when none can be read. */
  receivedCents: number | null;
  /** What the payer typed as account; '' for none, as at a till. */
  reference: string;
  /** Whether the payer was asked for an account at all: a till asks for none. */
  hasReference: boolean;
  transactedAt: Date | null;
  /** Masked, or a hash. */
  payerPhone: string | null;
  payerName: string | null;
}

/**
 * Reads a payment that somebody made, or is about to make, without a prompt (Daraja, C2B).
 * @param text the body as it came
 */
export function readTillPayment(text: string): TillPayment {
  const fields = parseFields(text) ?? {};
  const word = (name: string, longest: number) => storableText(fields[name], longest)?.trim() || null;
  const name = ['FirstName', 'MiddleName', 'LastName']
    .map((part) => word(part, 60))
    .filter((part) => part !== null)
    .join(' ');
  const reference = word('BillRefNumber', 100) ?? '';
  return {
    receipt: word('TransID', 40),
    receivedCents: centsOf(fields.TransAmount),
    reference,
    hasReference: reference !== '' || !/buy\s*goods/i.test(word('TransactionType', 60) ?? ''),
    transactedAt: readDarajaTime(fields.TransTime),
    payerPhone: word('MSISDN', 80),
    payerName: name || null,
  };
}
