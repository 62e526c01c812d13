// Asks M-PESA about open attempts whose notice has not come: as many per call as may be asked until the next one.
import type { Payment } from './payment-store.ts';
import { queryPush } from './stk-query.ts';
import type { MobileMoneyWorld } from './world.ts';

const LEAST_PER_MINUTE = 5;
/** The caller comes every three seconds. */
const CALLS_PER_MINUTE = 20;

/**
 * Asks about the attempts that are due: one, unless M-PESA lets this merchant ask more often than calls come.
 * @returns how many were asked about, and how many of them are no longer open; throws StoreFailure, after all of them
 *   were asked about
 */
export async function queryOpenPayments(
  world: MobileMoneyWorld,
): Promise<{ asked: number; settled: number }> {
  const due = await world.store.leaseQueries(...queryLimits(world));
  const asked = await Promise.allSettled(due.map((payment) => askAbout(world, payment)));
  const failure = asked.find((one) => one.status === 'rejected');
  if (failure) throw failure.reason;
  return {
    asked: due.length,
    settled: asked.filter((one) => one.status === 'fulfilled' && one.value).length,
  };
}

/** How many questions may be asked at one call, and how many a minute. */
function queryLimits(world: MobileMoneyWorld): [atMost: number, perMinute: number] {
  const perMinute = world.daraja.settings.queriesPerMinute ?? LEAST_PER_MINUTE;
  return [Math.max(Math.floor(perMinute / CALLS_PER_MINUTE), 1), perMinute];
}

/** Whether the attempt is no longer open. */
async function askAbout(world: MobileMoneyWorld, payment: Payment): Promise<boolean> {
  if (!payment.checkout_request_id) return false;
  const answer = await queryPush(world.daraja, payment.checkout_request_id);
  if (answer.body === null) {
    world.log({ level: 'warn', event: 'query unanswered', paymentId: payment.id });
    return false;
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
  world.log({ level: 'info', event: 'query answered', paymentId: payment.id, detail: outcome });
  return after.status !== 'initiating' && after.status !== 'processing';
}
