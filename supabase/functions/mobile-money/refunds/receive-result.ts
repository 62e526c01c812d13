// Results of refunds: each is stored as received, then settled.

import { unknownUrl } from '../callback-urls.ts';
import type { MobileMoneyContext } from '../context.ts';
import { flagUnknownSource } from '../daraja/known-sources.ts';
import { type ReversalResult, readReversalResult } from '../daraja/reversal.ts';
import { readTransactionStatus } from '../daraja/transaction-status.ts';
import { ProcedureError, withRetries } from '../database/client.ts';
import type { RefundSettlement } from '../database/refunds.ts';
import { readText, storableText } from '../request-body.ts';

const MAX_CALLBACK_BYTES = 64 * 1024;

/**
 * The callback URL of a refund: the reversal's result or time-out, a status query about the payment (status) or about the
 * reversal (outcome).
 */
type RefundResultKind = 'result' | 'timeout' | 'status' | 'outcome';

const settlementResults: Record<ReversalResult['outcome'], RefundSettlement['result']> = {
  reversed: 'succeeded',
  'already reversed': 'already_reversed',
  failed: 'failed',
  unknown: 'pending',
};

/**
 * Receives a callback at a secret URL of a refund. The URL is the only proof of its sender.
 * @returns as `receiveCallback`: 200 once it is stored, whatever its contents; 404 for an unknown URL; 413 when it is too
 *   large; 503 when it could not be stored
 */
export async function receiveRefundResult(
  context: MobileMoneyContext,
  request: Request,
  secret: string,
  kind: RefundResultKind,
): Promise<Response> {
  try {
    const address = context.callerAddress(request);
    const refundId = await withRetries(() => context.refunds.findBySecret(secret, address));
    if (!refundId) return unknownUrl();
    flagUnknownSource(context, address, 'refund callback');
    const { text, isCut } = await readText(request, MAX_CALLBACK_BYTES);
    const settlement = {
      refund_id: refundId,
      body: storableText(text, MAX_CALLBACK_BYTES) ?? '',
      source_address: address,
      ...read(kind, isCut ? '' : text),
    };
    const { outcome } = await withRetries(() => context.refunds.settle(settlement));
    const isExpected = ['completed', 'already_completed', 'failed', 'pending'].includes(outcome);
    context.log({
      level: isExpected ? 'info' : 'warn',
      event: `refund ${kind} received`,
      detail: `${refundId} ${outcome}`,
    });
    if (isCut) return Response.json({ ResultCode: 1, ResultDesc: 'Too large' }, { status: 413 });
    return Response.json({ ResultCode: 0, ResultDesc: 'Accepted' });
  } catch (error) {
    if (error instanceof ProcedureError && error.status === 404) return unknownUrl();
    context.log({ level: 'error', event: `refund ${kind} not stored`, detail: String(error) });
    return Response.json({ ResultCode: 1, ResultDesc: 'Try again later' }, { status: 503 });
  }
}

function read(
  kind: RefundResultKind,
  text: string,
): Omit<RefundSettlement, 'refund_id' | 'body' | 'source_address'> {
  if (kind === 'timeout') return { source: 'reversal_timeout', result: 'pending' };
  if (kind === 'status' || kind === 'outcome') {
    const status = readTransactionStatus(text);
    // The time decides nothing.
    const unreadable = status.unreadable.filter((part) => part !== 'time');
    const statusText = status.answered ? (status.status ?? '').trim() : '';
    const isCompleted = /^completed$/i.test(statusText);
    // Only with the reversal's own receipt does `Completed` refer to the reversal. The database compares the amount.
    const isOfReversal = isCompleted && status.receipt !== null;
    const answer = {
      source: 'status_result' as const,
      result_code: status.resultCode,
      result_description: status.status ?? status.resultDescription,
      unreadable,
    };
    // Any other status is inconclusive.
    return kind === 'status'
      ? {
          ...answer,
          result: /^reversed$/i.test(statusText) ? 'succeeded' : isCompleted ? 'not_reversed' : 'pending',
        }
      : {
          ...answer,
          result: isOfReversal ? 'succeeded' : 'pending',
          refund_receipt: isOfReversal ? status.receipt : null,
          refund_cents: isOfReversal ? status.transactionCents : null,
          originator_conversation_id: status.subjectConversationId,
        };
  }
  const result = readReversalResult(text);
  return {
    source: 'reversal_result',
    result: settlementResults[result.outcome],
    result_code: result.resultCode,
    result_description: result.resultDescription,
    refund_receipt: result.receipt,
    refund_cents: result.refundCents,
    originator_conversation_id: result.originatorConversationId,
    unreadable: result.unreadable,
  };
}
