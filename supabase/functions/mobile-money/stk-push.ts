// The STK push: asks M-PESA to prompt a phone, and decides what the answer means.
import { describePaymentFailure } from '../../../domain/payment-result.ts';
import { msisdn } from '../../../domain/phone.ts';
import { accountReference } from '../../../domain/tracking-number.ts';
import type { DarajaClient, DarajaReply } from './daraja-client.ts';
import { storableText } from './json-body.ts';
import { merchantFields } from './merchant-password.ts';

const PUSH_PATH = '/mpesa/stkpush/v1/processrequest';
/** At most 13 characters. */
const DESCRIPTION = 'Juice order';

export interface PushOrder {
  /** `+254…`. */
  phone: string;
  /** Cents, a multiple of 100. */
  amount: number;
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
    Amount: order.amount / 100,
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
  if (reply.kind === 'not sent') {
    return {
      kind: 'refused',
      body: '',
      code: 'mpesa_unreachable',
      description: reply.reason,
      sentence: 'M-PESA cannot be reached right now. Please try again in a minute.',
    };
  }
  if (reply.kind === 'lost') return { kind: 'unknown', body: '', reason: reply.reason };

  const { status, fields } = reply;
  const body = storableText(reply.body, 65_536) ?? '';
  const responseCode = storableText(fields?.ResponseCode, 40);
  if (status >= 200 && status < 300) {
    const checkoutRequestId = storableText(fields?.CheckoutRequestID, 200);
    if (responseCode !== null && responseCode !== '0') {
      return refusal(body, responseCode, storableText(fields?.ResponseDescription, 500) ?? '');
    }
    if (responseCode === null || !checkoutRequestId)
      return { kind: 'unknown', body, reason: 'no request id' };
    return {
      kind: 'accepted',
      body,
      checkoutRequestId,
      merchantRequestId: storableText(fields?.MerchantRequestID, 200),
    };
  }
  const errorCode = storableText(fields?.errorCode, 40);
  const description = storableText(fields?.errorMessage, 500) ?? '';
  if (isSureRefusal(status, errorCode, description)) {
    return refusal(body, errorCode ?? `http_${status}`, description);
  }
  return { kind: 'unknown', body, reason: `HTTP ${status} ${errorCode ?? ''}`.trim() };
}

function isSureRefusal(status: number, errorCode: string | null, description: string): boolean {
  // A 4xx was turned away at the door, by Daraja or by the firewall before it; only a 408 may have got further.
  if (status >= 400 && status < 500) return status !== 408;
  // 500.001.1001 has at least five meanings: these mean that nothing was sent.
  if (errorCode === '500.001.1001') {
    return /lock subscriber|wrong credentials|merchant does not exist/i.test(description);
  }
  if (errorCode === '500.003.02') return /spike/i.test(description);
  return errorCode === '500.003.03';
}

function refusal(body: string, code: string, description: string): PushOutcome {
  return { kind: 'refused', body, code, description, sentence: sentenceFor(code, description) };
}

function sentenceFor(code: string, description: string): string {
  if (/lock subscriber/i.test(description)) return describePaymentFailure('1001');
  if (/PhoneNumber|PartyA/.test(description)) return 'Please enter a valid phone number';
  if (['http_429', '500.003.02', '500.003.03'].includes(code)) {
    return 'M-PESA is busy right now. Please try again in a minute.';
  }
  return 'M-PESA did not accept the payment request. Please try again later.';
}
