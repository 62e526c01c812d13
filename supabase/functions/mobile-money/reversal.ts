// Sends money back: asks M-PESA to reverse a payment that came in, and reads what it tells of it later.
import type { DarajaClient } from './daraja-client.ts';
import { type InitiatedRequest, readConversationResult, requestAsInitiator } from './initiated-request.ts';
import { storableText } from './json-body.ts';
import { centsOf } from './stk-callback.ts';

const REVERSAL_PATH = '/mpesa/reversal/v1/request';

export interface Reversal {
  /** M-PESA's receipt of the payment that is to be sent back. */
  receipt: string;
  /** Cents, a multiple of 100. */
  refundCents: number;
  resultUrl: string;
  timeoutUrl: string;
  /** 2 to 100 characters, for M-PESA's own records. */
  remarks: string;
}

/**
 * Asks for a reversal (Daraja, Reversal). Never throws, never asks twice. M-PESA has no idempotency key for it, but
 * reverses a receipt once: a second reversal of the whole ends with R000001.
 */
export function reverse(daraja: DarajaClient, reversal: Reversal): Promise<InitiatedRequest> {
  return requestAsInitiator(daraja, REVERSAL_PATH, {
    CommandID: 'TransactionReversal',
    TransactionID: reversal.receipt,
    Amount: reversal.refundCents / 100,
    ReceiverParty: daraja.settings.shortcode,
    // Daraja knows it only in this spelling.
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

/** What became of a reversal. `unknown`: nothing can be concluded, a person or a status request must find out. */
export interface ReversalResult {
  verdict: 'reversed' | 'already reversed' | 'failed' | 'unknown';
  resultCode: string | null;
  resultDescription: string | null;
  conversationId: string | null;
  originatorConversationId: string | null;
  /** M-PESA's receipt of the reversal; null when nothing was reversed. */
  receipt: string | null;
  /** The receipt of the payment that was reversed; null when it is not told. */
  originalReceipt: string | null;
  /** Cents; null when it is not told. */
  refundCents: number | null;
}

// Daraja, Reversal, result codes: nothing was reversed.
const finalFailures = new Set(['R000002', '1', '11', '21', '2001', '2006', '2028', '8006']);

/**
 * Reads the body that came to the result address of a reversal. Never throws. What comes to the time-out address only
 * says that M-PESA has not got to it: it decides nothing, whatever code it names.
 * @param text the body as it came
 */
export function readReversalResult(text: string): ReversalResult {
  const { parameters, ...result } = readConversationResult(text);
  const verdict = judgeReversalCode(result.resultCode);
  return {
    verdict,
    ...result,
    receipt: verdict === 'reversed' ? result.receipt : null,
    originalReceipt: storableText(parameters.OriginalTransactionID, 40)?.trim() || null,
    refundCents: centsOf(parameters.Amount),
  };
}

function judgeReversalCode(code: string | null): ReversalResult['verdict'] {
  if (code === '0') return 'reversed';
  if (code === 'R000001') return 'already reversed';
  return code !== null && finalFailures.has(code) ? 'failed' : 'unknown';
}
