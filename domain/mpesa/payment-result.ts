// M-PESA's result codes: which are final, and their messages for customers.
import type { PaymentStatus } from '../../supabase/types.ts';

type OpenAttempt = 'initiating' | 'processing';
/** The state of a payment as customers can query it: `pending` while its prompt is open. */
export type ReportedStatus = Exclude<PaymentStatus, OpenAttempt> | 'pending';

/** The prompt of a payment is being sent, or waits for the PIN or its result; `private.is_open_attempt` in the database. */
export const isOpenAttempt = (status: PaymentStatus): status is OpenAttempt =>
  status === 'initiating' || status === 'processing';

export type PaymentResult = 'succeeded' | 'failed' | 'pending';

const messages = {
  '1037': 'Customer not reachable. Please ensure phone is on and has network. 📵',
  '1025': 'System error occurred. Please try again. ⚠️',
  '1032': 'Payment was cancelled. Please try again. ❌',
  '1': 'Insufficient balance. Please top up M-PESA or use Fuliza. 💰',
  '2001': 'Wrong M-PESA PIN entered. Please try again. 🔐',
  '1019': 'Transaction expired. Please try again. ⏰',
  '1001': 'Another transaction in progress. Please wait and try again. ⏳',
} as const satisfies Record<string, string>;

/** Codes of M-PESA that have a message of their own. */
export type ExplainedCode = keyof typeof messages;

/** @returns null for a code without a message of its own */
export const explainedCode = (code: string | number | null | undefined): ExplainedCode | null => {
  const key = String(code ?? '');
  return Object.hasOwn(messages, key) ? (key as ExplainedCode) : null;
};

/**
 * Seconds during which M-PESA rejects every retry after this code; 0 for a code after which a retry is possible immediately.
 * 17 is its rule against the same amount from the same phone within two minutes.
 */
export const retryDelayAfter = (code: string | null): number => (code === '17' ? 120 : 0);

const advice: Record<string, string> = {
  // The customer may have paid a moment ago.
  '17': 'M-PESA takes the same amount from one phone only once in two minutes. If you have just paid, do not pay again: we will see it. Otherwise wait two minutes, or pay from another phone.',
};

/**
 * What the customer reads beside the message about a failed payment.
 * @param code M-PESA's result code
 * @returns null without advice
 */
export const adviseAfterFailure = (code: string | null): string | null =>
  (code !== null && Object.hasOwn(advice, code) && advice[code]) || null;

/**
 * The customer's message about a failed payment (docs/product.md#failure-messages).
 * @param code M-PESA's result code; the general text if missing or unknown
 */
export function describePaymentFailure(code: string | number | null | undefined): string {
  const explained = explainedCode(code);
  return explained ? messages[explained] : 'Payment failed. Please try again. ❌';
}

// Codes of a final failure: M-PESA's published result codes of an STK prompt. 26 (system busy)
// and 4999 (still processing) are missing on purpose.
const finalFailures = new Set(
  '1 2 3 4 8 17 1001 1019 1025 1031 1032 1036 1037 1101 1102 2001 2006 2028 2029 8006 9999 SFC_IC0003'.split(
    ' ',
  ),
);

/** Codes of M-PESA that mean "not decided yet": still processing, system busy. */
const undecided = new Set(['4999', '26']);

/**
 * Classifies a result code. Codes known to be final fail a payment; an unknown code does so only in a callback, which is M-PESA's last
 * word about a prompt. A later success supersedes either. Only `0` is a success; other spellings of zero (`00`, `0.0`) are none of M-PESA's
 * and mean nothing.
 *
 * The code alone does not decide: a message that names money (an amount or a receipt) never fails a payment
 * (`private.decide_settlement`).
 * @param code ResultCode of a callback or a query, number or string
 * @param source an unknown code in a query means "no answer yet"
 */
export function judgeResultCode(code: unknown, source: 'callback' | 'query'): PaymentResult {
  if (!isReadableCode(code)) return 'pending';
  const key = String(code).trim();
  if (key === '0') return 'succeeded';
  if (finalFailures.has(key)) return 'failed';
  if (undecided.has(key)) return 'pending';
  return source === 'callback' ? 'failed' : 'pending';
}

/**
 * Whether a value can be a result code of M-PESA. What a callback reports without one is not known.
 * @param code ResultCode of a callback or a query
 */
export function isReadableCode(code: unknown): boolean {
  if (typeof code === 'number') return Number.isFinite(code);
  return (
    typeof code === 'string' &&
    code.trim() !== '' &&
    (code.trim() === '0' || !/^[-+]?0+(\.0*)?$/.test(code.trim()))
  );
}
