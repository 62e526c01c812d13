// Runs the payment machine: sends the prompt, polls its outcome every three seconds, and stores both on the device.
import { useCallback, useEffect, useReducer, useRef } from 'react';
import { closePayment, type RememberedOrder, rememberPrompt } from '../../lib/remembered-orders.ts';
import { createStore } from '../../lib/store.ts';
import { useShop } from '../layout/use-shop.ts';
import { announcedPayments, shownPayments } from '../own-orders/announced-payments.ts';
import {
  checkPayment,
  initiatePayment,
  isCancelled,
  isHeld,
  isPromptFailure,
  isUnanswered,
  PaymentRefusal,
} from './payment-calls.ts';
import { advancePayment, beginPayment, type PaymentState, pollInterval } from './payment-machine.ts';

/** What must be known of an order to pay for it. */
export interface PayableOrder {
  orderId: string;
  trackingNumber: string;
  /** Cents. */
  total: number;
  /** Prefills the phone to pay with; '' when it is not known here. */
  phone: string;
  /** Of a prompt that is already open, so that its outcome is waited for; null otherwise. */
  paymentReference: string | null;
  /** The ordered product, to order it again, if stored on this device. */
  ordered?: RememberedOrder['ordered'];
}

export const trackingPageOf = (order: PayableOrder): string => `/track-order/${order.trackingNumber}`;

export function usePayment(order: PayableOrder): {
  state: PaymentState;
  pay(phoneNumber: string): void;
  retry(): void;
} {
  const { config } = useShop();
  const [state, tell] = useReducer(advancePayment, order.paymentReference, beginPayment);
  const isInitiating = useRef(false);

  const pay = useCallback(
    async (phoneNumber: string) => {
      // Two clicks can happen before the button is rendered as disabled.
      if (isInitiating.current) return;
      isInitiating.current = true;
      tell({ type: 'pay' });
      try {
        const prompt = await initiatePayment(createStore(config).functions, {
          phoneNumber,
          amount: order.total,
          trackingNumber: order.trackingNumber,
          orderId: order.orderId,
        });
        // Another phone's prompt is not continued on this device.
        if (!prompt.promptedPhone) {
          const { paymentReference } = prompt;
          rememberPrompt(order.orderId, { paymentReference, phone: phoneNumber.trim() });
        }
        tell({ type: 'initiated', ...prompt });
      } catch (error) {
        if (error instanceof PaymentRefusal && isHeld(error)) return tell({ type: 'held' });
        if (error instanceof PaymentRefusal && isCancelled(error)) return tell({ type: 'cancelled' });
        const message = navigator.onLine
          ? error instanceof PaymentRefusal && error.message
          : 'You are offline. Please try again when you are back. 📵';
        tell({
          type: 'refused',
          error: message || 'Failed to initiate payment. Please try again. ⚠️',
          isUnreached: isPromptFailure(error),
          isUnanswered: isUnanswered(error),
        });
      } finally {
        isInitiating.current = false;
      }
    },
    [config, order.orderId, order.total, order.trackingNumber],
  );

  const openRequest = state.phase === 'processing' ? state.paymentReference : null;
  const isResumed = openRequest !== null && openRequest === order.paymentReference;
  useEffect(() => {
    if (!openRequest) return;
    const { functions } = createStore(config);
    let isAsking = false;
    let isOver = false;
    async function ask(paymentReference: string) {
      if (isAsking) return;
      isAsking = true;
      try {
        const answer = await checkPayment(functions, paymentReference);
        if (!isOver) tell({ type: 'told', paymentReference, ...answer });
      } catch (error) {
        console.warn('The payment status could not be fetched; asking again', error);
        if (!isOver) tell({ type: 'unanswered' });
      } finally {
        isAsking = false;
      }
    }
    const askNow = () => void ask(openRequest);
    // Phones pause timers of a page behind the M-PESA menu: poll once it is visible again.
    const onReturn = () => document.visibilityState === 'visible' && askNow();
    const timer = setInterval(askNow, pollInterval);
    document.addEventListener('visibilitychange', onReturn);
    window.addEventListener('online', askNow);
    if (isResumed) askNow();
    return () => {
      isOver = true;
      clearInterval(timer);
      window.removeEventListener('online', askNow);
      document.removeEventListener('visibilitychange', onReturn);
    };
  }, [openRequest, isResumed, config]);

  // What the dialog shows is not announced once more.
  useEffect(() => shownPayments.show(order.orderId), [order.orderId]);
  const endedRequest = useRef<string | null>(order.paymentReference);
  useEffect(() => {
    if (state.phase === 'processing') endedRequest.current = state.paymentReference;
    const isOver = ['completed', 'held', 'cancelled', 'failed'].includes(state.phase);
    if (isOver && endedRequest.current) announcedPayments.add(endedRequest.current);
    if (state.phase === 'completed' || state.phase === 'held' || state.phase === 'cancelled') {
      closePayment(order.orderId);
    }
    if (state.phase === 'failed') rememberPrompt(order.orderId, null);
  }, [state, order.orderId]);

  return { state, pay, retry: useCallback(() => tell({ type: 'retry' }), []) };
}
