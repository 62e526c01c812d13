// "Test with KSh 1": a prompt to a member's own phone, followed to its end like a payment, but of no order.
import { normalisePhone } from '../../../domain/phone.ts';
import { addressFor } from './addresses.ts';
import type { Fields } from './json-body.ts';
import { readText, storableText } from './json-body.ts';
import { insistently } from './notice.ts';
import { StoreRefusal } from './payment-store.ts';
import { queryLimits } from './query-open.ts';
import type { PaymentTest } from './refund-store.ts';
import { drawNoticeSecret, isNoticeSecret } from './secret.ts';
import { flagUnknownSource } from './source-address.ts';
import { readStkCallback } from './stk-callback.ts';
import { sendPush } from './stk-push.ts';
import { queryPush } from './stk-query.ts';
import type { MobileMoneyWorld } from './world.ts';

const LARGEST_NOTICE_BYTES = 64 * 1024;
/** What the phone shows, and what a confirmation of the money names: no order's number. */
const REFERENCE = 'TEST';

/**
 * Prompts a phone for KSh 1.
 * @param fields `phoneNumber`
 * @param member who asks
 * @returns `{test}`, or `{error, code}` with a sentence; throws StoreFailure
 */
export async function startPaymentTest(
  world: MobileMoneyWorld,
  fields: Fields,
  member: string,
): Promise<{ test: PaymentTest } | { error: string; code: string }> {
  const phone = typeof fields.phoneNumber === 'string' ? normalisePhone(fields.phoneNumber) : null;
  if (!phone) return { error: 'Please enter a valid phone number', code: 'phone_invalid' };
  const noticeSecret = drawNoticeSecret();
  let test: PaymentTest;
  try {
    test = await world.refunds.beginTest({ phone, noticeSecret, requestedBy: member });
  } catch (problem) {
    if (problem instanceof StoreRefusal) return { error: problem.message, code: problem.code };
    throw problem;
  }
  const outcome = await sendPush(world.daraja, {
    phone,
    chargeCents: test.charge_cents,
    trackingNumber: REFERENCE,
    noticeUrl: `${addressFor(world.noticeBaseUrl(), 'check')}/${noticeSecret}`,
  });
  world.log({ level: 'info', event: `test prompt ${outcome.kind}`, detail: test.id });
  const push = {
    test_id: test.id,
    body: outcome.body,
    ...(outcome.kind === 'accepted'
      ? { merchant_request_id: outcome.merchantRequestId, checkout_request_id: outcome.checkoutRequestId }
      : {}),
    ...(outcome.kind === 'refused'
      ? { refusal_code: outcome.code, refusal_description: outcome.description }
      : {}),
  };
  return { test: await insistently(() => world.refunds.recordTestPush(push)) };
}

/**
 * Takes M-PESA's notice about a test, at its secret address.
 * @returns as `receiveNotice`
 */
export async function receiveTestNotice(
  world: MobileMoneyWorld,
  request: Request,
  secret: string,
): Promise<Response> {
  if (!isNoticeSecret(secret)) return unknownAddress();
  try {
    const testId = await insistently(() => world.refunds.findTestBySecret(secret));
    if (!testId) return unknownAddress();
    const sender = await world.senderOf(request);
    flagUnknownSource(world, sender, 'test notice');
    const { text, isCut } = await readText(request, LARGEST_NOTICE_BYTES);
    const notice = readStkCallback(isCut ? '' : text);
    const settlement = {
      test_id: testId,
      source: 'notice',
      body: storableText(text, LARGEST_NOTICE_BYTES) ?? '',
      verdict: notice.verdict,
      result_code: notice.resultCode,
      result_description: notice.resultDescription,
      received_cents: notice.receivedCents,
      receipt: notice.receipt,
      merchant_request_id: notice.merchantRequestId,
      checkout_request_id: notice.checkoutRequestId,
      source_address: sender,
    };
    const { outcome } = await insistently(() => world.refunds.settleTest(settlement));
    world.log({ level: 'info', event: 'test notice taken', detail: `${testId} ${outcome}` });
    if (isCut) return Response.json({ ResultCode: 1, ResultDesc: 'Too large' }, { status: 413 });
    return Response.json({ ResultCode: 0, ResultDesc: 'Accepted' });
  } catch (problem) {
    if (problem instanceof StoreRefusal && problem.status === 404) return unknownAddress();
    world.log({ level: 'error', event: 'test notice not stored', detail: String(problem) });
    return Response.json({ ResultCode: 1, ResultDesc: 'Try again later' }, { status: 503 });
  }
}

/**
 * Asks M-PESA about a test whose notice has not come.
 * @returns how many were asked about; throws StoreFailure
 */
export async function queryOpenTests(world: MobileMoneyWorld): Promise<number> {
  const due = await world.refunds.leaseTestQueries(...queryLimits(world));
  for (const test of due) {
    const answer = await queryPush(world.daraja, test.checkout_request_id ?? '');
    if (answer.body === null) continue;
    await world.refunds.settleTest({
      test_id: test.id,
      source: 'query',
      body: answer.body,
      verdict: answer.verdict,
      result_code: answer.resultCode,
      result_description: answer.resultDescription,
      merchant_request_id: answer.merchantRequestId,
      checkout_request_id: answer.checkoutRequestId,
    });
  }
  return due.length;
}

function unknownAddress(): Response {
  return Response.json({ error: 'Not found' }, { status: 404 });
}
