// STK callbacks: each is stored as received and answered, then settled.

import { adviseOnResult } from '../../../../domain/mpesa/result-advice.ts';
import { unknownUrl } from '../callback-urls.ts';
import type { MobileMoneyContext } from '../context.ts';
import { flagUnknownSource } from '../daraja/known-sources.ts';
import { readStkCallback } from '../daraja/stk-callback.ts';
import { withRetries } from '../database/client.ts';
import type { PaymentSettlement, StoredCallback } from '../database/payments.ts';
import { readText, storableText } from '../request-body.ts';
import { isSignedSecret } from '../secrets.ts';

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
  try {
    const address = context.callerAddress(request);
    const { text, isCut } = await readText(request, MAX_CALLBACK_BYTES);
    const body = storableText(text, MAX_CALLBACK_BYTES) ?? '';
    const isSigned = isSignedSecret(context.secretKey, callbackSecret);
    const message = await withRetries(() =>
      context.payments.storeCallback(callbackSecret, body, address, { isSigned }),
    );
    if (!message) return unknownUrl();
    flagUnknownSource(context, address, 'callback');
    await context.afterAnswer(async () => {
      await settle(context, { ...message, body }, 'callback received');
    });
    if (isCut) return Response.json({ ResultCode: 1, ResultDesc: 'Too large' }, { status: 413 });
    return Response.json({ ResultCode: 0, ResultDesc: 'Accepted' });
  } catch (error) {
    context.log({ level: 'error', event: 'callback not stored', detail: String(error) });
    return Response.json({ ResultCode: 1, ResultDesc: 'Try again later' }, { status: 503 });
  }
}

/** Settles a stored callback. If that fails, a job settles it later. @returns whether it is settled */
async function settle(
  context: MobileMoneyContext,
  { id, paymentId, body }: StoredCallback,
  event: string,
): Promise<boolean> {
  try {
    const { outcome } = await withRetries(() => context.payments.settle(settlementOf(id, paymentId, body)));
    context.log({ level: outcomesToCheck.has(outcome) ? 'warn' : 'info', event, paymentId, detail: outcome });
    return true;
  } catch (error) {
    context.log({
      level: 'error',
      event: 'callback stored but not settled',
      paymentId,
      detail: String(error),
    });
    return false;
  }
}

function settlementOf(id: number, paymentId: string, body: string): PaymentSettlement {
  const callback = readStkCallback(body);
  return {
    payment_id: paymentId,
    message_id: id,
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
  };
}

/**
 * Settles stored callbacks whose first settlement failed or did not take place.
 * @returns how many there were, and how many are settled now
 * @throws DatabaseUnavailable
 */
export async function settleStoredCallbacks(
  context: MobileMoneyContext,
): Promise<{ found: number; taken: number }> {
  const stored = await context.payments.listUnsettledCallbacks(BATCH_SIZE);
  let taken = 0;
  for (const message of stored) if (await settle(context, message, 'stored callback settled')) taken += 1;
  return { found: stored.length, taken };
}
