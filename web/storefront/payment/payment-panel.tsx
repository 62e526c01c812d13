// The inside of the payment dialog: runs the payment and shows the state it is in.
import { useEffect, useRef, useState } from 'react';
import { useNavigate } from 'react-router';
import { cancelledFacts, describeOrder, type OrderMeaning } from '../../../domain/order-meaning.ts';
import { formatPhone } from '../../../domain/phone.ts';
import { useLeaveDialog } from '../../ui/dialog-history.ts';
import { useShop } from '../layout/use-shop.ts';
import { askForOrders, useOwnMeaning } from '../own-orders/order-states.ts';
import { useTakesTill } from './pay-by-till.tsx';
import type { PaymentState } from './payment-machine.ts';
import {
  OrderOver,
  PaidByHand,
  PaymentFailed,
  PaymentReceived,
  ReadyToPay,
  WaitingForMpesa,
} from './payment-states.tsx';
import { type PayableOrder, trackingPageOf, usePayment } from './use-payment.ts';

/** In ms. */
const askInterval = 5000;

interface PaymentPanelProps {
  order: PayableOrder;
  /** The meaning of the order's state, if the page tracks it; otherwise from this device's orders. */
  meaning?: OrderMeaning | null;
  /** Closes the dialog around it. */
  onClose(): void;
  /** Orders the same again, with the form filled in: this order is over. */
  onOrderAgain(): void;
  /** Given when the order was placed earlier: leaves it for a new one. */
  onOrderAnew?: (() => void) | undefined;
}

export function PaymentPanel({
  order,
  meaning: followed = null,
  onClose,
  onOrderAgain,
  onOrderAnew,
}: PaymentPanelProps) {
  const { state, pay, retry } = usePayment(order);
  const own = useOwnMeaning(order.trackingNumber);
  const over = overOf(state, followed ?? own);
  const [phone, setPhone] = useState(() => formatPhone(order.phone).replaceAll(' ', ''));
  const takesTill = useTakesTill();
  const [isByHand, setByHand] = useState(false);
  const headingRef = useHeadingFocus(over ? over.kind : isByHand ? 'by hand' : state.phase);
  useFrequentAnswers(state.phase === 'idle' || state.phase === 'failed');
  const navigate = useNavigate();
  const { replace, leave } = useLeaveDialog();
  const common = { order, headingRef };

  function track() {
    leave();
    onClose();
    // What the page says in the first moments: staff find money that was paid by hand.
    void navigate(trackingPageOf(order), { replace, state: isByHand ? { isPaidByHand: true } : null });
  }

  if (over && over.tone === 'done') return <PaymentReceived {...common} onTrack={track} />;
  if (over) {
    return (
      <OrderOver
        {...common}
        meaning={over}
        onTrack={track}
        onClose={onClose}
        onOrderAgain={over.canOrderAgain ? onOrderAgain : undefined}
      />
    );
  }
  const payByHand = takesTill ? () => setByHand(true) : undefined;
  if (isByHand && (state.phase === 'idle' || state.phase === 'failed')) {
    return <PaidByHand {...common} onBack={() => setByHand(false)} onTrack={track} />;
  }
  switch (state.phase) {
    case 'idle':
    case 'initiating':
      return (
        <ReadyToPay
          {...common}
          isSending={state.phase === 'initiating'}
          endedPhone={state.phase === 'idle' ? state.endedPhone : undefined}
          phone={phone}
          onPhoneChange={setPhone}
          onPay={pay}
          onClose={onClose}
          onOrderAnew={onOrderAnew}
          onPayByHand={payByHand}
        />
      );
    case 'processing':
      return <WaitingForMpesa {...common} state={state} phone={phone} onClose={onClose} />;
    case 'failed':
      return (
        <PaymentFailed
          {...common}
          error={state.error}
          isUnreached={state.isUnreached}
          isUnanswered={state.isUnanswered}
          holdSeconds={state.holdSeconds}
          onRetry={retry}
          onClose={onClose}
          onPayByHand={payByHand}
        />
      );
    // What these mean is shown above.
    case 'completed':
    case 'held':
    case 'cancelled':
      return null;
  }
}

/** Why there is nothing to pay here any more; null while there is. */
function overOf(state: PaymentState, meaning: OrderMeaning | null): OrderMeaning | null {
  switch (state.phase) {
    case 'completed':
      return describeOrder({ ...cancelledFacts, status: 'processing', paymentStatus: 'paid' }, 0);
    case 'held':
      return checking;
    case 'processing':
      if (state.status === 'review') return checking;
      // Cancelled while its prompt is open: the customer must not confirm it.
      return meaning?.kind === 'cancelled' ? meaning : null;
    case 'cancelled':
      return meaning?.kind === 'cancelled' ? meaning : describeOrder(cancelledFacts, 0);
    case 'initiating':
      return null;
    case 'idle':
    case 'failed':
      return meaning && !meaning.canPay ? meaning : null;
  }
}

/** While it offers to pay: the order may be paid by hand or from another device, and must not be paid twice. */
function useFrequentAnswers(isOffered: boolean) {
  const { config } = useShop();
  useEffect(() => {
    if (!isOffered) return;
    const timer = setInterval(
      () => document.visibilityState === 'visible' && void askForOrders(config),
      askInterval,
    );
    return () => clearInterval(timer);
  }, [config, isOffered]);
}

const checking = describeOrder({ ...cancelledFacts, status: 'pending', paymentCheck: 'review' }, 0);

/** Each state moves focus to its heading, for screen readers and keyboards. */
function useHeadingFocus(phase: string) {
  const heading = useRef<HTMLHeadingElement>(null);
  const last = useRef<string | null>(null);
  useEffect(() => {
    // The dialog announces its opening; sending does not move focus.
    if (last.current !== null && last.current !== phase && phase !== 'initiating') heading.current?.focus();
    last.current = phase;
  }, [phase]);
  return heading;
}
