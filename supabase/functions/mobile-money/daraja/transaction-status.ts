// Status queries about payments and reversals, and their results.

import { storableText } from '../request-body.ts';
import type { DarajaClient } from './connection/client.ts';
import { readMoneyFields, type UnreadablePart } from './fields/money-fields.ts';
import { type InitiatedRequest, readConversationResult, requestAsInitiator } from './initiated-request.ts';

const STATUS_PATH = '/mpesa/transactionstatus/v1/query';

export type StatusRequest = (
  | { receipt: string }
  /** Originator's conversation id of a request without a known receipt, as returned by `reverse`. */
  | { originatorConversationId: string }
) & {
  resultUrl: string;
  timeoutUrl: string;
  remarks?: string;
};

/** Requests the status of a transaction (Daraja, Transaction Status). Never throws; can be repeated. */
export function requestTransactionStatus(
  daraja: DarajaClient,
  question: StatusRequest,
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

/** The status of a transaction; `answered` is false if the result is inconclusive. */
export interface TransactionStatus {
  answered: boolean;
  resultCode: string | null;
  resultDescription: string | null;
  conversationId: string | null;
  originatorConversationId: string | null;
  /** The receipt of the queried transaction; null if missing. */
  receipt: string | null;
  /** M-PESA's text, such as `Completed`; null if missing. */
  status: string | null;
  /** Cents; null if missing. */
  transactionCents: number | null;
  finishedAt: Date | null;
  /** Conversation id of the request that made the queried transaction; null if missing. */
  subjectConversationId: string | null;
  /** Parts that the body has and that cannot be read. */
  unreadable: UnreadablePart[];
}

/**
 * Reads the body of a status query's result or time-out callback. Never throws.
 * @param text the body as received
 */
export function readTransactionStatus(text: string): TransactionStatus {
  const { parameters, transactionId: _, ...result } = readConversationResult(text);
  const money = readMoneyFields({
    receipt: parameters.ReceiptNo,
    amount: parameters.Amount,
    time: parameters.FinalisedTime,
  });
  return {
    answered: result.resultCode === '0',
    ...result,
    receipt: money.receipt,
    status: storableText(parameters.TransactionStatus, 100)?.trim() || null,
    transactionCents: money.cents,
    finishedAt: money.at,
    unreadable: money.unreadable,
    subjectConversationId: storableText(parameters.OriginatorConversationID, 200)?.trim() || null,
  };
}
