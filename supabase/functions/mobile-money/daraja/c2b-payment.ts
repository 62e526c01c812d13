// Reads the body of a C2B validation or confirmation. Missing or malformed values become null, never an exception.
import { parseObject, storableText } from '../request-body.ts';
import { centsOf, readDarajaTime } from './field-formats.ts';

export interface TillPayment {
  receipt: string | null;
  /** Cents, within 32 bits; null if unreadable. */
  receivedCents: number | null;
  /** The account number that the payer typed; '' without one, as at a till. */
  reference: string;
  /** Whether the payer could type an account number: at a till they cannot. */
  hasReference: boolean;
  transactedAt: Date | null;
  /** Masked, or a hash. */
  payerPhone: string | null;
  payerName: string | null;
}

/**
 * Reads a payment without a prompt, before (validation) or after (confirmation) it is made (Daraja, C2B).
 * @param text the body as received
 */
export function readTillPayment(text: string): TillPayment {
  const fields = parseObject(text) ?? {};
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
