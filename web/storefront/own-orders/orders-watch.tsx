// On devices with orders: updates their state and announces the end of payments outside a dialog.
import { useEffect, useRef } from 'react';
import { useNavigate } from 'react-router';
import { describePaymentFailure } from '../../../domain/payment-result.ts';
import { onStoredOrdersChange, rememberedOrders, rememberPrompt } from '../../lib/remembered-orders.ts';
import { createStore } from '../../lib/store.ts';
import type { Toast } from '../../ui/toaster.tsx';
import { dismissToast, showToast } from '../../ui/toasts.tsx';
import { useShop } from '../layout/use-shop.ts';
import { checkPayment } from '../payment/payment-calls.ts';
import { pollInterval } from '../payment/payment-machine.ts';
import {
  announcedPayments,
  type FollowedPayment,
  paymentsToFollow,
  shownPayments,
} from './announced-payments.ts';
import { askForOrders, useOwnOrders } from './order-states.ts';

/** Polling interval of payable orders while the page is visible, in ms: with and without an open prompt. */
const askIntervals = { paying: 5000, unpaid: 20_000 };
/** After this many polls (a minute and a half) the interval is five times longer, until polling ends. */
const frequentQuestions = 30;
const mostQuestions = 150;

export interface OrdersWatchProps {
  pathname: string;
}

export default function OrdersWatch({ pathname }: OrdersWatchProps) {
  const { config } = useShop();
  const { orders } = useOwnOrders();
  const isPaying = orders.some(({ meaning }) => meaning?.kind === 'paying');
  const hasUnpaid = orders.some(({ meaning }) => meaning?.canPay);

  useEffect(() => {
    const ask = () => void askForOrders(config);
    const onReturn = () => document.visibilityState === 'visible' && ask();
    ask();
    const end = onStoredOrdersChange(ask);
    window.addEventListener('online', ask);
    document.addEventListener('visibilitychange', onReturn);
    return () => {
      end();
      window.removeEventListener('online', ask);
      document.removeEventListener('visibilitychange', onReturn);
    };
  }, [config]);

  useEffect(() => {
    if (!hasUnpaid) return;
    const timer = setInterval(
      () => document.visibilityState === 'visible' && void askForOrders(config),
      isPaying ? askIntervals.paying : askIntervals.unpaid,
    );
    return () => clearInterval(timer);
  }, [config, hasUnpaid, isPaying]);

  usePaymentAnnouncements(pathname);
  return null;
}

function usePaymentAnnouncements(pathname: string) {
  const { config } = useShop();
  const navigate = useNavigate();
  const page = useRef(pathname);
  useEffect(() => {
    page.current = pathname;
  }, [pathname]);

  useEffect(() => {
    const { functions } = createStore(config);
    const asked = new Map<string, number>();
    const asking = new Set<string>();
    let isOver = false;

    async function ask(payment: FollowedPayment) {
      const { paymentReference, orderId, trackingNumber } = payment;
      asking.add(paymentReference);
      asked.set(paymentReference, (asked.get(paymentReference) ?? 0) + 1);
      // Without an answer it is polled again.
      const answer = await checkPayment(functions, paymentReference).catch(() => null);
      asking.delete(paymentReference);
      const toast = answer && toastOf(payment, answer.status, answer.resultCode);
      if (isOver || !toast || shownPayments.has(orderId) || !announcedPayments.add(paymentReference)) return;
      const isCurrent = rememberedOrders().some((order) => order.paymentReference === paymentReference);
      if (isCurrent) rememberPrompt(orderId, null);
      else void askForOrders(config);
      const path = `/track-order/${trackingNumber}`;
      // That page announces by itself that the order is paid.
      if (answer.status === 'completed' && page.current === path) return;
      const topic = `payment ${paymentReference}`;
      showToast({
        ...toast,
        topic,
        content: (
          <a
            href={path}
            onClick={(event) => {
              if (event.metaKey || event.ctrlKey || event.shiftKey) return;
              event.preventDefault();
              void dismissToast(topic);
              void navigate(path);
            }}
            className="-mx-2 -mb-2 flex min-h-11 w-fit items-center rounded-md px-2 font-bold text-dusk-600 underline underline-offset-2"
          >
            {answer.status === 'failed' ? 'Pay for that order' : 'Track your order'}
          </a>
        ),
      });
    }

    // At once: another tab removes a prompt from the storage as soon as it has reported its end.
    const notePrompts = () => void paymentsToFollow(rememberedOrders());
    notePrompts();
    const endNoting = onStoredOrdersChange(notePrompts);
    let ticks = 0;
    function follow() {
      ticks += 1;
      for (const payment of paymentsToFollow(rememberedOrders())) {
        const times = asked.get(payment.paymentReference) ?? 0;
        const isDue = times < frequentQuestions || (times < mostQuestions && ticks % 5 === 0);
        if (isDue && !asking.has(payment.paymentReference) && !shownPayments.has(payment.orderId)) {
          void ask(payment);
        }
      }
    }
    // The first time after one interval: a dialog that opens by itself after a reload shows the payment.
    const timer = setInterval(follow, pollInterval);
    return () => {
      isOver = true;
      endNoting();
      clearInterval(timer);
    };
  }, [config, navigate]);
}

/** @returns null while the payment has not ended */
function toastOf(
  { trackingNumber }: FollowedPayment,
  status: string,
  resultCode: string | null,
): Toast | null {
  switch (status) {
    case 'completed':
      return { title: 'Payment received', text: `Order ${trackingNumber} is paid. Asante!` };
    case 'review':
      return {
        kind: 'info',
        title: 'We are checking your payment',
        text: `Please don't pay again for order ${trackingNumber}. Our team will get in touch.`,
      };
    case 'failed':
      return {
        kind: 'error',
        title: 'Payment not completed',
        text: `Order ${trackingNumber}: ${describePaymentFailure(resultCode)}`,
      };
    default:
      return null;
  }
}
