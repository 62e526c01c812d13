// M-PESA's notice about one attempt: stored as it came, then settled.
import { readText, storableText } from './json-body.ts';
import { StoreFailure, StoreRefusal } from './payment-store.ts';
import { isNoticeSecret } from './secret.ts';
import { flagUnknownSource } from './source-address.ts';
import { readStkCallback } from './stk-callback.ts';
import type { MobileMoneyWorld } from './world.ts';

const LARGEST_NOTICE_BYTES = 64 * 1024;
const TAKEN_UP_AT_ONCE = 50;
/** M-PESA waits about five seconds for its answer. */
const PAUSES_MS = [100, 400, 1500];

/**
 * Takes a notice that came to the secret address of an attempt. The address is the only proof of its sender.
 * @returns 200 once it is stored, whatever it says; 404 for an address that was never given out; 413 when it is too
 *   large to be one; 503 when it could not be stored, so that it can be sent again
 */
export async function receiveNotice(
  world: MobileMoneyWorld,
  request: Request,
  noticeSecret: string,
): Promise<Response> {
  if (!isNoticeSecret(noticeSecret)) return unknownAddress();
  let paymentId: string | null = null;
  try {
    const sender = await world.senderOf(request);
    paymentId = await insistently(() => world.store.findBySecret(noticeSecret, sender));
    if (!paymentId) return unknownAddress();
    flagUnknownSource(world, sender, 'notice');
    const { text, isCut } = await readText(request, LARGEST_NOTICE_BYTES);
    const body = storableText(text, LARGEST_NOTICE_BYTES) ?? '';
    const outcome = await settleOrKeep(world, paymentId, body, isCut, sender);
    const isOdd = [
      'other_request',
      'wrong_amount',
      'receipt_replayed',
      'needs_review',
      'pending',
      'goes_back',
      'fault',
    ].includes(outcome);
    world.log({ level: isOdd ? 'warn' : 'info', event: 'notice taken', paymentId, detail: outcome });
    if (isCut) return Response.json({ ResultCode: 1, ResultDesc: 'Too large' }, { status: 413 });
    return Response.json({ ResultCode: 0, ResultDesc: 'Accepted' });
  } catch (problem) {
    if (problem instanceof StoreRefusal && problem.status === 404) return unknownAddress();
    world.log({
      level: 'error',
      event: 'notice not stored',
      ...(paymentId ? { paymentId } : {}),
      detail: String(problem),
    });
    return Response.json({ ResultCode: 1, ResultDesc: 'Try again later' }, { status: 503 });
  }
}

/** Settles a notice; one that cannot be settled is kept alone, for M-PESA does not tell it again. */
async function settleOrKeep(
  world: MobileMoneyWorld,
  paymentId: string,
  body: string,
  isCut: boolean,
  sender: string | null,
): Promise<string> {
  try {
    return (
      await insistently(() => world.store.settle(settlementOf(paymentId, isCut ? '' : body, body, sender)))
    ).outcome;
  } catch (problem) {
    if (problem instanceof StoreRefusal && problem.status === 404) throw problem;
    await world.store.keepFailed(paymentId, body, sender);
    world.log({ level: 'error', event: 'notice kept but not settled', paymentId, detail: String(problem) });
    return 'fault';
  }
}

function settlementOf(paymentId: string, text: string, body: string, sender: string | null) {
  const notice = readStkCallback(text);
  return {
    payment_id: paymentId,
    source: 'notice',
    body,
    verdict: notice.verdict,
    result_code: notice.resultCode,
    result_description: notice.resultDescription,
    received_cents: notice.receivedCents,
    receipt: notice.receipt,
    merchant_request_id: notice.merchantRequestId,
    checkout_request_id: notice.checkoutRequestId,
    source_address: sender,
  };
}

/**
 * Settles notices that were kept while something kept them from being settled.
 * @returns how many there were, and how many are settled now; throws StoreFailure
 */
export async function takeUpFailedNotices(
  world: MobileMoneyWorld,
): Promise<{ found: number; taken: number }> {
  const left = await world.store.failedNotices(TAKEN_UP_AT_ONCE);
  let taken = 0;
  for (const { id, paymentId, body } of left) {
    try {
      const { outcome } = await world.store.settle(settlementOf(paymentId, body, body, null));
      await world.store.finishFailed(id);
      world.log({ level: 'info', event: 'kept notice settled', paymentId, detail: outcome });
      taken += 1;
    } catch (problem) {
      world.log({ level: 'error', event: 'kept notice not settled', paymentId, detail: String(problem) });
    }
  }
  return { found: left.length, taken };
}

/**
 * A notice comes once: a database that is away for a moment, or gave way to another transaction, is asked again.
 * @param ask asks the database; throws StoreFailure when it could not be asked
 */
export async function insistently<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  for (const pauseMs of PAUSES_MS) {
    try {
      return await ask();
    } catch (problem) {
      if (!(problem instanceof StoreFailure)) throw problem;
      await new Promise((done) => setTimeout(done, pauseMs));
    }
  }
  return ask();
}

function unknownAddress(): Response {
  return Response.json({ error: 'Not found' }, { status: 404 });
}
