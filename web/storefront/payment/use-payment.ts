// Runs the payment machine: sends the prompt, polls its outcome every three seconds, and stores both on the device.
import { useCallback, useEffect, useReducer, useRef } from 'react';
import { createStore } from '../../../supabase/store.ts';
import { closePayment, type RememberedOrder, rememberPrompt } from '../../lib/orders/remembered-orders.ts';
import { useShop } from '../layout/use-shop.ts';
import { announcedPayments, shownPayments } from '../own-orders/announced-payments.ts';
import {
  arePromptsPaused,
  checkPayment,
  initiatePayment,
  isAmountChanged,
  isCancelled,
  isFinalRefusal,
  isInReview,
  isPromptFailure,
  mayStillPrompt,
  PaymentRefusal,
} from './payment-calls.ts';
import { advancePayment, beginPayment, type PaymentState, pollIntervalMs } from './payment-machine.ts';

/** What is needed to pay for an order. */
export interface PayableOrder {
  orderId: string;
  trackingNumber: string;
  /** Cents. */
  total: number;
  /** What its discount code takes off, in cents, if known. */
  discountCents?: number | undefined;
  /** Prefills the phone to pay with; '' if unknown. */
  phone: string;
  /** Of an open prompt, whose result is polled; null otherwise. */
  paymentReference: string | null;
  /** The ordered drinks, to order them again, if stored on this device. */
  ordered?: RememberedOrder['ordered'];
  /** With it, the drinks can be changed until a prompt was sent. */
  accessKey?: string | null;
  wasPrompted?: boolean | undefined;
  awaitsAgreement?: boolean | undefined;
}

export const trackingPageOf = (order: PayableOrder): string => `/track-order/${order.trackingNumber}`;

/** @param onAmountChanged stable; called when the order's total is another one: its drinks were changed elsewhere */
export function usePayment(
  order: PayableOrder,
  onAmountChanged: () => void,
): {
  state: PaymentState;
  pay(phoneNumber: string): void;
  retry(): void;
  /** Retries and pays in one press. */
  resend(phoneNumber: string): void;
} {
  const { config } = useShop();
  const [state, dispatch] = useReducer(advancePayment, order.paymentReference, beginPayment);
  const isInitiating = useRef(false);

  const pay = useCallback(
    async (phoneNumber: string) => {
      // Two clicks can happen before the button is rendered as disabled.
      if (isInitiating.current) return;
      isInitiating.current = true;
      dispatch({ type: 'pay' });
      try {
        const prompt = await initiatePayment(createStore(config).functions, {
          phoneNumber,
          amount: order.total,
          trackingNumber: order.trackingNumber,
          orderId: order.orderId,
        });
        // A prompt on another phone is not resumed on this device.
        if (!prompt.promptedPhone) {
          const { paymentReference } = prompt;
          rememberPrompt(order.orderId, { paymentReference, phone: phoneNumber.trim() });
        }
        dispatch({ type: 'initiated', ...prompt });
      } catch (error) {
        if (error instanceof PaymentRefusal && isInReview(error)) return dispatch({ type: 'in_review' });
        if (error instanceof PaymentRefusal && isCancelled(error)) return dispatch({ type: 'cancelled' });
        if (error instanceof PaymentRefusal && error.isShopProblem) return dispatch({ type: 'paused' });
        const hasChanged = error instanceof PaymentRefusal && isAmountChanged(error);
        if (hasChanged) onAmountChanged();
        const message = navigator.onLine
          ? hasChanged
            ? 'This order was changed in the meantime. Try again to see and pay its new total.'
            : error instanceof PaymentRefusal && error.message
          : 'You are offline. Please try again when you are back. 📵';
        dispatch({
          type: 'refused',
          error: message || 'Failed to initiate payment. Please try again. ⚠️',
          isUnreached: isPromptFailure(error),
          isUnanswered: mayStillPrompt(error),
          isFinal: isFinalRefusal(error),
        });
      } finally {
        isInitiating.current = false;
      }
    },
    [config, order.orderId, order.total, order.trackingNumber, onAmountChanged],
  );

  // While the shop sends no prompts, the customer pays without one instead of asking for one that can only fail.
  const asksForPrompt = state.phase === 'idle';
  useEffect(() => {
    if (!asksForPrompt) return;
    let isStopped = false;
    arePromptsPaused(createStore(config).tables).then(
      (isPaused) => isPaused && !isStopped && dispatch({ type: 'paused' }),
      (error: unknown) => console.warn('The state of prompts could not be fetched', error),
    );
    return () => {
      isStopped = true;
    };
  }, [config, asksForPrompt]);

  const openRequest = state.phase === 'processing' ? state.paymentReference : null;
  const isResumed = openRequest !== null && openRequest === order.paymentReference;
  useEffect(() => {
    if (!openRequest) return;
    const { functions } = createStore(config);
    let isPolling = false;
    let isStopped = false;
    async function poll(paymentReference: string) {
      if (isPolling) return;
      isPolling = true;
      try {
        const answer = await checkPayment(functions, paymentReference);
        if (!isStopped) dispatch({ type: 'reported', paymentReference, ...answer });
      } catch (error) {
        console.warn('The payment status could not be fetched; polling again', error);
        if (!isStopped) dispatch({ type: 'unanswered' });
      } finally {
        isPolling = false;
      }
    }
    const pollNow = () => void poll(openRequest);
    // Phones pause timers of a page behind the M-PESA menu: poll once it is visible again.
    const onReturn = () => document.visibilityState === 'visible' && pollNow();
    const timer = setInterval(pollNow, pollIntervalMs);
    document.addEventListener('visibilitychange', onReturn);
    window.addEventListener('online', pollNow);
    if (isResumed) pollNow();
    return () => {
      isStopped = true;
      clearInterval(timer);
      window.removeEventListener('online', pollNow);
      document.removeEventListener('visibilitychange', onReturn);
    };
  }, [openRequest, isResumed, config]);

  // While the dialog shows the payment, its result is not announced in a toast.
  useEffect(() => shownPayments.show(order.orderId), [order.orderId]);
  const endedRequest = useRef<string | null>(order.paymentReference);
  useEffect(() => {
    if (state.phase === 'processing') endedRequest.current = state.paymentReference;
    const hasFailed = state.phase === 'failed';
    const isOver = state.phase === 'completed' || state.phase === 'in_review' || state.phase === 'cancelled';
    if ((hasFailed || isOver) && endedRequest.current) announcedPayments.add(endedRequest.current);
    if (isOver) closePayment(order.orderId);
    if (hasFailed) rememberPrompt(order.orderId, null);
  }, [state, order.orderId]);

  const retry = useCallback(() => dispatch({ type: 'retry' }), []);
  const resend = useCallback(
    (phoneNumber: string) => {
      retry();
      void pay(phoneNumber);
    },
    [retry, pay],
  );
  return { state, pay, retry, resend };
}
