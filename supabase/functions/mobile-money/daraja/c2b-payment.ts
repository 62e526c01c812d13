// Reads the body of a C2B validation or confirmation. Missing or malformed values become null, never an exception.
import { readPayerPhone } from '../../../../domain/mpesa/payer-phone.ts';
import { type TransactionKind, transactionKindOf } from '../../../../domain/mpesa/transaction-kind.ts';
import { parseObject, storableText } from '../request-body.ts';
import { readMoneyFields, type UnreadablePart } from './fields/money-fields.ts';

export interface TillPayment {
  /** Null if missing or unreadable. */
  receipt: string | null;
  /** Cents, within 32 bits; null if missing or unreadable. */
  receivedCents: number | null;
  kind: TransactionKind;
  /** Parts that the body has and that cannot be read. */
  unreadable: UnreadablePart[];
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
  const money = readMoneyFields({
    receipt: fields.TransID,
    amount: fields.TransAmount,
    time: fields.TransTime,
  });
  return {
    receipt: money.receipt,
    receivedCents: money.cents,
    kind: transactionKindOf(fields.TransactionType),
    unreadable: money.unreadable,
    reference,
    hasReference: reference !== '' || !/buy\s*goods/i.test(word('TransactionType', 60) ?? ''),
    transactedAt: money.at,
    payerPhone: readPayerPhone(fields.MSISDN),
    payerName: name || null,
  };
}
