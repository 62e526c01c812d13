// The states of the payment dialog, one component each.
import { type FormEvent, type ReactNode, type RefObject, useEffect, useId, useRef, useState } from 'react';
import { Link } from 'react-router';
import { chargeCents, formatKsh } from '../../../domain/money.ts';
import { formatPhone, normalisePhone } from '../../../domain/phone.ts';
import type { OrderMeaning } from '../../lib/orders/order-meaning.ts';
import { describeOrdered } from '../../lib/orders/remembered-orders.ts';
import { Button } from '../../ui/button.tsx';
import { DialogBody, DialogFooter, DialogHeading } from '../../ui/dialog/dialog-or-drawer.tsx';
import { TextField } from '../../ui/field.tsx';
import { Icon } from '../../ui/icons.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Price, TextWithAmounts } from '../../ui/price.tsx';
import { useIsOnline } from '../../ui/use-is-online.ts';
import { ContactButtons, ContactLinks } from '../layout/contact-links.tsx';
import { ContactShop, PayByTill } from './pay-by-till.tsx';
import { isConnectionLost, type PaymentState, takesLong } from './payment-machine.ts';
import {
  Amount,
  ArrivesBy,
  networkHint,
  PracticeNote,
  promptedElsewhere,
  RingingPhone,
  Spinner,
  Steps,
  TrackingNumber,
} from './payment-parts.tsx';
import { type PayableOrder, trackingPageOf } from './use-payment.ts';

interface StateProps {
  order: PayableOrder;
  headingRef: RefObject<HTMLHeadingElement | null>;
}

/** Side by side if there is space, also on a phone in landscape. */
const actions = 'grid gap-2 md:grid-cols-[1fr_auto] low:grid-cols-[auto_1fr] md:low:grid-cols-[1fr_auto]';

/** Nearly as high as the body of the waiting state, so that the drawer does not move when the payment ends. */
const endedBody = 'grid grid-cols-1 gap-5 max-md:min-h-[min(25rem,54dvh)]';

const phoneProblem = 'Please enter a valid phone number 📱';

interface ReadyToPayProps extends StateProps {
  isSending: boolean;
  /** Masked, if the prompt on another phone has just ended without payment. */
  endedPhone?: string | undefined;
  phone: string;
  /** Whether the customer is about to change the phone. */
  isPhoneFocused: boolean;
  onPhoneChange(phone: string): void;
  onPay(phone: string): void;
  onClose(): void;
  onNewOrder?: (() => void) | undefined;
  /** Given if the shop has a till or paybill number. */
  onPayByHand?: (() => void) | undefined;
  /** Given if the shop offers cash at the door, here and below. */
  onPayCash?: (() => void) | undefined;
  /** Given until a payment begins. */
  onAddDrink?: (() => void) | undefined;
}

/** Idle and initiating: the amount and the phone. */
export function ReadyToPay({
  order,
  headingRef,
  isSending,
  endedPhone,
  phone,
  isPhoneFocused,
  onPhoneChange,
  onPay,
  onClose,
  onNewOrder,
  onPayByHand,
  onPayCash,
  onAddDrink,
}: ReadyToPayProps) {
  const [problem, setProblem] = useState<string>();
  const [isRefused, setRefused] = useState(false);
  const isOffline = !useIsOnline();
  const phoneField = useRef<HTMLInputElement>(null);
  const payButton = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (isPhoneFocused) phoneField.current?.select();
  }, [isPhoneFocused]);
  const formId = useId();
  const charge = chargeCents(order.total);

  function submit(event: FormEvent) {
    event.preventDefault();
    if (normalisePhone(phone)) {
      setProblem(undefined);
      // Checked before sending: after a request without an answer a prompt may still arrive.
      setRefused(!navigator.onLine);
      if (!navigator.onLine) return;
      // The field is about to be disabled, and a focused field that is disabled moves the focus out of the dialog.
      payButton.current?.focus();
      onPay(phone);
    } else {
      setProblem(phoneProblem);
      phoneField.current?.focus();
    }
  }

  return (
    <>
      <DialogHeading
        ref={headingRef}
        title="Pay with M-PESA"
        description="We send a prompt to your phone. You confirm it there with your PIN."
      />
      <DialogBody>
        {/* On a phone in landscape the amount and the phone are side by side. */}
        <form
          id={formId}
          onSubmit={submit}
          noValidate
          className="grid grid-cols-1 items-start gap-5 low:grid-cols-2 low:gap-y-3"
        >
          {endedPhone ? (
            <Notice tone="info" title="You can pay now">
              The prompt on {endedPhone} ended without payment.
            </Notice>
          ) : null}
          <div className="grid grid-cols-1 gap-2">
            <Amount order={order} charge={charge} />
            {onAddDrink ? <TextButton onClick={onAddDrink}>Add another drink</TextButton> : null}
          </div>
          <TextField
            ref={phoneField}
            label="M-PESA phone number"
            type="tel"
            inputMode="tel"
            autoComplete="tel"
            name="phone"
            required
            placeholder="0712345678 or 254712345678"
            value={phone}
            onChange={(event) => onPhoneChange(event.target.value)}
            disabled={isSending}
            hint={networkHint(phone)}
            problem={problem}
          />
          <PracticeNote phone={phone} />
          {onPayCash && !isSending ? <CashButton charge={charge} onClick={onPayCash} /> : null}
          {onPayByHand && !isSending ? <TextButton onClick={onPayByHand}>Pay another way</TextButton> : null}
        </form>
      </DialogBody>
      <DialogFooter isSticky>
        <div role="status">
          {isRefused && isOffline ? (
            <p className="mb-3 rounded-lg border border-ember-200 bg-ember-50 px-5 py-3.5 text-sm">
              <strong className="block text-base">You are offline.</strong>
              No prompt was sent. Pay as soon as your phone has a network again.
            </p>
          ) : null}
        </div>
        <div className={actions}>
          <Button
            ref={payButton}
            type="submit"
            form={formId}
            size="large"
            isBusy={isSending}
            className="md:order-2 low:order-2"
          >
            {isSending ? (
              <>
                <Spinner /> Sending the prompt…
              </>
            ) : (
              `Pay ${formatKsh(charge)}`
            )}
          </Button>
          {onNewOrder && !isSending ? (
            <Button tone="quiet" size="large" onClick={onNewOrder} className="md:mr-auto">
              Start a new order
            </Button>
          ) : (
            <Button tone="quiet" size="large" onClick={onClose} disabled={isSending} className="md:mr-auto">
              Cancel
            </Button>
          )}
        </div>
      </DialogFooter>
    </>
  );
}

interface WaitingProps extends StateProps {
  state: Extract<PaymentState, { phase: 'processing' }>;
  phone: string;
  onClose(): void;
}

/** Processing: the prompt is on the phone. */
export function WaitingForMpesa({ order, headingRef, state, phone, onClose }: WaitingProps) {
  const isOffline = !useIsOnline();
  return (
    <>
      <DialogHeading
        ref={headingRef}
        title={state.promptedPhone ? 'One moment' : 'Check your phone'}
        description={
          state.promptedPhone
            ? 'Another phone has a prompt for this order.'
            : 'Enter your M-PESA PIN in the prompt to confirm.'
        }
      />
      <DialogBody>
        <div className="grid grid-cols-1 justify-items-center gap-5 pt-2 text-center">
          <RingingPhone />
          {state.promptedPhone ? (
            <p className="rounded-lg bg-paper-deep px-5 py-4 text-left font-semibold">
              {promptedElsewhere(state.promptedPhone)}
            </p>
          ) : (
            <Steps phone={phone} charge={chargeCents(order.total)} />
          )}
          <div role="status" className="grid grid-cols-1 w-full justify-items-center gap-5">
            <p className="flex items-center gap-2.5 text-left font-semibold text-ink-soft">
              <Spinner /> Waiting for M-PESA to confirm…
            </p>
            {isOffline || isConnectionLost(state) ? (
              <p className="w-full rounded-lg border border-ember-200 bg-ember-50 px-5 py-4 text-left text-sm text-ink">
                <strong className="block text-base">
                  {isOffline ? 'You are offline.' : 'The shop cannot be reached right now.'}
                </strong>
                If you pay in the meantime, your payment is not lost. We'll show it here{' '}
                {isOffline ? "when you're back" : 'when the connection is back'}.
              </p>
            ) : takesLong(state) ? (
              <p className="rounded-lg bg-paper-deep px-5 py-4 text-left text-sm text-ink">
                <strong className="block text-base">M-PESA is taking a while. No need to stay here.</strong>
                We keep checking, and the{' '}
                <Link
                  to={trackingPageOf(order)}
                  onClick={onClose}
                  className="font-semibold text-dusk-600 underline underline-offset-2"
                >
                  tracking page
                </Link>{' '}
                updates as soon as M-PESA answers.
              </p>
            ) : null}
          </div>
          <PracticeNote phone={phone} />
          <TrackingNumber number={order.trackingNumber} />
        </div>
      </DialogBody>
      <DialogFooter>
        <div className="flex flex-wrap justify-end gap-2">
          <Button tone="quiet" size="large" onClick={onClose} className="grow md:grow-0">
            Close. I'll check later
          </Button>
        </div>
      </DialogFooter>
    </>
  );
}

interface OrderClosedProps extends StateProps {
  meaning: OrderMeaning;
  onTrack(): void;
  onClose(): void;
  /** Given if the same can be ordered again. */
  onOrderAgain?: (() => void) | undefined;
}

/** Nothing to pay: the order was cancelled, or its payment is under review or being refunded. */
export function OrderClosed({
  order,
  headingRef,
  meaning,
  onTrack,
  onClose,
  onOrderAgain,
}: OrderClosedProps) {
  return (
    <>
      <DialogHeading
        ref={headingRef}
        title={meaning.title}
        description={onOrderAgain ? 'You can order the same again.' : 'There is nothing to pay right now.'}
      />
      <DialogBody>
        <div className={`${endedBody} content-center justify-items-center text-center`}>
          <p role="status" className="rounded-lg border border-ember-200 bg-ember-50 px-5 py-4 text-left">
            <TextWithAmounts>{meaning.text}</TextWithAmounts>
          </p>
          <TrackingNumber number={order.trackingNumber} />
          {meaning.kind === 'to_agree' ? (
            <ContactButtons
              message={`Habari! It's about the delivery fee and day of order ${order.trackingNumber}.`}
            />
          ) : null}
        </div>
      </DialogBody>
      <DialogFooter>
        <div className="flex flex-wrap justify-end gap-2">
          {onOrderAgain ? (
            <>
              <Button tone="quiet" size="large" onClick={onClose} className="grow md:mr-auto md:grow-0">
                Close
              </Button>
              <Button size="large" onClick={onOrderAgain} className="grow md:grow-0">
                Order again
              </Button>
            </>
          ) : (
            <Button size="large" onClick={onTrack} className="grow md:grow-0">
              Track Your Order
            </Button>
          )}
        </div>
      </DialogFooter>
    </>
  );
}

interface PaymentReceivedProps extends StateProps {
  /** ISO date-time; null while it is not known. */
  arrivesBy: string | null;
  onTrack(): void;
}

/** Completed. */
export function PaymentReceived({ order, headingRef, arrivesBy, onTrack }: PaymentReceivedProps) {
  return (
    <>
      <DialogHeading
        ref={headingRef}
        title="Payment received"
        description="Asante! Now follow your drinks on their way to you."
      />
      <DialogBody>
        <div className={`${endedBody} content-center justify-items-center text-center`}>
          <span aria-hidden="true" className="payment-tick text-success">
            <svg
              viewBox="0 0 96 96"
              width="96"
              height="96"
              aria-hidden="true"
              className="size-24"
              fill="none"
            >
              <circle cx="48" cy="48" r="44" className="fill-success-soft" />
              <path
                d="m29 49.5 13 13 25-28"
                stroke="currentColor"
                strokeWidth="7"
                strokeLinecap="round"
                strokeLinejoin="round"
                pathLength={1}
              />
            </svg>
          </span>
          <p className="grid justify-items-center">
            <span className="text-sm text-ink-soft">You paid</span>
            <Price cents={chargeCents(order.total)} className="text-3xl" />
            {order.ordered ? (
              <span className="mt-1 text-sm text-ink-soft wrap-anywhere">
                {describeOrdered(order.ordered)}
              </span>
            ) : null}
          </p>
          <ArrivesBy time={arrivesBy} />
          <TrackingNumber number={order.trackingNumber} />
        </div>
      </DialogBody>
      <DialogFooter>
        <Button size="large" onClick={onTrack} className="w-full">
          <Icon name="truck" />
          Track Your Order
        </Button>
      </DialogFooter>
    </>
  );
}

interface FailedProps extends StateProps {
  error: string;
  advice: string | null;
  /** The prompt did not arrive: shows how to pay without one. */
  isUnreached: boolean;
  /** A prompt may still arrive. */
  isUnanswered: boolean;
  /** Another attempt can only fail. */
  isFinal: boolean;
  /** Whether M-PESA has sent the prompt. */
  wasPrompted: boolean;
  phone: string;
  onChangePhone(): void;
  /** Seconds for which another prompt would fail as well. */
  retryAfterSeconds: number;
  onPayByHand?: (() => void) | undefined;
  onPayCash?: (() => void) | undefined;
  onRetry(): void;
  onClose(): void;
}

/** Failed: the reason, and how to try again. */
export function PaymentFailed({
  order,
  headingRef,
  error,
  advice,
  isUnreached,
  isUnanswered,
  isFinal,
  wasPrompted,
  phone,
  onChangePhone,
  retryAfterSeconds,
  onRetry,
  onClose,
  onPayByHand,
  onPayCash,
}: FailedProps) {
  const secondsLeft = useCountdown(retryAfterSeconds);
  return (
    <>
      <DialogHeading
        ref={headingRef}
        title="Payment not completed"
        description={isUnanswered ? 'We got no answer.' : "That payment didn't go through."}
      />
      <DialogBody>
        <div className={`${endedBody} content-start`}>
          <div
            role="alert"
            className="rounded-lg border border-danger/40 bg-danger-soft px-5 py-4 font-semibold text-danger"
          >
            <p>{error}</p>
            {advice ? <p className="mt-1 text-sm font-normal">{advice}</p> : null}
          </div>
          {isFinal ? null : (
            <p className="flex flex-wrap items-center justify-between gap-x-4 rounded-lg border border-line bg-card py-2 pr-2 pl-5">
              <span>
                <span className="block text-xs text-ink-soft">
                  {wasPrompted ? 'We asked this phone' : 'Phone to pay with'}
                </span>
                <strong className="font-semibold whitespace-nowrap tabular-nums">
                  {formatPhone(normalisePhone(phone) ?? phone)}
                </strong>
              </span>
              <Button tone="quiet" onClick={onChangePhone}>
                Change
              </Button>
            </p>
          )}
          {isUnanswered ? (
            <p>If a prompt comes to your phone after all, you can answer it. You won't pay twice.</p>
          ) : null}
          {onPayCash && !isUnanswered ? (
            <CashButton charge={chargeCents(order.total)} onClick={onPayCash} />
          ) : null}
          {onPayByHand && isUnreached ? (
            <section aria-labelledby="by-hand" className="grid grid-cols-1 gap-3">
              <h3 id="by-hand" className="text-xl">
                Or pay without the prompt
              </h3>
              <p className="text-sm text-ink-soft">Only do so when no prompt is waiting on your phone.</p>
              <PayByTill order={order} />
            </section>
          ) : null}
          {onPayByHand && !isUnreached ? (
            <TextButton onClick={onPayByHand}>Pay another way</TextButton>
          ) : null}
          <TrackingNumber number={order.trackingNumber} />
          <p className={isFinal ? 'text-lg' : 'text-sm text-ink-soft'}>
            {isFinal ? 'We will sort it out with you:' : 'Trouble paying?'}{' '}
            <ContactLinks message={`Habari! I could not pay for order ${order.trackingNumber}.`} />.
          </p>
        </div>
      </DialogBody>
      <DialogFooter isSticky>
        <div className={actions}>
          {isFinal ? null : (
            <Button
              size="large"
              onClick={onRetry}
              disabled={secondsLeft > 0}
              className="md:order-2 low:order-2"
            >
              {secondsLeft > 0
                ? `Try again in ${Math.floor(secondsLeft / 60)}:${String(secondsLeft % 60).padStart(2, '0')}`
                : 'Try Again'}
            </Button>
          )}
          <Button tone="quiet" size="large" onClick={onClose} className="md:mr-auto">
            Cancel
          </Button>
        </div>
      </DialogFooter>
    </>
  );
}

/**
 * Remaining seconds. Timers pause on hidden pages, `performance.now()` pauses on sleeping phones, and the system
 * clock can be changed: the clock with the larger difference counts.
 */
function useCountdown(seconds: number): number {
  const [left, setLeft] = useState(seconds);
  useEffect(() => {
    const [date, time] = [Date.now(), performance.now()];
    const update = () => {
      const passed = Math.max(Date.now() - date, performance.now() - time);
      setLeft(Math.max(Math.ceil(seconds - passed / 1000), 0));
    };
    update();
    if (seconds === 0) return;
    const timer = setInterval(update, 1000);
    return () => clearInterval(timer);
  }, [seconds]);
  return left;
}

/** Payment without a prompt: the values to enter in M-PESA. */
export function PaidByHand({
  order,
  headingRef,
  onBack,
  onTrack,
}: StateProps & { onBack(): void; onTrack(): void }) {
  return (
    <>
      <DialogHeading
        ref={headingRef}
        title="Pay another way"
        description="Pay by hand in your M-PESA menu. Only do so when no prompt is waiting on your phone."
      />
      <DialogBody>
        <PayByTill order={order} />
      </DialogBody>
      <DialogFooter>
        <div className="grid gap-2 md:grid-cols-[1fr_auto]">
          <Button size="large" onClick={onTrack} className="md:order-2">
            I have paid: track my order
          </Button>
          <Button tone="quiet" size="large" onClick={onBack} className="md:mr-auto">
            Back to the prompt
          </Button>
        </div>
      </DialogFooter>
    </>
  );
}

/** The shop cannot send prompts: how to pay without one. Trying again would fail. */
export function PromptsPaused({
  order,
  headingRef,
  hasTill,
  onTrack,
  onClose,
  onPayCash,
}: StateProps & {
  hasTill: boolean;
  onTrack(): void;
  onClose(): void;
  onPayCash?: (() => void) | undefined;
}) {
  return (
    <>
      <DialogHeading
        ref={headingRef}
        title={hasTill ? 'Pay another way' : 'Prompts do not work right now'}
        description={
          hasTill
            ? 'M-PESA prompts do not work right now, so pay by hand in your M-PESA menu. Your order is saved.'
            : 'Your order is saved, and our team is on it.'
        }
      />
      <DialogBody>
        <div className="grid grid-cols-1 gap-5">
          {onPayCash ? <CashButton charge={chargeCents(order.total)} onClick={onPayCash} /> : null}
          {hasTill ? <PayByTill order={order} /> : <ContactShop trackingNumber={order.trackingNumber} />}
          <TrackingNumber number={order.trackingNumber} />
        </div>
      </DialogBody>
      <DialogFooter>
        <div className="grid gap-2 md:grid-cols-[1fr_auto]">
          <Button size="large" onClick={onTrack} className="md:order-2">
            {hasTill ? 'I have paid: track my order' : 'Track Your Order'}
          </Button>
          <Button tone="quiet" size="large" onClick={onClose} className="md:mr-auto">
            Close
          </Button>
        </div>
      </DialogFooter>
    </>
  );
}

function CashButton({ charge, onClick }: { charge: number; onClick(): void }) {
  return <TextButton onClick={onClick}>{`Pay ${formatKsh(charge)} in cash at the door`}</TextButton>;
}

function TextButton({ onClick, children }: { onClick(): void; children: ReactNode }) {
  return (
    <button
      type="button"
      onClick={onClick}
      className="-mx-2 -my-2 min-h-11 justify-self-start rounded-md px-2 font-semibold text-dusk-600 underline underline-offset-2 hover:text-dusk-800"
    >
      {children}
    </button>
  );
}
