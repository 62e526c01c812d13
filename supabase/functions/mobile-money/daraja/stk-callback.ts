// Reads the body of an STK callback. Missing or malformed values become null, never an exception.
import { judgeResultCode, type PaymentResult } from '../../../../domain/payment-result.ts';
import { asObject, parseObject, storableText } from '../request-body.ts';
import { centsOf } from './field-formats.ts';

export interface StkCallback {
  /** `pending` if the body is inconclusive. */
  result: PaymentResult;
  resultCode: string | null;
  resultDescription: string | null;
  /** Cents, within 32 bits; null if missing or unreadable, which never equals the expected amount. */
  receivedCents: number | null;
  receipt: string | null;
  merchantRequestId: string | null;
  checkoutRequestId: string | null;
}

/**
 * Reads a callback (Daraja, STK callback). Items are found by name; Balance has no value.
 * @param text the body as received
 */
export function readStkCallback(text: string): StkCallback {
  const callback = asObject(asObject(parseObject(text)?.Body)?.stkCallback);
  const items = asObject(callback?.CallbackMetadata)?.Item;
  const itemValue = (name: string) =>
    Array.isArray(items) ? items.map(asObject).find((item) => item?.Name === name)?.Value : undefined;
  return {
    result: judgeResultCode(callback?.ResultCode, 'callback'),
    resultCode: storableText(callback?.ResultCode, 40),
    resultDescription: storableText(callback?.ResultDesc, 500),
    receivedCents: centsOf(itemValue('Amount')),
    receipt: storableText(itemValue('MpesaReceiptNumber'), 40) || null,
    merchantRequestId: storableText(callback?.MerchantRequestID, 200) || null,
    checkoutRequestId: storableText(callback?.CheckoutRequestID, 200) || null,
  };
}
