// Initiates an order's payment: at most one open payment and one prompt, however often it is requested.

import { isTrackingNumber, normaliseTrackingNumber } from '../../../../domain/orders/tracking-number.ts';
import { maskPhone, normalisePhone } from '../../../../domain/people/phone.ts';
import type { MobileMoneyContext } from '../context.ts';
import { type PushOutcome, sendPush } from '../daraja/stk-push.ts';
import { type Payment, ProcedureError } from '../database/client.ts';
import type { JsonObject } from '../request-body.ts';
import { createCallbackSecret } from '../secrets.ts';
import { sameAmountSeconds } from '../settings.ts';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** Without M-PESA's id the prompt cannot be queried: an unavailable database is retried for 16 seconds. */
const RECORDING_RETRY_DELAYS_MS = [100, 400, 1500, 4000, 10_000];

export type InitiateAnswer =
  | {
      success: true;
      /** The payment's reference (docs/product.md#calls): M-PESA's request id, or the payment's own id until that is known. */
      checkoutRequestId: string;
      chargeCents: number;
      /** Masked phone of a prompt that is open on another phone than the requested one, such as `0712 ••• •••`. */
      promptedPhone?: string;
    }
  | {
      success: false;
      error: string;
      code: string;
      /** Set if no customer can pay by a prompt: trying again does not help until the owner has corrected the cause. */
      endedBy?: 'owner';
    };

/**
 * Prompts the customer's phone. If a prompt is open or the order is paid, returns that payment instead.
 * @param fields `phoneNumber`, `amount` (the order's total in cents), `trackingNumber` and its `orderId`, which proves that
 *   the caller placed the order: only the customer receives it
 * @param address IP address of the request; null if unknown
 * @param staffId user id of the staff member who sends it; null: the customer does
 * @returns the payment, or an error code with a message for the customer
 */
export async function initiatePayment(
  context: MobileMoneyContext,
  fields: JsonObject,
  address: string | null,
  staffId: string | null,
): Promise<InitiateAnswer> {
  const requested = readRequest(fields);
  if ('error' in requested) return { success: false, ...requested };
  const callbackSecret = createCallbackSecret(context.secretKey);
  let begun: Awaited<ReturnType<typeof context.payments.begin>>;
  try {
    await context.noteSettings();
    begun = await context.payments.begin({
      ...requested,
      callbackSecret,
      sameAmountSeconds: sameAmountSeconds(context.daraja.settings),
      address,
      requestedBy: staffId,
    });
  } catch (error) {
    if (error instanceof ProcedureError) {
      const { message, code } = error;
      return {
        success: false,
        error: message,
        code,
        ...(code === 'prompts_paused' ? { endedBy: 'owner' } : {}),
      };
    }
    context.log({ level: 'error', event: 'payment could not be begun', detail: String(error) });
    return {
      success: false,
      error: 'Failed to initiate payment. Please try again.',
      code: 'store_unavailable',
    };
  }
  const { payment } = begun;
  if (!begun.isNew && payment.status === 'review') {
    return {
      success: false,
      error: "M-PESA's report about this payment isn't clear. We're checking it, so please don't pay again.",
      code: 'payment_needs_review',
    };
  }
  if (!begun.isNew) {
    const answer = answerWith(payment, payment.checkout_request_id);
    return payment.status !== 'completed' && payment.phone !== requested.phone
      ? { ...answer, promptedPhone: maskPhone(payment.phone) }
      : answer;
  }

  const outcome = await sendPush(context.daraja, {
    phone: payment.phone,
    chargeCents: payment.charge_cents,
    trackingNumber: begun.trackingNumber ?? requested.trackingNumber,
    callbackUrl: `${context.callbackBaseUrl()}/${callbackSecret}`,
  });
  await recordPush(context, payment, outcome);
  if (outcome.kind === 'refused') {
    const { sentence, code, endedBy } = outcome;
    return { success: false, error: sentence, code, ...(endedBy === 'owner' ? { endedBy } : {}) };
  }
  return answerWith(payment, outcome.kind === 'accepted' ? outcome.checkoutRequestId : null);
}

function answerWith(payment: Payment, checkoutRequestId: string | null) {
  return {
    success: true as const,
    checkoutRequestId: checkoutRequestId ?? payment.id,
    chargeCents: payment.charge_cents,
  };
}

type Refusal = { code: string; error: string };
type InitiateRequest = { phone: string; expectedCents: number; trackingNumber: string; orderId: string };

function readRequest({
  phoneNumber,
  amount,
  trackingNumber,
  orderId,
}: JsonObject): InitiateRequest | Refusal {
  const phone = isShort(phoneNumber) ? normalisePhone(phoneNumber) : null;
  if (!phone) return { code: 'phone_invalid', error: 'Please enter a valid phone number' };
  if (typeof amount !== 'number' || !Number.isInteger(amount) || amount < 0 || amount > 2_147_483_647) {
    return { code: 'amount_invalid', error: 'The amount is not a whole number of cents' };
  }
  const number = isShort(trackingNumber) ? normaliseTrackingNumber(trackingNumber) : '';
  if (!isTrackingNumber(number)) {
    return { code: 'tracking_number_invalid', error: 'Not a valid tracking number' };
  }
  if (typeof orderId !== 'string' || !UUID.test(orderId)) {
    return { code: 'order_not_found', error: 'This order does not exist' };
  }
  return { phone, expectedCents: amount, trackingNumber: number, orderId };
}

/** Checks the length before patterns. A tracking number may be pasted with its link. */
const isShort = (text: unknown): text is string => typeof text === 'string' && text.length <= 300;

/**
 * Records the outcome of a push. The phone may already show the prompt, so a failure here does not fail the request.
 * @returns the recorded payment; null if it could not be recorded
 */
export async function recordPush(
  context: MobileMoneyContext,
  payment: Payment,
  outcome: PushOutcome,
): Promise<Payment | null> {
  const paymentId = payment.id;
  if (outcome.kind === 'refused') {
    const detail = `${outcome.code} ${outcome.description}`;
    context.log({ level: 'warn', event: 'push refused', paymentId, detail });
  } else if (outcome.kind === 'unknown') {
    context.log({ level: 'warn', event: 'push answer lost', paymentId, detail: outcome.reason });
  }
  const push = {
    payment_id: paymentId,
    body: outcome.body,
    ...(outcome.kind === 'accepted'
      ? { merchant_request_id: outcome.merchantRequestId, checkout_request_id: outcome.checkoutRequestId }
      : {}),
    ...(outcome.kind === 'refused'
      ? {
          refusal_code: outcome.code,
          refusal_description: outcome.description,
          refusal_ended_by: outcome.endedBy,
        }
      : {}),
  };
  for (const delayMs of [...RECORDING_RETRY_DELAYS_MS, null]) {
    try {
      return await context.payments.recordPush(push);
    } catch (error) {
      context.log({ level: 'error', event: 'push not recorded', paymentId, detail: String(error) });
      if (delayMs === null || error instanceof ProcedureError) break;
      await new Promise((done) => setTimeout(done, delayMs));
    }
  }
  return null;
}
