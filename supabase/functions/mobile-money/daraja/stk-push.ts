// The STK push: requests a prompt on a phone and classifies the answer.
import { describePaymentFailure } from '../../../../domain/mpesa/payment-result.ts';
import { adviseOnResult } from '../../../../domain/mpesa/result-advice.ts';
import { accountReference } from '../../../../domain/orders/tracking-number.ts';
import { msisdn } from '../../../../domain/people/phone.ts';
import type { PaymentEndedBy } from '../../../types.ts';
import { storableText } from '../request-body.ts';
import type { DarajaClient, DarajaReply } from './connection/client.ts';
import { classifyReply, type Refused } from './connection/request-outcome.ts';
import { merchantFields } from './fields/merchant-fields.ts';

const PUSH_PATH = '/mpesa/stkpush/v1/processrequest';
/** At most 13 characters. */
const DESCRIPTION = 'Juice order';

export interface PushRequest {
  /** `+254…`. */
  phone: string;
  /** Cents, a multiple of 100. */
  chargeCents: number;
  trackingNumber: string;
  callbackUrl: string;
}

/**
 * The outcome of a push. `unknown`: the phone may show a prompt, so the payment must stay open and must not be
 * pushed again.
 */
export type PushOutcome =
  | { kind: 'accepted'; body: string; checkoutRequestId: string; merchantRequestId: string | null }
  | {
      kind: 'refused';
      body: string;
      code: string;
      description: string;
      /** For the customer. */
      sentence: string;
      endedBy: PaymentEndedBy;
    }
  | { kind: 'unknown'; body: string; reason: string };

/** Sends one push. Never throws, never retries. */
export async function sendPush(daraja: DarajaClient, order: PushRequest): Promise<PushOutcome> {
  const { settings } = daraja;
  const payer = msisdn(order.phone);
  const reply = await daraja.post(PUSH_PATH, {
    ...merchantFields(settings, daraja.now()),
    TransactionType: settings.transactionType,
    Amount: order.chargeCents / 100,
    PartyA: payer,
    PartyB: settings.partyB ?? settings.shortcode,
    PhoneNumber: payer,
    CallBackURL: order.callbackUrl,
    AccountReference: accountReference(order.trackingNumber),
    TransactionDesc: DESCRIPTION,
  });
  return readPushReply(reply);
}

/**
 * Classifies the reply to a push (Daraja, error codes): refused only if certainly no prompt was sent.
 * @param reply result of the client
 */
export function readPushReply(reply: DarajaReply): PushOutcome {
  const outcome = classifyReply(reply);
  switch (outcome.kind) {
    case 'refused': {
      const { kind, body, code, description } = outcome;
      const { endedBy } = adviseOnResult(code, description, 'request');
      return { kind, body, code, description, sentence: sentenceFor(outcome, endedBy), endedBy };
    }
    case 'unknown':
      return outcome;
    case 'accepted': {
      const { fields, body } = outcome;
      const checkoutRequestId = storableText(fields.CheckoutRequestID, 200);
      if (!checkoutRequestId) return { kind: 'unknown', body, reason: 'no request id' };
      return {
        kind: 'accepted',
        body,
        checkoutRequestId,
        merchantRequestId: storableText(fields.MerchantRequestID, 200),
      };
    }
  }
}

/** The customer's message. If M-PESA was only unavailable: that no prompt was sent, and when to try again. */
function sentenceFor({ code, description, retryAfterMs = 60_000 }: Refused, endedBy: PaymentEndedBy): string {
  // Without "try again", which fails until the owner has corrected the cause.
  if (endedBy === 'owner') {
    return 'M-PESA did not accept the payment request, so no prompt was sent. Your order is saved.';
  }
  if (code === 'mpesa_unreachable') {
    return 'M-PESA cannot be reached right now, so no prompt was sent. Please try again in a minute.';
  }
  if (['http_429', '500.003.02', '500.003.03'].includes(code)) {
    const minutes = Math.max(Math.ceil(retryAfterMs / 60_000), 1);
    const soon = minutes === 1 ? 'a minute' : `${minutes} minutes`;
    return `M-PESA is busy right now and sent no prompt. Please try again in ${soon}.`;
  }
  // From the firewall: nothing was processed.
  if (code === 'http_403') {
    return 'M-PESA is not available right now and sent no prompt. Please try again in a few minutes.';
  }
  if (/lock subscriber/i.test(description)) return describePaymentFailure('1001');
  if (/PhoneNumber|PartyA/.test(description)) return 'Please enter a valid phone number';
  if (/Invalid Amount/.test(description)) {
    return 'M-PESA does not take this amount in one payment. Please contact us.';
  }
  return 'M-PESA did not accept the payment request. Please try again later.';
}
