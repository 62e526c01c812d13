// Reversals: requests that M-PESA returns a received payment, and reads the result.

import { normaliseReceipt } from '../../../../domain/mpesa/receipt.ts';
import type { DarajaClient } from './connection/client.ts';
import { readMoneyFields, type UnreadablePart } from './fields/money-fields.ts';
import { type InitiatedRequest, readConversationResult, requestAsInitiator } from './initiated-request.ts';

const REVERSAL_PATH = '/mpesa/reversal/v1/request';

export interface Reversal {
  /** M-PESA's receipt of the payment to reverse. */
  receipt: string;
  /** Cents, a multiple of 100. */
  refundCents: number;
  resultUrl: string;
  timeoutUrl: string;
  /** 2 to 100 characters, for M-PESA's own records. */
  remarks: string;
}

/**
 * Requests a reversal (Daraja, Reversal). Never throws, never retries. M-PESA has no idempotency key for it, but
 * reverses a receipt once: a second reversal of the whole ends with R000001.
 */
export function reverse(daraja: DarajaClient, reversal: Reversal): Promise<InitiatedRequest> {
  return requestAsInitiator(daraja, REVERSAL_PATH, {
    CommandID: 'TransactionReversal',
    TransactionID: reversal.receipt,
    Amount: reversal.refundCents / 100,
    ReceiverParty: daraja.settings.shortcode,
    // Daraja's own spelling.
    RecieverIdentifierType: '11',
    ResultURL: reversal.resultUrl,
    QueueTimeOutURL: reversal.timeoutUrl,
    Remarks: remarksOf(reversal.remarks),
    Occasion: '',
  });
}

function remarksOf(text: string): string {
  const remarks = text.trim().slice(0, 100);
  return remarks.length < 2 ? 'Refund' : remarks;
}

/** The result of a reversal. `unknown`: inconclusive, staff or a status query must find out. */
export interface ReversalResult {
  outcome: 'reversed' | 'already reversed' | 'failed' | 'unknown';
  resultCode: string | null;
  resultDescription: string | null;
  conversationId: string | null;
  originatorConversationId: string | null;
  /** M-PESA's receipt of the reversal; null if nothing was reversed. */
  receipt: string | null;
  /** The receipt of the reversed payment; null if missing. */
  originalReceipt: string | null;
  /** Cents; null if missing or unreadable. */
  refundCents: number | null;
  /** Parts that the body has and that cannot be read. Then the result is `unknown`, whatever its code. */
  unreadable: UnreadablePart[];
}

// Daraja, Reversal, result codes: nothing was reversed.
const finalFailures = new Set(['R000002', '1', '11', '21', '2001', '2006', '2028', '8006']);

/**
 * Reads the body of a reversal's result callback. Never throws. A time-out callback only
 * means that M-PESA has not processed the request yet, whatever code it has.
 * @param text the body as received
 */
export function readReversalResult(text: string): ReversalResult {
  const { parameters, transactionId, ...result } = readConversationResult(text);
  const judged = judgeReversalCode(result.resultCode);
  // A failed request has an id of its own that is no receipt.
  const isReversed = judged === 'reversed';
  const money = readMoneyFields({ receipt: isReversed ? transactionId : null, amount: parameters.Amount });
  const outcome = isReversed && money.unreadable.length > 0 ? 'unknown' : judged;
  return {
    outcome,
    ...result,
    receipt: money.receipt,
    originalReceipt: normaliseReceipt(parameters.OriginalTransactionID),
    refundCents: money.cents,
    unreadable: money.unreadable,
  };
}

function judgeReversalCode(code: string | null): ReversalResult['outcome'] {
  if (code === '0') return 'reversed';
  if (code === 'R000001') return 'already reversed';
  return code !== null && finalFailures.has(code) ? 'failed' : 'unknown';
}
