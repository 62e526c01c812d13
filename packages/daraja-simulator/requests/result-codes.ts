// Daraja's descriptions of results. Callback and query describe the same code differently, as observed.
import type { ResultCode } from './outcomes.ts';

type Wording = { callback: string; query?: string };

const wordings: Record<string, Wording> = {
  '0': { callback: 'The service request is processed successfully.' },
  '1': {
    callback: 'The balance is insufficient for the transaction.',
    query: 'The balance is insufficient for the transaction',
  },
  '17': { callback: 'Rule limited.' },
  '1001': {
    callback: 'Unable to lock subscriber, a transaction is already in process for the current subscriber',
    query: 'Unable to lock subscriber',
  },
  '1019': { callback: 'Transaction has expired', query: 'Transaction expired. No MO has been received' },
  '1025': { callback: 'An error occurred while sending a push request' },
  '1032': { callback: 'Request cancelled by user', query: 'Request Cancelled by user.' },
  '1037': {
    callback: 'No response from user.',
    query: 'DS timeout user cannot be reached.',
  },
  '2001': { callback: 'The initiator information is invalid.' },
  E3008: { callback: 'The phone number is not allowed in this environment.' },
  SFC_IC0003: { callback: 'The operator does not exist.' },
};

export function describeResult(resultCode: ResultCode, channel: 'callback' | 'query'): string {
  const wording = wordings[String(resultCode)];
  return wording?.[channel] ?? wording?.callback ?? 'Unknown result';
}

const initiatedWordings: Record<string, string> = {
  '0': 'The service request is processed successfully.',
  '1': 'The balance is insufficient for the transaction.',
  '11': 'The DebitParty is in an invalid state.',
  '21': 'The initiator is not allowed to initiate this request.',
  '2001': 'The initiator information is invalid.',
  '2006': 'Declined due to account rule.',
  '2028': 'The request is not permitted according to product assignment.',
  '2032': 'The transaction does not exist.',
  '8006': 'The security credential is locked.',
  R000001: 'The transaction has already been reversed.',
  R000002: 'The OriginalTransactionID is invalid.',
};

/** M-PESA's description of the result of a reversal or a status request. */
export function describeInitiatedResult(resultCode: ResultCode): string {
  return initiatedWordings[String(resultCode)] ?? 'Unknown result';
}
