// The two calls of the payment function (docs/product.md#calls), and their responses.
import type { FunctionsClient } from '@supabase/functions-js';
import type { ReportedStatus } from '../../../domain/mpesa/payment-result.ts';
import type { Store } from '../../../supabase/store.ts';

/** A payment that was not initiated, with a message for the customer and the function's error code, if any. */
export class PaymentRefusal extends Error {
  override name = 'PaymentRefusal';
  readonly code: string | null;
  /** Whether no customer can pay by a prompt until the shop is corrected: trying again can only fail. */
  readonly isShopProblem: boolean;
  constructor(message: string, code: string | null = null, isShopProblem = false) {
    super(message);
    this.code = code;
    this.isShopProblem = isShopProblem;
  }
}

// Errors of the order or the number itself: paying in another way would not help.
const aboutTheOrder = new Set([
  'phone_invalid',
  'amount_invalid',
  'amount_changed',
  'tracking_number_invalid',
  'order_not_found',
  'order_already_paid',
  'payment_needs_review',
  'order_cancelled',
  'nothing_to_pay',
  'total_too_large',
  // An order whose reservation ended may find no stock.
  'product_unavailable',
  'out_of_stock',
  'not_enough_stock',
]);

/** Whether a received payment is under review, so that the customer must not pay again. */
export const isInReview = (refusal: PaymentRefusal): boolean => refusal.code === 'payment_needs_review';

/** Whether the order ended in the meantime, so that only a new one can be paid. */
export const isCancelled = (refusal: PaymentRefusal): boolean => refusal.code === 'order_cancelled';

/** Whether the order has another total: its drinks were changed elsewhere. */
export const isAmountChanged = (refusal: PaymentRefusal): boolean => refusal.code === 'amount_changed';

/** Whether a prompt may still arrive on the phone: the function did not refuse it. */
export const mayStillPrompt = (error: unknown): boolean =>
  !(error instanceof PaymentRefusal) || error.code === noAnswer;

// Errors of the order itself, which another attempt has again.
const finalRefusals = new Set(['total_too_large', 'nothing_to_pay', 'order_not_found']);

/** Whether another attempt can only fail, so that the customer needs the shop. */
export const isFinalRefusal = (error: unknown): boolean =>
  error instanceof PaymentRefusal && error.code !== null && finalRefusals.has(error.code);

/** Whether only the prompt failed, so that the order can be paid without one. */
export function isPromptFailure(error: unknown): boolean {
  return !(error instanceof PaymentRefusal && error.code !== null && aboutTheOrder.has(error.code));
}

export interface PaymentRequest {
  phoneNumber: string;
  /** The order's total in cents. */
  amount: number;
  trackingNumber: string;
  orderId: string;
}

/** Code and message of a request without a readable answer: the prompt may have been sent. */
const noAnswer = 'no_answer';
export const noAnswerText = 'Failed to initiate payment. Please try again. ⚠️';

/** Request timeout in ms: a stalled request must not block the next one. */
const longest = { prompt: 40_000, question: 10_000, allTries: 60_000 };

/** Delays before retries after a request without an answer, in ms. */
const retryDelaysMs = [1000, 3000, 6000];

export interface OpenPrompt {
  /** `checkoutRequestId` of the answer: M-PESA's id, or the payment's own while M-PESA's is unknown. */
  paymentReference: string;
  /** Masked phone of a prompt that was already open on another phone. */
  promptedPhone?: string;
}

/**
 * Sends the prompt to a phone, or finds the open one: the server opens one per order. It is therefore safe to repeat
 * a request whose answer was lost.
 * @throws PaymentRefusal with a message for the customer
 */
export async function initiatePayment(
  functions: FunctionsClient,
  request: PaymentRequest,
  waits: readonly number[] = retryDelaysMs,
  until: number = performance.now() + longest.allTries,
): Promise<OpenPrompt> {
  const { data, error } = await functions.invoke<unknown>('mobile-money', {
    body: { action: 'initiate', ...request },
    timeout: Math.max(1, Math.min(longest.prompt, until - performance.now())),
  });
  const response = error?.context instanceof Response ? error.context : null;
  const [wait, ...furtherWaits] = waits;
  const shouldRetry = error && (!response || response.status >= 502);
  if (shouldRetry && wait !== undefined && performance.now() + wait < until) {
    await new Promise((resolve) => setTimeout(resolve, wait));
    return initiatePayment(functions, request, furtherWaits, until);
  }
  // Network error messages of the client library are not for customers.
  const answer = record(error ? await response?.json().catch(() => null) : data);
  const reason = text(answer.error);
  if (error) throw new PaymentRefusal(reason ?? noAnswerText, reason ? text(answer.code) : noAnswer);
  const paymentReference = text(answer.checkoutRequestId);
  if (answer.success !== true || !paymentReference) {
    throw new PaymentRefusal(
      text(answer.error) ?? 'Failed to initiate payment',
      text(answer.code),
      answer.endedBy === 'owner',
    );
  }
  const promptedPhone = text(answer.promptedPhone);
  return { paymentReference, ...(promptedPhone ? { promptedPhone } : {}) };
}

/**
 * Whether the shop sends no prompts at the moment, so that customers pay without one. Without an answer it is assumed to send them:
 * the request for a prompt reports it then.
 */
export async function arePromptsPaused(tables: Store['tables']): Promise<boolean> {
  const { data } = await tables.rpc('are_prompts_paused');
  return data === true;
}

/**
 * Queries the state of a payment.
 * @throws Error without an answer
 */
export async function checkPayment(
  functions: FunctionsClient,
  paymentReference: string,
): Promise<{ status: ReportedStatus; resultCode: string | null }> {
  const { data, error } = await functions.invoke<unknown>('mobile-money', {
    body: { action: 'check-status', checkoutRequestId: paymentReference },
    timeout: longest.question,
  });
  if (error) throw error;
  const payment = record(record(data).payment);
  const status = text(payment.status);
  if (!status) throw new Error('The payment function answered without a status');
  const code = payment.result_code;
  return { status: readStatus(status), resultCode: typeof code === 'number' ? String(code) : text(code) };
}

/** A status that a later version of the shop added counts as pending. */
function readStatus(status: string): ReportedStatus {
  switch (status) {
    case 'completed':
    case 'failed':
    case 'review':
    case 'unresolved':
      return status;
    default:
      return 'pending';
  }
}

const record = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};

const text = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null);
