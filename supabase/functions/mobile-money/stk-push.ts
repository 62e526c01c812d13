// The STK push: asks M-PESA to prompt a phone, and decides what the answer means.
import { describePaymentFailure } from '../../../domain/payment-result.ts';
import { msisdn } from '../../../domain/phone.ts';
import { accountReference } from '../../../domain/tracking-number.ts';
import type { DarajaClient, DarajaReply } from './daraja-client.ts';
import { storableText } from './json-body.ts';
import { merchantFields } from './merchant-password.ts';
import { judgeRequest, type Refused } from './request-verdict.ts';

const PUSH_PATH = '/mpesa/stkpush/v1/processrequest';
/** At most 13 characters. */
const DESCRIPTION = 'Juice order';

export interface PushOrder {
  /** `+254…`. */
  phone: string;
  /** Cents, a multiple of 100. */
  chargeCents: number;
  trackingNumber: string;
  noticeUrl: string;
}

/**
 * What became of a push. `unknown` means that a prompt may be on the phone: the attempt must stay open and must not be
 * pushed again.
 */
export type PushOutcome =
  | { kind: 'accepted'; body: string; checkoutRequestId: string; merchantRequestId: string | null }
  | { kind: 'refused'; body: string; code: string; description: string; sentence: string }
  | { kind: 'unknown'; body: string; reason: string };

/** Sends one push. Never throws, never sends a second one. */
export async function sendPush(daraja: DarajaClient, order: PushOrder): Promise<PushOutcome> {
  const { settings } = daraja;
  const payer = msisdn(order.phone);
  const reply = await daraja.post(PUSH_PATH, {
    ...merchantFields(settings, daraja.now()),
    TransactionType: settings.transactionType,
    Amount: order.chargeCents / 100,
    PartyA: payer,
    PartyB: settings.partyB ?? settings.shortcode,
    PhoneNumber: payer,
    CallBackURL: order.noticeUrl,
    AccountReference: accountReference(order.trackingNumber),
    TransactionDesc: DESCRIPTION,
  });
  return judgePush(reply);
}

/**
 * What an answer to a push means (Daraja, error codes): refused only when it is sure that no prompt was sent.
 * @param reply what the client got
 */
export function judgePush(reply: DarajaReply): PushOutcome {
  const verdict = judgeRequest(reply);
  switch (verdict.kind) {
    case 'refused': {
      const { kind, body, code, description } = verdict;
      return { kind, body, code, description, sentence: sentenceFor(verdict) };
    }
    case 'unknown':
      return verdict;
    case 'taken': {
      const { fields, body } = verdict;
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

/** What the customer is told: whenever M-PESA was only not to be had, that no prompt was sent and when to try again. */
function sentenceFor({ code, description, retryAfterMs = 60_000 }: Refused): string {
  if (code === 'mpesa_unreachable') {
    return 'M-PESA cannot be reached right now, so no prompt was sent. Please try again in a minute.';
  }
  if (['http_429', '500.003.02', '500.003.03'].includes(code)) {
    const minutes = Math.max(Math.ceil(retryAfterMs / 60_000), 1);
    const soon = minutes === 1 ? 'a minute' : `${minutes} minutes`;
    return `M-PESA is busy right now and sent no prompt. Please try again in ${soon}.`;
  }
  // The firewall's web page: nothing got further than that.
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
