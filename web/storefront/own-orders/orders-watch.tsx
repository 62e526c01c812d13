// On devices with orders: updates their state and announces results of payments outside a dialog.
import { useEffect, useRef } from 'react';
import { useNavigate } from 'react-router';
import { describePaymentFailure, type ReportedStatus } from '../../../domain/mpesa/payment-result.ts';
import { createStore } from '../../../supabase/store.ts';
import type { OrderMeaning } from '../../lib/orders/order-meaning.ts';
import {
  onStoredOrdersChange,
  rememberedOrders,
  rememberPrompt,
} from '../../lib/orders/remembered-orders.ts';
import type { Toast } from '../../ui/toasts/toaster.tsx';
import { dismissToast, showToast } from '../../ui/toasts/toasts.tsx';
import { useShop } from '../layout/use-shop.ts';
import { checkPayment } from '../payment/payment-calls.ts';
import { pollIntervalMs } from '../payment/payment-machine.ts';
import {
  announcedPayments,
  type FollowedPayment,
  paymentsToFollow,
  paymentTopic,
  shownPayments,
} from './announced-payments.ts';
import { loadOrderStates, useOrderPolling, useOwnOrders } from './order-states.ts';

/** Polling interval of payable orders while the page is visible, in ms: with and without an open prompt. */
const pollIntervalsMs = { paying: 5000, unpaid: 20_000 };
/** After this many polls (a minute and a half) the interval is five times longer, until polling ends. */
const frequentPolls = 30;
const maxPolls = 150;

/** For each shown toast about an unfinished payment: whether it is still true. */
const toastsByOrder = new Map<string, (meaning: OrderMeaning) => boolean>();
const isStillTrue: Partial<Record<ReportedStatus, (meaning: OrderMeaning) => boolean>> = {
  // The last known state of the order may be older than the toast.
  failed: ({ canPay }) => canPay,
  review: ({ kind, canPay }) => kind === 'checking' || canPay,
};

export interface OrdersWatchProps {
  pathname: string;
}

export default function OrdersWatch({ pathname }: OrdersWatchProps) {
  const { config } = useShop();
  const { orders } = useOwnOrders();
  const isPaying = orders.some(({ meaning }) => meaning?.kind === 'paying');
  const hasUnpaid = orders.some(({ meaning }) => meaning?.canPay);

  useEffect(() => {
    const load = () => void loadOrderStates(config);
    const onReturn = () => document.visibilityState === 'visible' && load();
    load();
    const end = onStoredOrdersChange(load);
    window.addEventListener('online', load);
    document.addEventListener('visibilitychange', onReturn);
    return () => {
      end();
      window.removeEventListener('online', load);
      document.removeEventListener('visibilitychange', onReturn);
    };
  }, [config]);

  useOrderPolling(config, hasUnpaid, isPaying ? pollIntervalsMs.paying : pollIntervalsMs.unpaid);
  usePaymentAnnouncements(pathname);
  // A toast about an order's payment ends with the state that it reports.
  useEffect(() => {
    for (const { order, meaning } of orders) {
      const isTrue = toastsByOrder.get(order.orderId);
      if (!isTrue || !meaning || isTrue(meaning)) continue;
      toastsByOrder.delete(order.orderId);
      void dismissToast(paymentTopic(order.orderId)).catch(() => {});
    }
  }, [orders]);
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
    const pollCounts = new Map<string, number>();
    const pending = new Set<string>();
    let isStopped = false;

    async function poll(payment: FollowedPayment) {
      const { paymentReference, orderId, trackingNumber } = payment;
      pending.add(paymentReference);
      pollCounts.set(paymentReference, (pollCounts.get(paymentReference) ?? 0) + 1);
      // Without a response it is polled again.
      const answer = await checkPayment(functions, paymentReference).catch(() => null);
      pending.delete(paymentReference);
      const toast = answer && toastOf(payment, answer.status, answer.resultCode);
      if (isStopped || !toast || shownPayments.has(orderId) || !announcedPayments.add(paymentReference))
        return;
      const isCurrent = rememberedOrders().some((order) => order.paymentReference === paymentReference);
      if (isCurrent) rememberPrompt(orderId, null);
      else void loadOrderStates(config);
      const path = `/track-order/${trackingNumber}`;
      // That page itself shows that the order is paid.
      if (answer.status === 'completed' && page.current === path) return;
      const topic = paymentTopic(orderId);
      const lasts = isStillTrue[answer.status];
      if (lasts) toastsByOrder.set(orderId, lasts);
      else toastsByOrder.delete(orderId);
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

    // At once, because another tab removes a prompt from the storage as soon as it has announced the result.
    const notePrompts = () => void paymentsToFollow(rememberedOrders());
    notePrompts();
    const endNoting = onStoredOrdersChange(notePrompts);
    let ticks = 0;
    function follow() {
      ticks += 1;
      for (const payment of paymentsToFollow(rememberedOrders())) {
        const polls = pollCounts.get(payment.paymentReference) ?? 0;
        const isDue = polls < frequentPolls || (polls < maxPolls && ticks % 5 === 0);
        if (isDue && !pending.has(payment.paymentReference) && !shownPayments.has(payment.orderId)) {
          void poll(payment);
        }
      }
    }
    // The first poll is after one interval: a dialog that opens by itself after a reload shows the payment.
    const timer = setInterval(follow, pollIntervalMs);
    return () => {
      isStopped = true;
      endNoting();
      clearInterval(timer);
    };
  }, [config, navigate]);
}

/** @returns null while the payment is open */
function toastOf(
  { trackingNumber }: FollowedPayment,
  status: ReportedStatus,
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
    case 'pending':
    case 'unresolved':
      return null;
  }
}
