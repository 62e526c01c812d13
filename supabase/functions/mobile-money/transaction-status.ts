// Asks M-PESA what became of a payment or of a reversal, and reads what it tells of it later.
import type { DarajaClient } from './daraja-client.ts';
import { type InitiatedRequest, readConversationResult, requestAsInitiator } from './initiated-request.ts';
import { storableText } from './json-body.ts';
import { readDarajaTime } from './merchant-password.ts';
import { centsOf } from './stk-callback.ts';

const STATUS_PATH = '/mpesa/transactionstatus/v1/query';

export type StatusQuestion = (
  | { receipt: string }
  /** Of a request whose receipt is not known, as `reverse` gave it. */
  | { originatorConversationId: string }
) & {
  resultUrl: string;
  timeoutUrl: string;
  remarks?: string;
};

/** Asks for the status of a transaction (Daraja, Transaction Status). Never throws; asking again is harmless. */
export function askTransactionStatus(
  daraja: DarajaClient,
  question: StatusQuestion,
): Promise<InitiatedRequest> {
  return requestAsInitiator(daraja, STATUS_PATH, {
    CommandID: 'TransactionStatusQuery',
    ...('receipt' in question
      ? { TransactionID: question.receipt }
      : { OriginalConversationID: question.originatorConversationId }),
    PartyA: daraja.settings.shortcode,
    // 4 is a shortcode.
    IdentifierType: '4',
    ResultURL: question.resultUrl,
    QueueTimeOutURL: question.timeoutUrl,
    Remarks: question.remarks?.trim().slice(0, 100) || 'Status',
    Occasion: '',
  });
}

/** What M-PESA knows of a transaction; `answered` is false when it told nothing that can be concluded from. */
export interface TransactionStatus {
  answered: boolean;
  resultCode: string | null;
  resultDescription: string | null;
  conversationId: string | null;
  originatorConversationId: string | null;
  /** The receipt of the transaction asked about; null when it is not told. */
  receipt: string | null;
  /** M-PESA's word, such as `Completed`; null when it is not told. */
  status: string | null;
  /** Cents; null when it is not told. */
  transactionCents: number | null;
  finishedAt: Date | null;
  /** Of the request that made the transaction asked about; null when it is not told. */
  subjectConversationId: string | null;
}

/**
 * Reads the body that came to the result or the time-out address of a status request. Never throws.
 * @param text the body as it came
 */
export function readTransactionStatus(text: string): TransactionStatus {
  const { parameters, receipt: _, ...result } = readConversationResult(text);
  return {
    answered: result.resultCode === '0',
    ...result,
    receipt: storableText(parameters.ReceiptNo, 40)?.trim() || null,
    status: storableText(parameters.TransactionStatus, 100)?.trim() || null,
    transactionCents: centsOf(parameters.Amount),
    finishedAt: readDarajaTime(parameters.FinalisedTime),
    subjectConversationId: storableText(parameters.OriginatorConversationID, 200)?.trim() || null,
  };
}
