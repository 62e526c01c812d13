// Queries M-PESA for the state of open payments whose callback has not arrived.
import { isOpenAttempt } from '../../../../domain/mpesa/payment-result.ts';
import { adviseOnResult } from '../../../../domain/mpesa/result-advice.ts';
import type { MobileMoneyContext } from '../context.ts';
import { queryPush } from '../daraja/stk-query.ts';
import type { Payment } from '../database/client.ts';

const DEFAULT_QUERIES_PER_MINUTE = 5;
/** The caller's job runs every three seconds. */
const CALLS_PER_MINUTE = 20;

/**
 * Queries the payments that are due: one per call, or more if M-PESA allows more queries than there are calls.
 * @returns how many were queried, and how many of them are no longer open
 * @throws DatabaseUnavailable, after all queries
 */
export async function queryOpenPayments(
  context: MobileMoneyContext,
): Promise<{ queried: number; settled: number }> {
  const perMinute = context.daraja.settings.queriesPerMinute ?? DEFAULT_QUERIES_PER_MINUTE;
  const atMost = Math.max(Math.floor(perMinute / CALLS_PER_MINUTE), 1);
  const due = await context.payments.leaseQueries(atMost, perMinute);
  const queries = await Promise.allSettled(due.map((payment) => query(context, payment)));
  const failure = queries.find(({ status }) => status === 'rejected');
  if (failure) throw (failure as PromiseRejectedResult).reason;
  return {
    queried: due.length,
    settled: queries.filter((one) => one.status === 'fulfilled' && one.value).length,
  };
}

/** Returns whether the payment is no longer open. */
async function query(context: MobileMoneyContext, payment: Payment): Promise<boolean> {
  if (!payment.checkout_request_id) return false;
  const answer = await queryPush(context.daraja, payment.checkout_request_id);
  if (answer.body === null) {
    context.log({ level: 'warn', event: 'query unanswered', paymentId: payment.id });
    return false;
  }
  const { outcome, payment: after } = await context.payments.settle({
    payment_id: payment.id,
    source: 'query',
    body: answer.body,
    result: answer.result,
    result_code: answer.resultCode,
    result_description: answer.resultDescription,
    ...(answer.receivedCents === null ? {} : { received_cents: answer.receivedCents }),
    ...(answer.receipt === null ? {} : { receipt: answer.receipt }),
    unreadable: answer.unreadable,
    ...(answer.result === 'failed'
      ? { ended_by: adviseOnResult(answer.resultCode, answer.resultDescription).endedBy }
      : {}),
    merchant_request_id: answer.merchantRequestId,
    checkout_request_id: answer.checkoutRequestId,
  });
  context.log({ level: 'info', event: 'query answered', paymentId: payment.id, detail: outcome });
  return !isOpenAttempt(after.status);
}
