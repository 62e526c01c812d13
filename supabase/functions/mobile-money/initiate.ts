// Starts collecting an order's money: one open attempt, one prompt, however often it is asked for.
import { maskPhone, normalisePhone } from '../../../domain/phone.ts';
import { normaliseTrackingNumber } from '../../../domain/tracking-number.ts';
import type { Fields } from './json-body.ts';
import { type Payment, type PaymentStore, StoreRefusal } from './payment-store.ts';
import { drawNoticeSecret } from './secret.ts';
import { type PushOutcome, sendPush } from './stk-push.ts';
import type { MobileMoneyWorld } from './world.ts';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** Without M-PESA's id nobody can ask about the prompt: a database that is away for some seconds is waited for. */
const RECORDING_PAUSES_MS = [100, 400, 1500, 4000, 10_000];

export type InitiateAnswer =
  | {
      success: true;
      /** The specification's name for the payment's reference: M-PESA's request id, or the payment's own id while that is unknown. */
      checkoutRequestId: string;
      chargeCents: number;
      /** Of a prompt that is open on another phone than the one asked for: where it is, such as `0712 ••• •••`. */
      promptedPhone?: string;
    }
  | { success: false; error: string; code: string };

/**
 * Prompts the customer's phone, unless a prompt is open or the order is paid: then that attempt is the answer.
 * @param fields `phoneNumber`, `amount` (the order's total in cents), `trackingNumber`, and the `orderId` that belongs to it:
 *   the id is the proof, and only the customer learns it
 * @param address where the request comes from
 * @returns never throws for what was asked; a failure comes with a sentence for the customer
 */
export async function initiatePayment(
  world: MobileMoneyWorld,
  fields: Fields,
  address: string | null,
): Promise<InitiateAnswer> {
  const asked = readRequest(fields);
  if ('error' in asked) return { success: false, ...asked };
  const noticeSecret = drawNoticeSecret();
  let begun: Awaited<ReturnType<PaymentStore['begin']>>;
  try {
    begun = await world.store.begin({ ...asked, noticeSecret, address });
  } catch (problem) {
    if (problem instanceof StoreRefusal) {
      return { success: false, error: problem.message, code: problem.code };
    }
    world.log({ level: 'error', event: 'payment could not be begun', detail: String(problem) });
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
      error: 'M-PESA told us of another amount for this order. We are checking it: please do not pay again.',
      code: 'payment_to_decide',
    };
  }
  if (!begun.isNew) {
    const answer = answerWith(payment, payment.checkout_request_id);
    return payment.status !== 'completed' && payment.phone !== asked.phone
      ? { ...answer, promptedPhone: maskPhone(payment.phone) }
      : answer;
  }

  const outcome = await sendPush(world.daraja, {
    phone: payment.phone,
    chargeCents: payment.charge_cents,
    trackingNumber: begun.trackingNumber ?? asked.trackingNumber,
    noticeUrl: `${world.noticeBaseUrl()}/${noticeSecret}`,
  });
  await recordPush(world, payment, outcome);
  if (outcome.kind === 'refused') return { success: false, error: outcome.sentence, code: outcome.code };
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

function readRequest({ phoneNumber, amount, trackingNumber, orderId }: Fields): InitiateRequest | Refusal {
  const phone = isShort(phoneNumber) ? normalisePhone(phoneNumber) : null;
  if (!phone) return { code: 'phone_invalid', error: 'Please enter a valid phone number' };
  if (typeof amount !== 'number' || !Number.isInteger(amount) || amount < 0 || amount > 2_147_483_647) {
    return { code: 'amount_invalid', error: 'The amount is not a whole number of cents' };
  }
  const number = isShort(trackingNumber) ? normaliseTrackingNumber(trackingNumber) : '';
  if (!/^JJ-\d{8}-\d{4,6}$/.test(number)) {
    return { code: 'tracking_number_invalid', error: 'Not a valid tracking number' };
  }
  if (typeof orderId !== 'string' || !UUID.test(orderId)) {
    return { code: 'order_not_found', error: 'This order does not exist' };
  }
  return { phone, expectedCents: amount, trackingNumber: number, orderId };
}

/** Length comes before patterns. A tracking number may be pasted with its link. */
const isShort = (text: unknown): text is string => typeof text === 'string' && text.length <= 300;

/**
 * Records what became of a push. A prompt may be on the phone by now, so a failure does not fail the request.
 * @returns the payment as recorded; null when it could not be
 */
export async function recordPush(
  world: MobileMoneyWorld,
  payment: Payment,
  outcome: PushOutcome,
): Promise<Payment | null> {
  const paymentId = payment.id;
  if (outcome.kind === 'refused') {
    const detail = `${outcome.code} ${outcome.description}`;
    world.log({ level: 'warn', event: 'push refused', paymentId, detail });
  } else if (outcome.kind === 'unknown') {
    world.log({ level: 'warn', event: 'push answer lost', paymentId, detail: outcome.reason });
  }
  const push = {
    payment_id: paymentId,
    body: outcome.body,
    ...(outcome.kind === 'accepted'
      ? { merchant_request_id: outcome.merchantRequestId, checkout_request_id: outcome.checkoutRequestId }
      : {}),
    ...(outcome.kind === 'refused'
      ? { refusal_code: outcome.code, refusal_description: outcome.description }
      : {}),
  };
  for (const pauseMs of [...RECORDING_PAUSES_MS, null]) {
    try {
      return await world.store.recordPush(push);
    } catch (problem) {
      world.log({ level: 'error', event: 'push not recorded', paymentId, detail: String(problem) });
      if (pauseMs === null || problem instanceof StoreRefusal) break;
      await new Promise((done) => setTimeout(done, pauseMs));
    }
  }
  return null;
}
