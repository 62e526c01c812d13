// The states of the payment dialog, one component each.
import { type FormEvent, type ReactNode, type RefObject, useEffect, useId, useRef, useState } from 'react';
import { Link } from 'react-router';
import { chargeCents, formatKsh } from '../../../domain/money.ts';
import { normalisePhone, tidyPhone } from '../../../domain/people/phone.ts';
import type { OrderMeaning } from '../../lib/orders/order-meaning.ts';
import { Button } from '../../ui/button.tsx';
import { DialogBody, DialogFooter, DialogHeading } from '../../ui/dialog/dialog-or-drawer.tsx';
import { TextField } from '../../ui/field.tsx';
import { Icon } from '../../ui/icons.tsx';
import { Notice } from '../../ui/notice.tsx';
import { TextWithAmounts } from '../../ui/price.tsx';
import { useIsOnline } from '../../ui/use-is-online.ts';
import { ContactButtons } from '../layout/contact-links.tsx';
import { ContactShop, PayByTill } from './pay-by-till.tsx';
import { isConnectionLost, type PaymentState, takesLong } from './payment-machine.ts';
import {
  Amount,
  networkHint,
  PracticeNote,
  RingingPhone,
  Spinner,
  Steps,
  TrackingNumber,
} from './payment-parts.tsx';
import { LanguageSwitch, usePaymentTexts } from './texts/payment-language.tsx';
import { type PayableOrder, trackingPageOf } from './use-payment.ts';

interface StateProps {
  order: PayableOrder;
  headingRef: RefObject<HTMLHeadingElement | null>;
}

/** Side by side if there is space, also on a phone in landscape. */
export const actions =
  'grid gap-2 md:grid-cols-[1fr_auto] low:grid-cols-[auto_1fr] md:low:grid-cols-[1fr_auto]';

/** Nearly as high as the body of the waiting state, so that the drawer does not move when the payment ends. */
export const endedBody = 'grid grid-cols-1 gap-5 max-md:min-h-[min(25rem,54dvh)]';

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
  const t = usePaymentTexts();
  const [hasProblem, setProblem] = useState(false);
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
      setProblem(false);
      // Checked before sending: after a request without an answer a prompt may still arrive.
      setRefused(!navigator.onLine);
      if (!navigator.onLine) return;
      // The field is about to be disabled, and a focused field that is disabled moves the focus out of the dialog.
      payButton.current?.focus();
      onPay(phone);
    } else {
      setProblem(true);
      phoneField.current?.focus();
    }
  }

  return (
    <>
      <DialogHeading ref={headingRef} title={t.payTitle} description={t.payHow} />
      <DialogBody>
        {/* On a phone in landscape the amount and the phone are side by side. */}
        <form
          id={formId}
          onSubmit={submit}
          noValidate
          className="grid grid-cols-1 items-start gap-5 low:grid-cols-2 low:gap-y-3"
        >
          <LanguageSwitch />
          {endedPhone ? (
            <Notice tone="info" title={t.canPayNow}>
              {t.promptEnded(endedPhone)}
            </Notice>
          ) : null}
          <div className="grid grid-cols-1 gap-2">
            <Amount order={order} charge={charge} />
            {onAddDrink ? <TextButton onClick={onAddDrink}>{t.addDrink}</TextButton> : null}
          </div>
          <TextField
            ref={phoneField}
            label={t.phoneLabel}
            type="tel"
            inputMode="tel"
            autoComplete="tel"
            name="phone"
            required
            placeholder="0712345678 or 254712345678"
            value={phone}
            onChange={(event) => onPhoneChange(event.target.value)}
            onBlur={(event) => onPhoneChange(tidyPhone(event.target.value))}
            disabled={isSending}
            hint={networkHint(phone, t)}
            problem={hasProblem ? t.phoneProblem : undefined}
          />
          <PracticeNote phone={phone} />
          {onPayCash && !isSending ? <CashButton charge={charge} onClick={onPayCash} /> : null}
          {onPayByHand && !isSending ? (
            <TextButton onClick={onPayByHand}>{t.payAnotherWay}</TextButton>
          ) : null}
        </form>
      </DialogBody>
      <DialogFooter isSticky>
        <div role="status">
          {isRefused && isOffline ? (
            <p className="mb-3 rounded-lg border border-ember-200 bg-ember-50 px-5 py-3.5 text-sm">
              <strong className="block text-base">{t.offline}</strong>
              {t.noPromptSent}
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
                <Spinner /> {t.sending}
              </>
            ) : (
              t.pay(formatKsh(charge))
            )}
          </Button>
          {onNewOrder && !isSending ? (
            <Button tone="quiet" size="large" onClick={onNewOrder} className="md:mr-auto">
              {t.newOrder}
            </Button>
          ) : (
            <Button tone="quiet" size="large" onClick={onClose} disabled={isSending} className="md:mr-auto">
              {t.cancel}
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
  /** Whether the shop has a till or paybill number. */
  hasTill: boolean;
  onClose(): void;
}

/** Processing: the prompt is on the phone. */
export function WaitingForMpesa({ order, headingRef, state, phone, hasTill, onClose }: WaitingProps) {
  const t = usePaymentTexts();
  const isOffline = !useIsOnline();
  return (
    <>
      <DialogHeading
        ref={headingRef}
        title={state.promptedPhone ? t.oneMoment : t.checkPhone}
        description={state.promptedPhone ? t.promptElsewhere : t.enterPin}
      />
      <DialogBody>
        <LanguageSwitch />
        <div className="grid grid-cols-1 justify-items-center gap-4 text-center">
          <RingingPhone />
          {state.promptedPhone ? (
            <p className="rounded-lg bg-paper-deep px-5 py-4 text-left font-semibold">
              {t.answerThatOne(state.promptedPhone)}
            </p>
          ) : (
            <>
              <Steps phone={phone} charge={chargeCents(order.total)} />
              <p className="text-sm text-ink-soft">{t.expect}</p>
            </>
          )}
          <div role="status" className="grid grid-cols-1 w-full justify-items-center gap-5">
            <p className="flex items-center gap-2.5 text-left font-semibold text-ink-soft">
              <Spinner /> {t.waiting}
            </p>
            {isOffline || isConnectionLost(state) ? (
              <p className="w-full rounded-lg border border-ember-200 bg-ember-50 px-5 py-4 text-left text-sm text-ink">
                <strong className="block text-base">{isOffline ? t.offline : t.unreachable}</strong>
                {t.notLost}
              </p>
            ) : takesLong(state) ? (
              <p className="rounded-lg bg-paper-deep px-5 py-4 text-left text-sm text-ink">
                <strong className="block text-base">{t.slow}</strong>
                {t.slowHow}{' '}
                <Link
                  to={trackingPageOf(order)}
                  onClick={onClose}
                  className="font-semibold text-dusk-600 underline underline-offset-2"
                >
                  {t.orderPage}
                </Link>
              </p>
            ) : null}
          </div>
          {hasTill && !state.promptedPhone ? (
            <details className="group w-full rounded-lg border border-line bg-card px-5 text-left">
              <summary className="flex min-h-12 list-none items-center justify-between gap-2 font-semibold [&::-webkit-details-marker]:hidden">
                {t.noPrompt}
                <Icon name="chevron" className="size-4 transition-[rotate] group-open:rotate-180" />
              </summary>
              <div className="grid grid-cols-1 gap-3 pb-4">
                <p className="text-sm">
                  {t.noPromptHow} <strong>{t.onlyWithoutPrompt}</strong>
                </p>
                <PayByTill order={order} />
              </div>
            </details>
          ) : null}
          <PracticeNote phone={phone} />
          <TrackingNumber number={order.trackingNumber} />
        </div>
      </DialogBody>
      <DialogFooter>
        <div className="flex flex-wrap justify-end gap-2">
          <Button tone="quiet" size="large" onClick={onClose} className="grow md:grow-0">
            {t.checkLater}
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
  const t = usePaymentTexts();
  return (
    <>
      <DialogHeading
        ref={headingRef}
        title={meaning.title}
        description={
          onOrderAgain ? t.sameAgain : meaning.kind === 'checking' ? t.doNotPayAgain : t.nothingToPay
        }
      />
      <DialogBody>
        <LanguageSwitch />
        <div className={`${endedBody} content-center justify-items-center text-center`}>
          {/* The states of an order are worded in English, as on its page. */}
          <p
            role="status"
            lang="en"
            className="rounded-lg border border-ember-200 bg-ember-50 px-5 py-4 text-left"
          >
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
                {t.close}
              </Button>
              <Button size="large" onClick={onOrderAgain} className="grow md:grow-0">
                {t.orderAgain}
              </Button>
            </>
          ) : (
            <Button size="large" onClick={onTrack} className="grow md:grow-0">
              {t.track}
            </Button>
          )}
        </div>
      </DialogFooter>
    </>
  );
}

/** Payment without a prompt: the values to enter in M-PESA. */
export function PaidByHand({
  order,
  headingRef,
  onBack,
  onTrack,
}: StateProps & { onBack(): void; onTrack(): void }) {
  const t = usePaymentTexts();
  return (
    <>
      <DialogHeading ref={headingRef} title={t.payAnotherWay} description={t.payByHand} />
      <DialogBody>
        <LanguageSwitch />
        <PayByTill order={order} />
      </DialogBody>
      <DialogFooter>
        <div className="grid gap-2 md:grid-cols-[1fr_auto]">
          <Button size="large" onClick={onTrack} className="md:order-2">
            {t.havePaid}
          </Button>
          <Button tone="quiet" size="large" onClick={onBack} className="md:mr-auto">
            {t.backToPrompt}
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
  const t = usePaymentTexts();
  return (
    <>
      <DialogHeading
        ref={headingRef}
        title={hasTill ? t.payAnotherWay : t.noPrompts}
        description={hasTill ? t.noPromptsByHand : t.noPromptsHelp}
      />
      <DialogBody>
        <LanguageSwitch />
        <div className="grid grid-cols-1 gap-5">
          {onPayCash ? <CashButton charge={chargeCents(order.total)} onClick={onPayCash} /> : null}
          {hasTill ? <PayByTill order={order} /> : <ContactShop trackingNumber={order.trackingNumber} />}
          <TrackingNumber number={order.trackingNumber} />
        </div>
      </DialogBody>
      <DialogFooter>
        <div className="grid gap-2 md:grid-cols-[1fr_auto]">
          <Button size="large" onClick={onTrack} className="md:order-2">
            {hasTill ? t.havePaid : t.track}
          </Button>
          <Button tone="quiet" size="large" onClick={onClose} className="md:mr-auto">
            {t.close}
          </Button>
        </div>
      </DialogFooter>
    </>
  );
}

export function CashButton({ charge, onClick }: { charge: number; onClick(): void }) {
  const t = usePaymentTexts();
  return <TextButton onClick={onClick}>{t.payInCash(formatKsh(charge))}</TextButton>;
}

export function TextButton({ onClick, children }: { onClick(): void; children: ReactNode }) {
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
