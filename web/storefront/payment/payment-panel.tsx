// What the payment dialog shows in each of its states.
import { Fragment, useEffect, useId, useRef, useState } from 'react';
import { Link, useNavigate } from 'react-router';
import { chargeAmount, formatKsh } from '../../../domain/money.ts';
import { formatPhone, normalisePhone } from '../../../domain/phone.ts';
import { Button } from '../../ui/button.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { DialogBody, DialogFooter, DialogHeading } from '../../ui/dialog-or-drawer.tsx';
import { TextField } from '../../ui/field.tsx';
import { Icon } from '../../ui/icons.tsx';
import { Price } from '../../ui/price.tsx';
import { useShop } from '../layout/use-shop.ts';
import { takesLong } from './payment-machine.ts';
import { type PayableOrder, usePayment } from './use-payment.ts';
import './payment-panel.css';

interface PaymentPanelProps {
  order: PayableOrder;
  /** Closes the dialog around it. */
  onClose(): void;
  /** Given when the order was placed earlier: leaves it for a new one. */
  onOrderAnew?: (() => void) | undefined;
}

const phoneProblem = 'Please enter a valid phone number 📱';

export function PaymentPanel({ order, onClose, onOrderAnew }: PaymentPanelProps) {
  const { state, pay, retry } = usePayment(order);
  const [phone, setPhone] = useState(() => formatPhone(order.phone).replaceAll(' ', ''));
  const [problem, setProblem] = useState<string>();
  const phoneField = useRef<HTMLInputElement>(null);
  const heading = useHeadingFocus(state.phase);
  const formId = useId();
  const navigate = useNavigate();
  const charge = chargeAmount(order.total);
  const trackingPage = `/track-order/${order.trackingNumber}`;

  function track() {
    onClose();
    navigate(trackingPage);
  }

  function submit(event: React.FormEvent) {
    event.preventDefault();
    if (normalisePhone(phone)) {
      setProblem(undefined);
      pay(phone);
    } else {
      setProblem(phoneProblem);
      phoneField.current?.focus();
    }
  }

  // Each state has a key: a button of one must not become, while it is being clicked, the submit button of the next.
  switch (state.phase) {
    case 'idle':
    case 'initiating': {
      const isSending = state.phase === 'initiating';
      return (
        <Fragment key="idle">
          <DialogHeading
            ref={heading}
            title="Pay with M-PESA"
            description="We send a prompt to your phone. You confirm it there with your PIN."
          />
          <DialogBody>
            <form id={formId} onSubmit={submit} noValidate className="grid gap-5">
              <Amount order={order} charge={charge} />
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
                onChange={(event) => setPhone(event.target.value)}
                disabled={isSending}
                problem={problem}
              />
              <PracticeNote phone={phone} />
            </form>
          </DialogBody>
          <DialogFooter>
            <div className="grid gap-2 md:grid-cols-[1fr_auto]">
              <Button type="submit" form={formId} size="large" disabled={isSending} className="md:order-2">
                {isSending ? (
                  <>
                    <Spinner /> Sending the prompt…
                  </>
                ) : (
                  `Pay ${formatKsh(charge)}`
                )}
              </Button>
              {onOrderAnew && !isSending ? (
                <Button tone="quiet" size="large" onClick={onOrderAnew} className="md:mr-auto">
                  Start a new order
                </Button>
              ) : (
                <Button
                  tone="quiet"
                  size="large"
                  onClick={onClose}
                  disabled={isSending}
                  className="md:mr-auto"
                >
                  Cancel
                </Button>
              )}
            </div>
          </DialogFooter>
        </Fragment>
      );
    }

    case 'processing':
      return (
        <Fragment key="processing">
          <DialogHeading
            ref={heading}
            title={state.standing === 'review' ? 'We are checking your payment' : 'Check your phone'}
            description={
              state.standing === 'review'
                ? 'You do not need to do anything, and please do not pay again.'
                : 'Enter your M-PESA PIN in the prompt to confirm.'
            }
          />
          <DialogBody>
            <div className="grid justify-items-center gap-5 pt-2 text-center">
              {state.standing === 'review' ? null : (
                <>
                  <RingingPhone />
                  <Steps phone={phone} charge={charge} />
                </>
              )}
              <div role="status" className="grid w-full justify-items-center gap-5">
                {state.standing === 'review' ? (
                  <p className="rounded-lg border border-ember-200 bg-ember-50 px-5 py-4 text-left">
                    M-PESA told us of a different amount than the one we asked for. Our team will check it and
                    get in touch. Your order is safe under its tracking number.
                  </p>
                ) : (
                  <p className="flex items-center gap-2.5 font-semibold text-ink-soft">
                    <Spinner /> Waiting for M-PESA to confirm…
                  </p>
                )}
                {takesLong(state) && state.standing !== 'review' ? (
                  <p className="rounded-lg bg-paper-deep px-5 py-4 text-left text-sm text-ink">
                    <strong className="block text-base">Still waiting, and that is fine</strong>
                    You can close this. We keep watching, and the{' '}
                    <Link
                      to={trackingPage}
                      onClick={onClose}
                      className="font-semibold text-dusk-600 underline underline-offset-2"
                    >
                      tracking page
                    </Link>{' '}
                    will tell you as soon as M-PESA answers.
                  </p>
                ) : null}
              </div>
              <PracticeNote phone={phone} />
              <TrackingNumber number={order.trackingNumber} />
            </div>
          </DialogBody>
          <DialogFooter>
            <div className="flex flex-wrap justify-end gap-2">
              {state.standing === 'review' ? (
                <Button size="large" onClick={track} className="grow md:grow-0">
                  Track Your Order
                </Button>
              ) : (
                <Button tone="quiet" size="large" onClick={onClose} className="grow md:grow-0">
                  Close and keep waiting
                </Button>
              )}
            </div>
          </DialogFooter>
        </Fragment>
      );

    case 'completed':
      return (
        <Fragment key="completed">
          <DialogHeading
            ref={heading}
            title="Payment received"
            description="Asante! Your order is confirmed. We are taking it out of the fridge."
          />
          <DialogBody>
            <div className="grid justify-items-center gap-5 pt-2 text-center">
              <span aria-hidden="true" className="payment-tick text-success">
                <svg viewBox="0 0 96 96" aria-hidden="true" className="size-24" fill="none">
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
                <Price cents={charge} className="text-3xl" />
              </p>
              <TrackingNumber number={order.trackingNumber} />
            </div>
          </DialogBody>
          <DialogFooter>
            <Button size="large" onClick={track} className="w-full">
              <Icon name="truck" />
              Track Your Order
            </Button>
          </DialogFooter>
        </Fragment>
      );

    case 'failed':
      return (
        <Fragment key="failed">
          <DialogHeading
            ref={heading}
            title="Payment not completed"
            description="This attempt did not go through. Here is what we were told."
          />
          <DialogBody>
            <div className="grid gap-5">
              <p
                role="alert"
                className="rounded-lg border border-danger/40 bg-danger-soft px-5 py-4 font-semibold text-danger"
              >
                {state.error}
              </p>
              <TrackingNumber number={order.trackingNumber} />
            </div>
          </DialogBody>
          <DialogFooter>
            <div className="grid gap-2 md:grid-cols-[1fr_auto]">
              <Button size="large" onClick={retry} className="md:order-2">
                Try Again
              </Button>
              <Button tone="quiet" size="large" onClick={onClose} className="md:mr-auto">
                Cancel
              </Button>
            </div>
          </DialogFooter>
        </Fragment>
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

function Amount({ order, charge }: { order: PayableOrder; charge: number }) {
  return (
    <div className="rounded-lg bg-dusk-900 px-5 py-4 text-white">
      <p className="flex items-baseline justify-between gap-4">
        <span className="text-sm text-dusk-200">You pay</span>
        <Price cents={charge} className="text-3xl" />
      </p>
      {charge === order.total ? null : (
        <p className="mt-1 text-right text-sm text-dusk-200">
          Your total of {formatKsh(order.total)}, rounded up to whole shillings
        </p>
      )}
      <p className="mt-3 flex items-baseline justify-between gap-4 border-t border-white/15 pt-3 text-sm text-dusk-200">
        Tracking number{' '}
        <strong className="font-semibold text-white tabular-nums">{order.trackingNumber}</strong>
      </p>
    </div>
  );
}

function TrackingNumber({ number }: { number: string }) {
  return (
    <div className="flex w-full flex-wrap items-center justify-between gap-x-4 rounded-lg border border-line bg-card py-2 pr-2 pl-5 text-left">
      <p>
        <span className="block text-xs text-ink-soft">Tracking number</span>
        <strong className="font-semibold tabular-nums">{number}</strong>
      </p>
      <CopyButton text={number} what="tracking number" />
    </div>
  );
}

function PracticeNote({ phone }: { phone: string }) {
  const { config } = useShop();
  if (!config.isSimulated) return null;
  return (
    <p className="rounded-lg border border-ember-200 bg-ember-50 px-5 py-3.5 text-left text-sm">
      <strong>This is practice: no money moves.</strong> The prompt goes to a pretend phone instead of yours.{' '}
      {config.phonePageUrl ? (
        <a
          href={`${config.phonePageUrl}?number=${encodeURIComponent(phone.trim())}`}
          target="_blank"
          rel="noreferrer"
          className="font-semibold text-ember-700 underline underline-offset-2"
        >
          Open the practice phone
        </a>
      ) : null}
    </p>
  );
}

function Steps({ phone, charge }: { phone: string; charge: number }) {
  const steps = [
    phone ? `Look at the phone ${phone}` : 'Look at your phone',
    `Check that it asks for ${formatKsh(charge)}`,
    'Enter your M-PESA PIN',
  ];
  return (
    <ol className="grid w-full max-w-sm gap-2.5 text-left">
      {steps.map((step, index) => (
        <li key={step} className="flex items-center gap-3">
          <span
            aria-hidden="true"
            className="grid size-7 shrink-0 place-items-center rounded-pill bg-dusk-100 text-sm font-bold text-dusk-700"
          >
            {index + 1}
          </span>
          {step}
        </li>
      ))}
    </ol>
  );
}

function RingingPhone() {
  return (
    <span aria-hidden="true" className="payment-phone relative grid size-28 place-items-center">
      <span className="payment-ripple" />
      <span className="payment-ripple" />
      <svg viewBox="0 0 48 80" aria-hidden="true" className="relative h-20" fill="none">
        <rect x="2" y="2" width="44" height="76" rx="9" className="fill-dusk-900" />
        <rect x="6.500" y="10" width="35" height="56" rx="3" className="fill-paper" />
        <rect x="10.500" y="20" width="27" height="26" rx="4" className="fill-leaf-100" />
        <path d="M15 27h18M15 32h12" strokeWidth="2.500" strokeLinecap="round" className="stroke-leaf-700" />
        <path
          d="M16 40h.01M21 40h.01M26 40h.01M31 40h.01"
          strokeWidth="3.500"
          strokeLinecap="round"
          className="stroke-leaf-700"
        />
        <circle cx="24" cy="72" r="2.500" className="fill-dusk-500" />
      </svg>
    </span>
  );
}

function Spinner() {
  return (
    <span
      aria-hidden="true"
      className="inline-block size-5 animate-spin rounded-pill border-[3px] border-current/25 border-t-current motion-reduce:[animation-duration:2.5s]"
    />
  );
}
