// Asks M-PESA about an open attempt whose notice has not come: one per call, so that the caller's interval is the limit.
import { isSameSecret } from './secret.ts';
import { queryPush } from './stk-query.ts';
import type { MobileMoneyWorld } from './world.ts';

/**
 * Asks about the attempt that is due, if there is one.
 * @returns how many were asked about, and how many of them are no longer open; throws StoreFailure
 */
export async function queryOpenPayments(
  world: MobileMoneyWorld,
): Promise<{ asked: number; settled: number }> {
  const due = await world.store.leaseQueries(1);
  let settled = 0;
  for (const payment of due) {
    if (!payment.checkout_request_id) continue;
    const answer = await queryPush(world.daraja, payment.checkout_request_id);
    if (answer.body === null) {
      world.log({ level: 'warn', event: 'query unanswered', paymentId: payment.id });
      continue;
    }
    const { outcome, payment: after } = await world.store.settle({
      payment_id: payment.id,
      source: 'query',
      body: answer.body,
      verdict: answer.verdict,
      result_code: answer.resultCode,
      result_description: answer.resultDescription,
      merchant_request_id: answer.merchantRequestId,
      checkout_request_id: answer.checkoutRequestId,
    });
    if (after.status !== 'initiating' && after.status !== 'processing') settled += 1;
    world.log({ level: 'info', event: 'query answered', paymentId: payment.id, detail: outcome });
  }
  return { asked: due.length, settled };
}

/** Whether a request carries the secret key, as `apikey` or as bearer token. */
export async function carriesSecretKey(request: Request, secretKey: string): Promise<boolean> {
  const bearer = /^Bearer\s+(\S+)$/i.exec(request.headers.get('authorization') ?? '')?.[1] ?? '';
  const [byKey, byBearer] = await Promise.all([
    isSameSecret(request.headers.get('apikey') ?? '', secretKey),
    isSameSecret(bearer, secretKey),
  ]);
  return secretKey !== '' && (byKey || byBearer);
}
