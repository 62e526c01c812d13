// STK callbacks: each is stored as received, then settled.

import { adviseOnResult } from '../../../../domain/result-advice.ts';
import { unknownUrl } from '../callback-urls.ts';
import type { MobileMoneyContext } from '../context.ts';
import { flagUnknownSource } from '../daraja/known-sources.ts';
import { readStkCallback } from '../daraja/stk-callback.ts';
import { ProcedureError, withRetries } from '../database/client.ts';
import { readText, storableText } from '../request-body.ts';
import { isCallbackSecret } from '../secrets.ts';

const MAX_CALLBACK_BYTES = 64 * 1024;
const BATCH_SIZE = 50;

// Outcomes of the settlement that staff or the owner should know about.
const outcomesToCheck = new Set([
  'other_request',
  'wrong_amount',
  'contradiction',
  'receipt_replayed',
  'needs_review',
  'pending',
  'goes_back',
  'error',
]);

/**
 * Receives a callback at the secret URL of a payment. The URL is the only proof of its sender.
 * @returns 200 once it is stored, whatever its contents; 404 for an unknown URL; 413 when it is too large; 503 when it
 *   could not be stored. M-PESA may repeat a callback, or not: queries find its result in any case
 */
export async function receiveCallback(
  context: MobileMoneyContext,
  request: Request,
  callbackSecret: string,
): Promise<Response> {
  if (!isCallbackSecret(callbackSecret)) return unknownUrl();
  let paymentId: string | null = null;
  try {
    const address = await context.callerAddress(request);
    paymentId = await withRetries(() => context.payments.findBySecret(callbackSecret, address));
    if (!paymentId) return unknownUrl();
    flagUnknownSource(context, address, 'callback');
    const { text, isCut } = await readText(request, MAX_CALLBACK_BYTES);
    const body = storableText(text, MAX_CALLBACK_BYTES) ?? '';
    const outcome = await settleOrStore(context, paymentId, body, isCut, address);
    const level = outcomesToCheck.has(outcome) ? 'warn' : 'info';
    context.log({ level, event: 'callback received', paymentId, detail: outcome });
    if (isCut) return Response.json({ ResultCode: 1, ResultDesc: 'Too large' }, { status: 413 });
    return Response.json({ ResultCode: 0, ResultDesc: 'Accepted' });
  } catch (error) {
    if (error instanceof ProcedureError && error.status === 404) return unknownUrl();
    context.log({
      level: 'error',
      event: 'callback not stored',
      ...(paymentId ? { paymentId } : {}),
      detail: String(error),
    });
    return Response.json({ ResultCode: 1, ResultDesc: 'Try again later' }, { status: 503 });
  }
}

/** Settles a callback. If that fails, it is only stored: a job settles it later. */
async function settleOrStore(
  context: MobileMoneyContext,
  paymentId: string,
  body: string,
  isCut: boolean,
  address: string | null,
): Promise<string> {
  const settlement = settlementOf(paymentId, isCut ? '' : body, body, address);
  try {
    return (await withRetries(() => context.payments.settle(settlement))).outcome;
  } catch (error) {
    if (error instanceof ProcedureError && error.status === 404) throw error;
    await context.payments.storeFailedCallback(paymentId, body, address);
    context.log({
      level: 'error',
      event: 'callback stored but not settled',
      paymentId,
      detail: String(error),
    });
    return 'error';
  }
}

function settlementOf(paymentId: string, text: string, body: string, address: string | null) {
  const callback = readStkCallback(text);
  return {
    payment_id: paymentId,
    source: 'callback',
    body,
    result: callback.result,
    result_code: callback.resultCode,
    result_description: callback.resultDescription,
    ...(callback.result === 'failed'
      ? { ended_by: adviseOnResult(callback.resultCode, callback.resultDescription).endedBy }
      : {}),
    received_cents: callback.receivedCents,
    receipt: callback.receipt,
    unreadable: callback.unreadable,
    merchant_request_id: callback.merchantRequestId,
    checkout_request_id: callback.checkoutRequestId,
    source_address: address,
  };
}

/**
 * Settles stored callbacks whose first settlement failed.
 * @returns how many there were, and how many are settled now
 * @throws DatabaseUnavailable
 */
export async function settleStoredCallbacks(
  context: MobileMoneyContext,
): Promise<{ found: number; taken: number }> {
  const stored = await context.payments.listFailedCallbacks(BATCH_SIZE);
  let settled = 0;
  for (const { id, paymentId, body } of stored) {
    try {
      const { outcome } = await context.payments.settle(settlementOf(paymentId, body, body, null));
      await context.payments.finishFailedCallback(id);
      context.log({ level: 'info', event: 'stored callback settled', paymentId, detail: outcome });
      settled += 1;
    } catch (error) {
      context.log({
        level: 'error',
        event: 'stored callback not settled',
        paymentId,
        detail: String(error),
      });
    }
  }
  return { found: stored.length, taken: settled };
}
