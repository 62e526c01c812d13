// Sends refunds that staff have agreed on, each once, and asks M-PESA about those of which nothing is known.
import { addressFor } from './addresses.ts';
import type { InitiatedRequest } from './initiated-request.ts';
import { insistently } from './notice.ts';
import type { RefundWork } from './refund-store.ts';
import { reverse } from './reversal.ts';
import { askTransactionStatus } from './transaction-status.ts';
import type { MobileMoneyWorld } from './world.ts';

/** A process that dies has one in its hands, and M-PESA gets no burst. */
const AT_A_TIME = 1;
const AT_MOST = 5;

/**
 * Does the work there is for refunds, one after the other. Without an initiator nothing is sent: it stays agreed on.
 * @returns how many were sent and how many asked about; throws StoreFailure
 */
export async function sendRefunds(world: MobileMoneyWorld): Promise<{ sent: number; asked: number }> {
  const done = { sent: 0, asked: 0 };
  if (!world.daraja.settings.initiator) return done;
  while (done.sent + done.asked < AT_MOST) {
    const [work] = await world.refunds.lease(AT_A_TIME);
    if (!work) break;
    const answer = work.work === 'send' ? await send(world, work) : await ask(world, work);
    done[work.work === 'send' ? 'sent' : 'asked'] += 1;
    // Where M-PESA is busy or away, the others wait for the next turn.
    if (answer !== 'accepted') break;
  }
  return done;
}

async function send(
  world: MobileMoneyWorld,
  { refund, secret }: RefundWork,
): Promise<InitiatedRequest['kind']> {
  const base = `${addressFor(world.noticeBaseUrl(), 'reversal')}/${secret}`;
  const answer = await reverse(world.daraja, {
    receipt: refund.receipt ?? '',
    refundCents: refund.refund_cents,
    resultUrl: `${base}/result`,
    timeoutUrl: `${base}/timeout`,
    remarks: 'Refund of an order',
  });
  log(world, 'refund', refund.id, answer);
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
  // What cannot be written down is found by the lease that runs out: it is asked about, not sent again.
  await insistently(() => world.refunds.recordPush(push));
  return answer.kind;
}

async function ask(
  world: MobileMoneyWorld,
  { refund, secret }: RefundWork,
): Promise<InitiatedRequest['kind']> {
  const base = `${addressFor(world.noticeBaseUrl(), 'reversal')}/${secret}`;
  const timeoutUrl = `${base}/timeout`;
  // The status of the money that came in tells whether it went back, whoever sent it; that of the reversal whether it was
  // carried out, whatever the money is called since. In turns, since either may be what M-PESA answers.
  const ofReversal =
    refund.result_code === 'R000001' || refund.check_count % 2 === 1
      ? null
      : refund.originator_conversation_id;
  const answer = await askTransactionStatus(
    world.daraja,
    ofReversal
      ? { originatorConversationId: ofReversal, resultUrl: `${base}/outcome`, timeoutUrl }
      : { receipt: refund.receipt ?? '', resultUrl: `${base}/status`, timeoutUrl },
  );
  log(world, 'question about a refund', refund.id, answer);
  return answer.kind;
}

function log(world: MobileMoneyWorld, what: string, refundId: string, answer: InitiatedRequest): void {
  const detail =
    answer.kind === 'accepted'
      ? refundId
      : `${refundId} ${answer.kind === 'refused' ? `${answer.code} ${answer.description}` : answer.reason}`;
  world.log({ level: answer.kind === 'accepted' ? 'info' : 'warn', event: `${what} ${answer.kind}`, detail });
}
