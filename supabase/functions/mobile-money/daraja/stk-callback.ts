// Reads the body of an STK callback. Missing or malformed values become null, never an exception.
import {
  isReadableCode,
  judgeResultCode,
  type PaymentResult,
} from '../../../../domain/mpesa/payment-result.ts';
import { asObject, type JsonObject, parseObject, storableText } from '../request-body.ts';
import { readMoneyFields, type UnreadablePart } from './fields/money-fields.ts';

export interface StkCallback {
  /** `pending` if the body is inconclusive. */
  result: PaymentResult;
  resultCode: string | null;
  resultDescription: string | null;
  /** Cents, within 32 bits; null if missing or unreadable, which never equals the expected amount. */
  receivedCents: number | null;
  /** Null if missing or unreadable. */
  receipt: string | null;
  /** Parts that the body has and that cannot be read; `code` also if it is missing. */
  unreadable: UnreadablePart[];
  merchantRequestId: string | null;
  checkoutRequestId: string | null;
}

/**
 * Reads a callback (Daraja, STK callback). Items are found by name; Balance has no value.
 * @param text the body as received
 */
export function readStkCallback(text: string): StkCallback {
  const callback = asObject(asObject(parseObject(text)?.Body)?.stkCallback);
  const money = readMetadata(callback);
  return {
    result: judgeResultCode(callback?.ResultCode, 'callback'),
    resultCode: storableText(callback?.ResultCode, 40),
    resultDescription: storableText(callback?.ResultDesc, 500),
    receivedCents: money.cents,
    receipt: money.receipt,
    unreadable: [...(isReadableCode(callback?.ResultCode) ? [] : ['code' as const]), ...money.unreadable],
    merchantRequestId: storableText(callback?.MerchantRequestID, 200) || null,
    checkoutRequestId: storableText(callback?.CheckoutRequestID, 200) || null,
  };
}

/**
 * Reads the money that a callback or the answer to a query names. M-PESA's answers name none; one that does is not ignored.
 * @param fields with `CallbackMetadata`, or with `Amount` and `MpesaReceiptNumber` themselves
 */
export function readMetadata(fields: JsonObject | null | undefined): ReturnType<typeof readMoneyFields> {
  const items = asObject(fields?.CallbackMetadata)?.Item;
  const itemValue = (name: string) =>
    (Array.isArray(items) ? items : [items]).map(asObject).find((item) => item?.Name === name)?.Value ??
    fields?.[name];
  return readMoneyFields({ receipt: itemValue('MpesaReceiptNumber'), amount: itemValue('Amount') });
}
