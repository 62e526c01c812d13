// Whether an order is paid, in words, and the way to pay it while it is not.
import { lazy, Suspense, useCallback, useEffect, useState } from 'react';
import { Link } from 'react-router';
import { chargeAmount, formatKsh } from '../../../domain/money.ts';
import { orderLink } from '../../../domain/order-link.ts';
import { type RememberedOrder, rememberedOrder } from '../../lib/remembered-orders.ts';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { Icon } from '../../ui/icons.tsx';
import { useDialogCode } from '../layout/use-dialog-code.ts';
import { PayByTill, useTakesTill } from '../payment/pay-by-till.tsx';
import { formatOrderTime } from './order-date.ts';
import type { TrackedOrder } from './tracked-order.ts';

const loadPaymentDialog = () => import('../payment/payment-dialog.tsx');
const PaymentDialog = lazy(loadPaymentDialog);
const preparePaymentDialog = () => void loadPaymentDialog().catch(() => {});

interface PaymentWords {
  tone: 'due' | 'done' | 'calm';
  title: string;
  text: string;
  /** Said to screen readers when it has just become so. */
  announcement: string;
}

/** @param known what the device that placed the order knows of its times; null on other devices */
export function paymentWords(
  order: TrackedOrder,
  known: Pick<RememberedOrder, 'reservedUntil' | 'expiresAt'> | null = null,
): PaymentWords {
  const { total, partPaid } = order.details ?? {};
  // Of an old order a stranger sees no amount.
  const received = total === undefined ? 'your payment' : formatKsh(chargeAmount(total));
  const due = total === undefined ? 'Payment due' : `Payment due: ${formatKsh(total)}`;
  switch (order.paymentStatus) {
    case 'paid':
      if (order.status === 'cancelled') {
        return {
          tone: 'calm',
          title: 'Paid, then cancelled',
          text: `We received ${received} for this order. We'll refund you or give you a call.`,
          announcement: 'The order was cancelled after it was paid. Our team will contact you.',
        };
      }
      return {
        tone: 'done',
        title: 'Paid with M-PESA',
        text: `We received ${received}. Asante!`,
        announcement: 'Your payment was received.',
      };
    case 'needs_decision':
      return {
        tone: 'calm',
        title: 'Payment received, order on hold',
        text: 'Your money reached us, but after your drinks were sold or in another amount. Our team will call you to sort it out.',
        announcement: 'Your payment was received. Our team will contact you about the order.',
      };
    case 'refunded':
      return {
        tone: 'calm',
        title: 'Payment refunded',
        text: 'The money went back to the phone that paid.',
        announcement: 'Your payment was refunded.',
      };
    default:
      if (order.status === 'cancelled') {
        return {
          tone: 'calm',
          title: 'Nothing to pay',
          text: `This order was cancelled before it was paid. ${afterCancelling(order)}`,
          announcement: 'The order was cancelled.',
        };
      }
      if (order.paymentCheck === 'review') {
        return {
          tone: 'calm',
          title: 'We are checking your payment',
          text: 'M-PESA told us of a different amount than the one we asked for. Our team will check it and get in touch. You do not need to do anything, and please do not pay again.',
          announcement: 'We are checking your payment. Please do not pay again.',
        };
      }
      if (order.paymentCheck === 'goes_back') {
        return {
          tone: 'calm',
          title: 'Your payment is being sent back',
          text: "It reached us before we knew which order it was for, and goes back to the phone that paid. Our team will get in touch: please don't pay again until you hear from us.",
          announcement: "Your payment is being sent back. Please don't pay again until you hear from us.",
        };
      }
      if (order.paymentCheck === 'unresolved') {
        return {
          tone: 'due',
          title: due,
          text: 'M-PESA has not told us how your last payment ended. If its message on your phone says that you paid, please do not pay again: send us the receipt. Otherwise you can pay now.',
          announcement: 'M-PESA has not told us how your last payment ended.',
        };
      }
      return {
        tone: 'due',
        title: due,
        text: partPaid
          ? `${formatKsh(partPaid)} reached us for this order, which is not the whole amount. Pay the whole amount here, and we send that back; or call us to add it up.`
          : `${whenToPay(known)} They leave our fridge as soon as you have paid.`,
        announcement: 'The payment is due.',
      };
  }
}

function whenToPay(known: Pick<RememberedOrder, 'reservedUntil' | 'expiresAt'> | null): string {
  const isAhead = (time: string | null | undefined) => Boolean(time) && Date.parse(time ?? '') > Date.now();
  if (known?.reservedUntil && isAhead(known.reservedUntil)) {
    return `Your drinks are kept for you until ${formatOrderTime(known.reservedUntil)}.`;
  }
  if (known?.reservedUntil === null && known.expiresAt && isAhead(known.expiresAt)) {
    return `This drink is in demand: please pay by ${formatOrderTime(known.expiresAt)}. We set yours aside when you tap Pay now.`;
  }
  return 'Please pay soon, so that your drinks are not sold to someone else.';
}

function afterCancelling({ details, paymentCheck }: TrackedOrder): string {
  const partPaid = details?.partPaid;
  if (partPaid) return `${formatKsh(partPaid)} reached us for it: our team will sort it out with you.`;
  if (paymentCheck === 'review')
    return 'M-PESA told us of a payment for it: our team will sort it out with you.';
  if (paymentCheck === 'goes_back') return 'Your payment goes back to the phone that paid.';
  if (paymentCheck === 'unresolved') {
    return 'M-PESA has not told us how your last payment ended. If its message on your phone says that you paid, please call us.';
  }
  return 'You are welcome to place a new one.';
}

const tones = {
  due: 'border-ember-300 bg-ember-50',
  done: 'border-leaf-300 bg-success-soft',
  calm: 'border-line bg-card',
};

interface PaymentStateProps {
  order: TrackedOrder;
  /** From the address of the page, when it holds one. */
  accessKey: string | null;
  headingRef: React.Ref<HTMLHeadingElement>;
  /** Asks for the proof that paying needs. */
  reveal: React.ReactNode;
}

export function PaymentState({ order, accessKey, headingRef, reveal }: PaymentStateProps) {
  const [known, readKnown] = useRememberedOrder(order.trackingNumber);
  const [isOpen, setIsOpen] = useState(false);
  // Once fetched, the dialog stays mounted, so that closing it can be seen.
  const [isWanted, setIsWanted] = useState(false);
  const { form, isComing, isCutOff, fetchCode } = useDialogCode(loadPaymentDialog);

  async function pay() {
    if (!(await fetchCode())) return;
    // A prompt may have been sent since: it is waited for, not asked for again.
    readKnown();
    setIsWanted(true);
    setIsOpen(true);
  }

  const takesTill = useTakesTill();
  const words = paymentWords(order, known);
  const orderId = order.id ?? known?.orderId;
  const total = order.details?.total ?? known?.total;
  const phone = known?.phone ?? (order.isMasked ? '' : (order.details?.customerPhone ?? ''));
  const hasPaid = order.paymentStatus !== 'unpaid';
  const isDue = words.tone === 'due';
  // Until the device's memory is read, a device that has placed orders is taken for the one that placed this order.
  const isUnread = known === undefined && order.isMasked;

  return (
    <section
      aria-labelledby="payment"
      className={`flex flex-wrap items-center justify-between gap-x-6 gap-y-4 rounded-xl border px-5 py-5 sm:px-6 ${tones[words.tone]}`}
    >
      <div className="min-w-56 flex-1">
        <h3
          id="payment"
          ref={headingRef}
          tabIndex={-1}
          className="flex items-center gap-2.5 text-xl outline-none!"
        >
          {words.tone === 'done' ? (
            <span className="grid size-7 place-items-center rounded-pill bg-leaf-600 text-white">
              <Icon name="check" className="size-4" />
            </span>
          ) : null}
          {words.title}
        </h3>
        <p className="mt-1 text-ink-soft">{words.text}</p>
      </div>
      {hasPaid ? (
        <Link
          to={orderLink('', order.trackingNumber, accessKey ?? known?.accessKey ?? null, 'receipt')}
          className={`${buttonStyle('quiet')} grow sm:grow-0`}
        >
          View receipt
        </Link>
      ) : null}
      {isDue && (orderId || isUnread) ? (
        <form
          ref={form}
          // Where it leads without JavaScript.
          action={`/track-order/${order.trackingNumber}/pay`}
          onSubmit={(event) => {
            event.preventDefault();
            void pay();
          }}
          className={`${isUnread ? 'hidden in-data-[orders]:grid' : 'grid'} grow sm:grow-0`}
        >
          {accessKey ? <input type="hidden" name="key" value={accessKey} /> : null}
          <Button
            type="submit"
            data-waits
            data-tapped={isComing || undefined}
            size="large"
            onPointerEnter={preparePaymentDialog}
            onFocus={preparePaymentDialog}
            aria-haspopup="dialog"
          >
            Pay now
          </Button>
        </form>
      ) : null}
      {isDue && !orderId ? (
        <div className={`basis-full ${isUnread ? 'in-data-[orders]:hidden' : ''}`}>{reveal}</div>
      ) : null}
      {isCutOff ? (
        <p role="status" className="basis-full font-semibold">
          You are offline. Pay as soon as your phone has a network again.
        </p>
      ) : null}
      {isDue && takesTill && total !== undefined ? (
        <details className="group basis-full border-t border-ember-200 pt-2">
          <summary className="inline-flex min-h-11 list-none items-center gap-2 rounded-md font-semibold text-dusk-600 underline underline-offset-2 [&::-webkit-details-marker]:hidden">
            Pay another way
            <Icon name="chevron" className="size-4 transition-[rotate] group-open:rotate-180" />
          </summary>
          <div className="max-w-4xl pt-2">
            <p className="mb-3 text-sm text-ink-soft">
              Pay by hand in your M-PESA menu. Only do so when no prompt is waiting on your phone.
            </p>
            <PayByTill order={{ trackingNumber: order.trackingNumber, total }} />
          </div>
        </details>
      ) : null}
      {isWanted && orderId && total !== undefined ? (
        <Suspense fallback={null}>
          <PaymentDialog
            order={{
              orderId,
              trackingNumber: order.trackingNumber,
              total,
              phone,
              checkoutRequestId: known?.checkoutRequestId ?? null,
            }}
            open={isOpen}
            onOpenChange={setIsOpen}
          />
        </Suspense>
      ) : null}
    </section>
  );
}

/** What this device knows of the order; undefined before hydration, since the server cannot know. */
function useRememberedOrder(trackingNumber: string): [RememberedOrder | null | undefined, () => void] {
  const [known, setKnown] = useState<RememberedOrder | null>();
  const read = useCallback(() => setKnown(rememberedOrder(trackingNumber)), [trackingNumber]);
  useEffect(read, [read]);
  return [known, read];
}
