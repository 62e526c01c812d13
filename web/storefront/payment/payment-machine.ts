// State machine of one payment in the dialog. `PaymentState` lists its states.
import {
  describePaymentFailure,
  type ReportedStatus,
  retryDelayAfter,
} from '../../../domain/mpesa/payment-result.ts';

/** States without a final answer: `review` is checked by staff, `unresolved` has no answer from M-PESA. */
type OpenStatus = Exclude<ReportedStatus, 'completed' | 'failed'>;

export type PaymentState =
  | {
      phase: 'idle';
      /** Masked phone of another prompt that delayed this one and ended without payment. */
      endedPhone?: string;
    }
  | { phase: 'initiating' }
  | {
      phase: 'processing';
      paymentReference: string;
      status: OpenStatus;
      /** Answered polls, and unanswered polls since the last answer. */
      answers: number;
      missedAnswers: number;
      /** Masked phone of the prompt, if it is not the requested one. */
      promptedPhone?: string;
    }
  | { phase: 'completed' }
  /** A received payment is under review: the customer must not pay again. */
  | { phase: 'in_review' }
  /** The order was cancelled in the meantime: only a new one can be paid. */
  | { phase: 'cancelled' }
  /** The shop cannot send prompts until its owner has corrected something: the customer pays without one. */
  | { phase: 'paused' }
  | {
      phase: 'failed';
      paymentReference: string | null;
      error: string;
      /** M-PESA's result; null where it was not asked, or gave none. */
      resultCode: string | null;
      /** The prompt did not reach the phone; the customer can pay without one. */
      isUnreached: boolean;
      /** The request for the prompt had no answer, so a prompt may still arrive. */
      isUnanswered: boolean;
      /** Another attempt can only fail: the customer needs the shop. */
      isFinal: boolean;
      /** Seconds before another attempt: M-PESA would fail an earlier one. */
      retryAfterSeconds: number;
    };

export type PaymentEvent =
  | { type: 'pay' }
  | { type: 'initiated'; paymentReference: string; promptedPhone?: string }
  | { type: 'refused'; error: string; isUnreached: boolean; isUnanswered: boolean; isFinal: boolean }
  | { type: 'in_review' }
  | { type: 'cancelled' }
  | { type: 'paused' }
  | { type: 'unanswered' }
  | { type: 'reported'; paymentReference: string; status: ReportedStatus; resultCode: string | null }
  | { type: 'retry' };

/** Polling interval while processing, in milliseconds (docs/product.md#numbers). */
export const pollIntervalMs = 3000;

/** M-PESA's code for a phone that is off or without network. */
const unreachable = '1037';
/** M-PESA's code for more than it takes in one payment. */
const aboveLimit = '3';

/** After this many answers (a minute and a half) the customer reads that they need not wait here. */
const answersUntilSlow = 30;

/** A single poll can fail by chance. */
const missesUntilLost = 2;

/** @param paymentReference of a prompt that is already open, null for a new payment */
export function beginPayment(paymentReference: string | null): PaymentState {
  return paymentReference === null ? { phase: 'idle' } : processing(paymentReference);
}

/**
 * The state after an event. An event that does not belong to the state (a late answer, a second click) changes
 * nothing.
 */
export function advancePayment(state: PaymentState, event: PaymentEvent): PaymentState {
  switch (event.type) {
    case 'pay':
      return state.phase === 'idle' ? { phase: 'initiating' } : state;
    case 'initiated':
      return state.phase === 'initiating' ? processing(event.paymentReference, event.promptedPhone) : state;
    case 'refused':
      return state.phase === 'initiating'
        ? {
            phase: 'failed',
            paymentReference: null,
            error: event.error,
            resultCode: null,
            isUnreached: event.isUnreached,
            isUnanswered: event.isUnanswered,
            isFinal: event.isFinal,
            retryAfterSeconds: 0,
          }
        : state;
    case 'in_review':
    case 'cancelled':
      return state.phase === 'initiating' ? { phase: event.type } : state;
    case 'paused':
      return state.phase === 'initiating' || state.phase === 'idle' ? { phase: 'paused' } : state;
    case 'unanswered':
      return state.phase === 'processing' ? { ...state, missedAnswers: state.missedAnswers + 1 } : state;
    case 'reported':
      if (state.phase !== 'processing' || state.paymentReference !== event.paymentReference) return state;
      if (event.status === 'completed') return { phase: 'completed' };
      if (event.status === 'failed') {
        // The prompt on the other phone has ended: this phone can pay now.
        if (state.promptedPhone) return { phase: 'idle', endedPhone: state.promptedPhone };
        const error = describePaymentFailure(event.resultCode);
        const retryAfterSeconds = retryDelayAfter(event.resultCode);
        const isUnreached = event.resultCode === unreachable;
        const isFinal = event.resultCode === aboveLimit;
        const { resultCode } = event;
        return {
          ...end(state),
          error,
          resultCode,
          isUnreached,
          isUnanswered: false,
          isFinal,
          retryAfterSeconds,
        };
      }
      return { ...state, status: event.status, answers: state.answers + 1, missedAnswers: 0 };
    case 'retry':
      return state.phase === 'failed' ? { phase: 'idle' } : state;
  }
}

/**
 * Whether a failed payment can be asked for once more without showing its amount and phone first: not where the order itself was
 * refused, such as for another total, and not where another attempt can only fail.
 */
export function canResend(state: Extract<PaymentState, { phase: 'failed' }>): boolean {
  return !state.isFinal && (state.paymentReference !== null || state.isUnreached);
}

/** Whether to show that the answer takes long and that the customer need not wait. */
export function takesLong(state: PaymentState): boolean {
  return state.phase === 'processing' && (state.status === 'unresolved' || state.answers >= answersUntilSlow);
}

/** Whether to show that the shop cannot be reached. A phone without data may report that it is online. */
export function isConnectionLost(state: PaymentState): boolean {
  return state.phase === 'processing' && state.missedAnswers >= missesUntilLost;
}

const processing = (paymentReference: string, promptedPhone?: string): PaymentState => ({
  phase: 'processing',
  paymentReference,
  status: 'pending',
  answers: 0,
  missedAnswers: 0,
  ...(promptedPhone ? { promptedPhone } : {}),
});

const end = (state: { paymentReference: string }) => ({
  phase: 'failed' as const,
  paymentReference: state.paymentReference,
});
