// The content of the payment dialog: runs the payment and shows its state.
import { useCallback, useEffect, useEffectEvent, useRef, useState } from 'react';
import { useNavigate } from 'react-router';
import { formatPhone } from '../../../domain/people/phone.ts';
import { createStore } from '../../../supabase/store.ts';
import { cancelledFacts, describeOrder, type OrderMeaning } from '../../lib/orders/order-meaning.ts';
import { rememberDrinks } from '../../lib/orders/remembered-orders.ts';
import { useLeaveDialog } from '../../ui/dialog/dialog-history.ts';
import { dismissToast } from '../../ui/toasts/toasts.tsx';
import { useShop } from '../layout/use-shop.ts';
import { paymentTopic } from '../own-orders/announced-payments.ts';
import { loadOrderStates, useOrderPolling, useOwnMeaning } from '../own-orders/order-states.ts';
import { ChangeDrinks, type ChangedDrinks } from './details/change-drinks.tsx';
import { readChangedOrder } from './details/order-drinks.ts';
import { useOrderDetails } from './details/use-order-details.ts';
import { useHasTill } from './pay-by-till.tsx';
import { AskForCash, CashChosen } from './pay-cash.tsx';
import { PaymentFailed } from './payment-failed.tsx';
import { canResend, type PaymentState } from './payment-machine.ts';
import { PaymentReceived } from './payment-received.tsx';
import { OrderClosed, PaidByHand, PromptsPaused, ReadyToPay, WaitingForMpesa } from './payment-states.tsx';
import { PaymentLanguage } from './texts/payment-language.tsx';
import { type PayableOrder, trackingPageOf, usePayment } from './use-payment.ts';

/** Polling interval in ms. */
const pollIntervalMs = 5000;

interface PaymentPanelProps {
  order: PayableOrder;
  /** The meaning of the order's state, if the page tracks it; otherwise from this device's orders. */
  meaning?: OrderMeaning | null;
  /** Closes the dialog. */
  onClose(): void;
  /** Starts a new order with the form filled in, because this order has ended. */
  onOrderAgain(): void;
  /** Starts a different order. Given if this order was placed earlier. */
  onNewOrder?: (() => void) | undefined;
  /** Whether the prompt is sent to the order's phone without a press. */
  isSentAtOnce?: boolean;
}

export function PaymentPanel(props: PaymentPanelProps) {
  return (
    <PaymentLanguage>
      <PaymentStates {...props} />
    </PaymentLanguage>
  );
}

function PaymentStates({
  order: given,
  meaning: followed = null,
  onClose,
  onOrderAgain,
  onNewOrder,
  isSentAtOnce = false,
}: PaymentPanelProps) {
  const { config, settings } = useShop();
  // As changed since the dialog opened, here or elsewhere.
  const [changed, setChanged] = useState<ChangedDrinks | null>(null);
  const order = { ...given, ...changed };
  const { orderId, trackingNumber, accessKey = null } = given;
  const reread = useCallback(() => {
    if (!accessKey) return;
    void readChangedOrder(createStore(config).tables, { trackingNumber, accessKey }).then((found) => {
      if (!found) return;
      rememberDrinks(orderId, found);
      setChanged(found);
    });
  }, [config, orderId, trackingNumber, accessKey]);
  const { state, pay, retry, resend } = usePayment(order, reread);
  const [isAdding, setAdding] = useState(false);
  // A payment that has begun fixes the drinks.
  const [isFixed, setFixed] = useState(given.paymentReference !== null || given.wasPrompted === true);
  const ownMeaning = useOwnMeaning(order.trackingNumber);
  // Until its state is loaded.
  const placedMeaning = given.awaitsAgreement ? toAgree : null;
  const final = findFinalMeaning(state, followed ?? ownMeaning ?? placedMeaning);
  const [phone, setPhone] = useState(() => formatPhone(order.phone).replaceAll(' ', ''));
  const sendAtOnce = useEffectEvent(() => {
    setFixed(true);
    pay(phone);
  });
  useEffect(() => {
    if (isSentAtOnce) sendAtOnce();
  }, [isSentAtOnce]);
  const hasTill = useHasTill();
  const [isByHand, setByHand] = useState(false);
  const [isChanging, setChanging] = useState(false);
  const [cash, setCash] = useState<'asked' | 'chosen' | null>(null);
  const isCashChosen = (followed ?? ownMeaning)?.paysCash === true;
  const arrivesBy = (followed ?? ownMeaning)?.arrivesBy ?? null;
  const details = useOrderDetails(
    { trackingNumber, accessKey },
    state.phase === 'processing' || final?.tone === 'done',
  );
  // The payment fixes when it arrives.
  const isCompleted = state.phase === 'completed';
  useEffect(() => {
    if (isCompleted) void loadOrderStates(config);
  }, [config, isCompleted]);
  const headingRef = useHeadingFocus(
    final
      ? final.kind
      : isAdding
        ? 'initiating'
        : cash
          ? `cash ${cash}`
          : isByHand
            ? 'by hand'
            : isChanging
              ? 'initiating'
              : state.phase,
  );
  usePaymentToast(order.orderId);
  useOrderToast(
    final !== null || cash === 'chosen' || state.phase === 'processing' || state.phase === 'failed',
  );
  // While payment is offered: the order may be paid by hand or from another device, and must not be paid twice.
  const isOffered = state.phase === 'idle' || state.phase === 'failed' || state.phase === 'paused';
  useOrderPolling(config, isOffered, pollIntervalMs);
  const navigate = useNavigate();
  const { replace, leave } = useLeaveDialog();
  const common = { order, headingRef };

  function track(paidByHand = isByHand) {
    leave();
    onClose();
    // Lets the page show at first that staff will find a payment made by hand.
    void navigate(trackingPageOf(order), { replace, state: paidByHand ? { isPaidByHand: true } : null });
  }

  if (final && final.tone === 'done')
    return (
      <PaymentReceived
        {...common}
        details={details}
        arrivesBy={arrivesBy}
        onTrack={() => track()}
        onClose={onClose}
      />
    );
  if (final) {
    return (
      <OrderClosed
        {...common}
        meaning={final}
        onTrack={() => track()}
        onClose={onClose}
        onOrderAgain={final.canOrderAgain ? onOrderAgain : undefined}
      />
    );
  }
  const mayPayCash = settings.offers_cash && accessKey !== null && !isCashChosen && cash !== 'chosen';
  const payCash = mayPayCash ? () => setCash('asked') : undefined;
  const isPromptOpen = state.phase === 'initiating' || state.phase === 'processing';
  if (cash === 'asked' && accessKey !== null && !isPromptOpen) {
    return (
      <AskForCash
        {...common}
        order={{ ...order, accessKey }}
        onChosen={() => setCash('chosen')}
        onBack={() => setCash(null)}
      />
    );
  }
  if (cash === 'chosen' && !isPromptOpen) {
    return (
      <CashChosen {...common} arrivesBy={arrivesBy} onTrack={() => track()} onPayNow={() => setCash(null)} />
    );
  }
  const payByHand = hasTill ? () => setByHand(true) : undefined;
  if (isByHand && (state.phase === 'idle' || state.phase === 'failed')) {
    return <PaidByHand {...common} onBack={() => setByHand(false)} onTrack={() => track()} />;
  }
  const mayAdd =
    accessKey !== null && !isFixed && state.phase === 'idle' && (followed ?? ownMeaning)?.kind !== 'paying';
  if (isAdding && accessKey !== null && state.phase === 'idle') {
    return (
      <ChangeDrinks
        order={{ ...order, accessKey }}
        onChanged={(now) => {
          setChanged(now);
          setAdding(false);
        }}
        onBack={(cannotChange) => {
          if (cannotChange) setFixed(true);
          setAdding(false);
        }}
      />
    );
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
          isPhoneFocused={isChanging}
          onPay={(number) => {
            setChanging(false);
            setFixed(true);
            pay(number);
          }}
          onAddDrink={mayAdd ? () => setAdding(true) : undefined}
          onClose={onClose}
          onNewOrder={onNewOrder}
          onPayByHand={payByHand}
          onPayCash={payCash}
        />
      );
    case 'processing':
      return <WaitingForMpesa {...common} state={state} phone={phone} hasTill={hasTill} onClose={onClose} />;
    case 'failed':
      return (
        <PaymentFailed
          {...common}
          state={state}
          phone={phone}
          onChangePhone={() => {
            setChanging(true);
            retry();
          }}
          onRetry={retry}
          onResend={canResend(state) ? () => resend(phone) : undefined}
          onClose={onClose}
          onPayByHand={payByHand}
          onPayCash={payCash}
        />
      );
    case 'paused':
      return (
        <PromptsPaused
          {...common}
          hasTill={hasTill}
          onTrack={() => track(hasTill)}
          onClose={onClose}
          onPayCash={payCash}
        />
      );
    // Shown above, as `final`.
    case 'completed':
    case 'in_review':
    case 'cancelled':
      return null;
  }
}

/** Why there is nothing to pay any more; null while there is. */
function findFinalMeaning(state: PaymentState, meaning: OrderMeaning | null): OrderMeaning | null {
  switch (state.phase) {
    case 'completed':
      return describeOrder({ ...cancelledFacts, status: 'processing', paymentStatus: 'paid' }, 0);
    case 'in_review':
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
    case 'paused':
      return meaning && !meaning.canPay ? meaning : null;
  }
}

const toAgree = describeOrder({ ...cancelledFacts, status: 'pending', awaitsAgreement: true }, 0);

const checking = describeOrder({ ...cancelledFacts, status: 'pending', paymentCheck: 'review' }, 0);

/** A toast about this order's last payment ends when its dialog opens. */
function usePaymentToast(orderId: string) {
  useEffect(() => void dismissToast(paymentTopic(orderId)).catch(() => {}), [orderId]);
}

/** The toast of a placed order asks to pay: dismissed once there is something else to do, and with the dialog. */
function useOrderToast(isOutdated: boolean) {
  useEffect(() => {
    if (isOutdated) void dismissToast('order').catch(() => {});
  }, [isOutdated]);
  useEffect(() => () => void dismissToast('order').catch(() => {}), []);
}

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
