// What M-PESA tells of a refund: stored as it came, then settled.
import { readText, storableText } from './json-body.ts';
import { insistently } from './notice.ts';
import { StoreRefusal } from './payment-store.ts';
import { readReversalResult } from './reversal.ts';
import { isNoticeSecret } from './secret.ts';
import { flagUnknownSource } from './source-address.ts';
import { readTransactionStatus } from './transaction-status.ts';
import type { MobileMoneyWorld } from './world.ts';

const LARGEST_NOTICE_BYTES = 64 * 1024;

/**
 * Which of a refund's addresses it came to: of the reversal itself, or of a question about the money that came in (status)
 * or about the reversal (outcome).
 */
export type RefundNotice = 'result' | 'timeout' | 'status' | 'outcome';

const verdicts = {
  reversed: 'succeeded',
  'already reversed': 'already_reversed',
  failed: 'failed',
  unknown: 'pending',
} as const;

/**
 * Takes what came to a secret address of a refund. The address is the only proof of its sender.
 * @returns as `receiveNotice`: 200 once it is stored, whatever it says; 404 for an address that was never given out; 503
 *   when it could not be stored
 */
export async function receiveRefundNotice(
  world: MobileMoneyWorld,
  request: Request,
  secret: string,
  kind: RefundNotice,
): Promise<Response> {
  if (!isNoticeSecret(secret)) return unknownAddress();
  try {
    const sender = await world.senderOf(request);
    const refundId = await insistently(() => world.refunds.findBySecret(secret, sender));
    if (!refundId) return unknownAddress();
    flagUnknownSource(world, sender, 'refund notice');
    const { text, isCut } = await readText(request, LARGEST_NOTICE_BYTES);
    const settlement = {
      refund_id: refundId,
      body: storableText(text, LARGEST_NOTICE_BYTES) ?? '',
      source_address: sender,
      ...read(kind, isCut ? '' : text),
    };
    const { outcome } = await insistently(() => world.refunds.settle(settlement));
    const isExpected = ['completed', 'already_completed', 'failed', 'pending'].includes(outcome);
    world.log({
      level: isExpected ? 'info' : 'warn',
      event: `refund ${kind} taken`,
      detail: `${refundId} ${outcome}`,
    });
    if (isCut) return Response.json({ ResultCode: 1, ResultDesc: 'Too large' }, { status: 413 });
    return Response.json({ ResultCode: 0, ResultDesc: 'Accepted' });
  } catch (problem) {
    if (problem instanceof StoreRefusal && problem.status === 404) return unknownAddress();
    world.log({ level: 'error', event: `refund ${kind} not stored`, detail: String(problem) });
    return Response.json({ ResultCode: 1, ResultDesc: 'Try again later' }, { status: 503 });
  }
}

function read(kind: RefundNotice, text: string) {
  if (kind === 'timeout') return { source: 'reversal_timeout', verdict: 'pending' };
  if (kind === 'status' || kind === 'outcome') {
    const told = readTransactionStatus(text);
    const word = told.answered ? (told.status ?? '') : '';
    const isCompleted = /^completed$/i.test(word.trim());
    // Only the reversal's own receipt and amount tell that it is the reversal that is completed.
    const isOfReversal = isCompleted && told.receipt !== null && told.transactionCents !== null;
    const answer = {
      source: 'status_result',
      result_code: told.resultCode,
      result_description: told.status ?? told.resultDescription,
    };
    // Any other word decides nothing.
    return kind === 'status'
      ? {
          ...answer,
          verdict: /^reversed$/i.test(word.trim()) ? 'succeeded' : isCompleted ? 'not_reversed' : 'pending',
        }
      : {
          ...answer,
          verdict: isOfReversal ? 'succeeded' : 'pending',
          refund_receipt: isOfReversal ? told.receipt : null,
          refund_cents: isOfReversal ? told.transactionCents : null,
          originator_conversation_id: told.subjectConversationId,
        };
  }
  const result = readReversalResult(text);
  return {
    source: 'reversal_result',
    verdict: verdicts[result.verdict],
    result_code: result.resultCode,
    result_description: result.resultDescription,
    refund_receipt: result.receipt,
    refund_cents: result.refundCents,
    originator_conversation_id: result.originatorConversationId,
  };
}

function unknownAddress(): Response {
  return Response.json({ error: 'Not found' }, { status: 404 });
}
