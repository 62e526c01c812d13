// The body of M-PESA's notice about a prompt, read leniently: what is missing or odd becomes null, never an exception.
import { judgeResultCode, type PaymentVerdict } from '../../../domain/payment-result.ts';
import { asFields, parseFields, storableText } from './json-body.ts';

const SMALLEST_INTEGER = -2_147_483_648;
const LARGEST_INTEGER = 2_147_483_647;

export interface StkCallback {
  /** `pending` when the body says nothing that can be concluded from. */
  verdict: PaymentVerdict;
  resultCode: string | null;
  resultDescription: string | null;
  /** Cents, within 32 bits; null when none is named or it cannot be read, which never counts as the right amount. */
  receivedCents: number | null;
  receipt: string | null;
  merchantRequestId: string | null;
  checkoutRequestId: string | null;
}

/**
 * Reads a notice (Daraja, STK callback). Items are found by name; Balance comes without a value.
 * @param text the body as it came
 */
export function readStkCallback(text: string): StkCallback {
  const callback = asFields(asFields(parseFields(text)?.Body)?.stkCallback);
  const items = asFields(callback?.CallbackMetadata)?.Item;
  const itemValue = (name: string) =>
    Array.isArray(items) ? items.map(asFields).find((item) => item?.Name === name)?.Value : undefined;
  return {
    verdict: judgeResultCode(callback?.ResultCode, 'notice'),
    resultCode: storableText(callback?.ResultCode, 40),
    resultDescription: storableText(callback?.ResultDesc, 500),
    receivedCents: centsOf(itemValue('Amount')),
    receipt: storableText(itemValue('MpesaReceiptNumber'), 40) || null,
    merchantRequestId: storableText(callback?.MerchantRequestID, 200) || null,
    checkoutRequestId: storableText(callback?.CheckoutRequestID, 200) || null,
  };
}

/**
 * Shillings of a notice as cents.
 * @param value a number, or its decimal spelling as a string
 * @returns cents, clamped to 32 bits so that a huge amount is a wrong one; null for anything that is not whole cents
 */
export function centsOf(value: unknown): number | null {
  const shillings =
    typeof value === 'number'
      ? value
      : typeof value === 'string' && /^-?\d+(\.\d+)?$/.test(value.trim())
        ? Number(value)
        : Number.NaN;
  if (Number.isNaN(shillings)) return null;
  const clamped = Math.min(Math.max(shillings * 100, SMALLEST_INTEGER), LARGEST_INTEGER);
  // Adding 0 turns -0 into 0.
  const cents = Math.round(clamped) + 0;
  // Floating point may miss whole cents by a hair, not by more.
  return Math.abs(clamped - cents) < 1e-4 ? cents : null;
}
