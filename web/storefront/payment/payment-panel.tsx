// The inside of the payment dialog: runs the payment and shows the state it is in.
import { useEffect, useRef, useState } from 'react';
import { useNavigate } from 'react-router';
import { formatPhone } from '../../../domain/phone.ts';
import { useTakesTill } from './pay-by-till.tsx';
import {
  PaidByHand,
  PaymentChecked,
  PaymentFailed,
  PaymentReceived,
  ReadyToPay,
  WaitingForMpesa,
} from './payment-states.tsx';
import { type PayableOrder, trackingPageOf, usePayment } from './use-payment.ts';

interface PaymentPanelProps {
  order: PayableOrder;
  /** Closes the dialog around it. */
  onClose(): void;
  /** Given when the order was placed earlier: leaves it for a new one. */
  onOrderAnew?: (() => void) | undefined;
}

export function PaymentPanel({ order, onClose, onOrderAnew }: PaymentPanelProps) {
  const { state, pay, retry } = usePayment(order);
  const [phone, setPhone] = useState(() => formatPhone(order.phone).replaceAll(' ', ''));
  const takesTill = useTakesTill();
  const [isByHand, setByHand] = useState(false);
  const headingRef = useHeadingFocus(isByHand ? 'by hand' : state.phase);
  const navigate = useNavigate();
  const common = { order, headingRef };

  function track() {
    onClose();
    navigate(trackingPageOf(order));
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
      return state.standing === 'review' ? (
        <PaymentChecked {...common} onTrack={track} />
      ) : (
        <WaitingForMpesa {...common} state={state} phone={phone} onClose={onClose} />
      );
    case 'completed':
      return <PaymentReceived {...common} onTrack={track} />;
    case 'held':
      return <PaymentChecked {...common} onTrack={track} />;
    case 'failed':
      return (
        <PaymentFailed
          {...common}
          error={state.error}
          isUnreached={state.isUnreached}
          holdSeconds={state.holdSeconds}
          onRetry={retry}
          onClose={onClose}
          onPayByHand={payByHand}
        />
      );
  }
}

/** Each state begins at its heading, for who listens to the page and for who drives it by keyboard. */
function useHeadingFocus(phase: string) {
  const heading = useRef<HTMLHeadingElement>(null);
  const last = useRef<string | null>(null);
  useEffect(() => {
    // Opening is announced by the dialog itself; sending keeps the focus where it is.
    if (last.current !== null && last.current !== phase && phase !== 'initiating') heading.current?.focus();
    last.current = phase;
  }, [phase]);
  return heading;
}
