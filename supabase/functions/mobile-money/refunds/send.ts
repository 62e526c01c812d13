// Sends the refunds that staff approved, each once, and queries M-PESA about those without a result.
import { callbackUrlFor } from '../callback-urls.ts';
import type { MobileMoneyContext } from '../context.ts';
import type { InitiatedRequest } from '../daraja/initiated-request.ts';
import { reverse } from '../daraja/reversal.ts';
import { requestTransactionStatus } from '../daraja/transaction-status.ts';
import { withRetries } from '../database/client.ts';
import type { RefundJob } from '../database/refunds.ts';

/** A process that is killed leaves one leased refund, and M-PESA receives no burst. */
const LEASE_SIZE = 1;
const MAX_PER_CALL = 5;

/**
 * Processes the due refunds one by one. Without an initiator none is sent: they stay approved.
 * @returns how many were sent and how many queried
 * @throws DatabaseUnavailable
 */
export async function sendRefunds(context: MobileMoneyContext): Promise<{ sent: number; queried: number }> {
  const done = { sent: 0, queried: 0 };
  if (!context.daraja.settings.initiator) return done;
  while (done.sent + done.queried < MAX_PER_CALL) {
    const [work] = await context.refunds.lease(LEASE_SIZE);
    if (!work) break;
    const answer = work.work === 'send' ? await send(context, work) : await query(context, work);
    done[work.work === 'send' ? 'sent' : 'queried'] += 1;
    // If M-PESA is busy or unavailable, the others wait for the next call.
    if (answer !== 'accepted') break;
  }
  return done;
}

async function send(
  context: MobileMoneyContext,
  { refund, secret }: RefundJob,
): Promise<InitiatedRequest['kind']> {
  const base = `${callbackUrlFor(context.callbackBaseUrl(), 'reversal')}/${secret}`;
  const answer = await reverse(context.daraja, {
    receipt: refund.receipt ?? '',
    refundCents: refund.refund_cents,
    resultUrl: `${base}/result`,
    timeoutUrl: `${base}/timeout`,
    remarks: 'Refund of an order',
  });
  log(context, 'refund', refund.id, answer);
  const push = {
    refund_id: refund.id,
    body: answer.body,
    ...(answer.kind === 'accepted'
      ? {
          conversation_id: answer.conversationId,
          originator_conversation_id: answer.originatorConversationId,
        }
      : {}),
    ...(answer.kind === 'refused'
      ? { refusal_code: answer.code, refusal_description: answer.description }
      : {}),
  };
  // If this cannot be recorded, the lease expires: the refund is then queried, not sent again.
  await withRetries(() => context.refunds.recordPush(push));
  return answer.kind;
}

async function query(
  context: MobileMoneyContext,
  { refund, secret }: RefundJob,
): Promise<InitiatedRequest['kind']> {
  const base = `${callbackUrlFor(context.callbackBaseUrl(), 'reversal')}/${secret}`;
  const timeoutUrl = `${base}/timeout`;
  // The status of the payment shows whether anyone has reversed it; that of the reversal whether it was carried out. Queried
  // alternately, as M-PESA may answer only one of the two.
  const ofReversal =
    refund.result_code === 'R000001' || refund.check_count % 2 === 1
      ? null
      : refund.originator_conversation_id;
  const answer = await requestTransactionStatus(
    context.daraja,
    ofReversal
      ? { originatorConversationId: ofReversal, resultUrl: `${base}/outcome`, timeoutUrl }
      : { receipt: refund.receipt ?? '', resultUrl: `${base}/status`, timeoutUrl },
  );
  log(context, 'refund query', refund.id, answer);
  return answer.kind;
}

function log(context: MobileMoneyContext, what: string, refundId: string, answer: InitiatedRequest): void {
  const detail =
    answer.kind === 'accepted'
      ? refundId
      : `${refundId} ${answer.kind === 'refused' ? `${answer.code} ${answer.description}` : answer.reason}`;
  context.log({
    level: answer.kind === 'accepted' ? 'info' : 'warn',
    event: `${what} ${answer.kind}`,
    detail,
  });
}
