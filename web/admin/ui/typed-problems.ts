// What is wrong with a reason or a receipt that staff type; undefined if nothing is. The database checks the same.
import { normaliseReceipt } from '../../../domain/mpesa/receipt.ts';
import { TableProblem } from '../data/table-answer.ts';

/** @param reason also a note: both have the same rule */
export const reasonProblem = (reason: string): string | undefined => {
  const { length } = [...reason.trim()];
  return length < 3 || length > 200 ? 'Please say why, in 3 to 200 characters' : undefined;
};

/** The database's refusal of a reason, shown beside its field: invisible characters do not count there. */
export const reasonRefusal = (error: Error | null): string | undefined =>
  error instanceof TableProblem && error.details === 'reason_invalid' ? error.message : undefined;

export function receiptProblem(typed: string): string | undefined {
  return normaliseReceipt(typed) === null
    ? 'An M-PESA receipt has ten letters and digits, such as UKL3AB12CD'
    : undefined;
}

const receiptRefusals = new Set([
  'receipt_invalid',
  'receipt_used',
  'receipt_of_refund',
  'money_reversed',
  'receipt_of_test',
  'receipt_of_payment',
  'refund_receipt_used',
]);

/** The database's refusal of a typed receipt, shown beside its field. */
export const receiptRefusal = (error: Error): string | undefined =>
  error instanceof TableProblem && receiptRefusals.has(error.details) ? error.message : undefined;
