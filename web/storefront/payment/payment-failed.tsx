// A payment that failed: the reason, the phone that was asked, and how to go on.
import { type RefObject, useEffect, useState } from 'react';
import { whatsappLink } from '../../../domain/messages/whatsapp-link.ts';
import { chargeCents } from '../../../domain/money.ts';
import { formatPhone, normalisePhone } from '../../../domain/people/phone.ts';
import { Button } from '../../ui/button.tsx';
import { DialogBody, DialogFooter, DialogHeading } from '../../ui/dialog/dialog-or-drawer.tsx';
import { useShop } from '../layout/use-shop.ts';
import { PayByTill } from './pay-by-till.tsx';
import type { PaymentState } from './payment-machine.ts';
import { TrackingNumber } from './payment-parts.tsx';
import { actions, CashButton, endedBody, TextButton } from './payment-states.tsx';
import { LanguageSwitch, usePaymentTexts } from './texts/payment-language.tsx';
import type { PayableOrder } from './use-payment.ts';

interface FailedProps {
  order: PayableOrder;
  headingRef: RefObject<HTMLHeadingElement | null>;
  state: Extract<PaymentState, { phase: 'failed' }>;
  phone: string;
  onChangePhone(): void;
  /** Back to the amount and the phone. */
  onRetry(): void;
  /** Asks the same phone at once. Missing where the order must be seen first. */
  onResend?: (() => void) | undefined;
  onPayByHand?: (() => void) | undefined;
  onPayCash?: (() => void) | undefined;
  onClose(): void;
}

export function PaymentFailed({
  order,
  headingRef,
  state: { error, resultCode, paymentReference, isUnreached, isUnanswered, isFinal, retryAfterSeconds },
  phone,
  onChangePhone,
  onRetry,
  onResend,
  onClose,
  onPayByHand,
  onPayCash,
}: FailedProps) {
  const t = usePaymentTexts();
  const secondsLeft = useCountdown(retryAfterSeconds);
  const wasPrompted = paymentReference !== null;
  const advice = t.advice(resultCode);
  return (
    <>
      <DialogHeading
        ref={headingRef}
        title={t.failedTitle}
        description={isUnanswered ? t.noAnswer : t.failedHow}
      />
      <DialogBody>
        <div className={`${endedBody} content-start`}>
          <LanguageSwitch />
          <div
            role="alert"
            className="rounded-lg border border-danger/40 bg-danger-soft px-5 py-4 font-semibold text-danger"
          >
            <p>{wasPrompted ? t.failure(resultCode) : error}</p>
            {advice ? <p className="mt-1 text-sm font-normal">{advice}</p> : null}
          </div>
          {isFinal ? null : (
            <p className="flex flex-wrap items-center justify-between gap-x-4 rounded-lg border border-line bg-card py-2 pr-2 pl-5">
              <span>
                <span className="block text-xs text-ink-soft">
                  {wasPrompted ? t.askedPhone : t.phoneToPayWith}
                </span>
                <strong className="text-lg font-semibold whitespace-nowrap tabular-nums">
                  {formatPhone(normalisePhone(phone) ?? phone)}
                </strong>
              </span>
              <Button tone="quiet" onClick={onChangePhone}>
                {t.change}
              </Button>
            </p>
          )}
          {isUnanswered ? <p>{t.promptMayCome}</p> : null}
          {onPayCash && !isUnanswered ? (
            <CashButton charge={chargeCents(order.total)} onClick={onPayCash} />
          ) : null}
          {onPayByHand && isUnreached ? (
            <section aria-labelledby="by-hand" className="grid grid-cols-1 gap-3">
              <h3 id="by-hand" className="text-xl">
                {t.withoutPrompt}
              </h3>
              <p className="text-sm text-ink-soft">{t.onlyWithoutPrompt}</p>
              <PayByTill order={order} />
            </section>
          ) : null}
          {onPayByHand && !isUnreached ? (
            <TextButton onClick={onPayByHand}>{t.payAnotherWay}</TextButton>
          ) : null}
          <TrackingNumber number={order.trackingNumber} />
          <p className={isFinal ? 'text-lg' : 'text-sm text-ink-soft'}>
            {isFinal ? t.sortOut : t.trouble} <Contact trackingNumber={order.trackingNumber} />.
          </p>
        </div>
      </DialogBody>
      <DialogFooter isSticky>
        {onResend && secondsLeft === 0 ? (
          <div className="grid grid-cols-2 gap-2 low:grid-cols-[auto_auto_1fr]">
            <Button size="large" onClick={onResend} className="col-span-full low:order-3 low:col-auto">
              {t.sendAgain}
            </Button>
            <Button tone="quiet" size="large" onClick={onClose}>
              {t.cancel}
            </Button>
            <Button tone="quiet" size="large" onClick={onRetry}>
              {t.tryAgain}
            </Button>
          </div>
        ) : (
          <div className={actions}>
            {isFinal ? null : (
              <Button
                size="large"
                onClick={onRetry}
                disabled={secondsLeft > 0}
                className="md:order-2 low:order-2"
              >
                {secondsLeft > 0
                  ? t.tryAgainIn(
                      `${Math.floor(secondsLeft / 60)}:${String(secondsLeft % 60).padStart(2, '0')}`,
                    )
                  : t.tryAgain}
              </Button>
            )}
            <Button tone="quiet" size="large" onClick={onClose} className="md:mr-auto">
              {t.cancel}
            </Button>
          </div>
        )}
      </DialogFooter>
    </>
  );
}

/** The seller's chat and phone, with the order's number filled in. */
function Contact({ trackingNumber }: { trackingNumber: string }) {
  const t = usePaymentTexts();
  const { settings } = useShop();
  const message = `Habari! I could not pay for order ${trackingNumber}.`;
  const style = '-my-2 inline-block py-2 font-bold underline underline-offset-2';
  return (
    <>
      <a href={whatsappLink(settings.chat_phone, message)} target="_blank" rel="noreferrer" className={style}>
        {t.chat}
      </a>{' '}
      {t.or}{' '}
      <a href={`tel:${settings.support_phone}`} className={`${style} whitespace-nowrap`}>
        {t.call(formatPhone(settings.support_phone))}
      </a>
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
