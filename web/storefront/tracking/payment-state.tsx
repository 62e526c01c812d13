// Whether an order is paid, and the button to pay it.
import { useEffect, useState } from 'react';
import { Link, useLocation } from 'react-router';
import { orderLink } from '../../../domain/orders/order-link.ts';
import type { OrderMeaning } from '../../lib/orders/order-meaning.ts';
import { buttonStyle } from '../../ui/button.tsx';
import { Icon } from '../../ui/icons.tsx';
import { TextWithAmounts } from '../../ui/price.tsx';
import { ContactButtons } from '../layout/contact-links.tsx';
import { useRememberedOrder } from '../payment/details/use-remembered-order.ts';
import { PayByTill, ReceiptChat, useHasTill } from '../payment/pay-by-till.tsx';
import { PayNow } from '../payment/pay-now.tsx';
import type { TrackedOrder } from './tracked-order.ts';

const tones = {
  due: 'border-ember-300 bg-ember-50',
  done: 'border-leaf-300 bg-success-soft',
  calm: 'border-line bg-card',
};

interface PaymentStateProps {
  order: TrackedOrder;
  meaning: OrderMeaning;
  /** From the page's URL, if present. */
  accessKey: string | null;
  headingRef: React.Ref<HTMLHeadingElement>;
  /** Asks for the proof that paying requires. */
  reveal: React.ReactNode;
}

export function PaymentState({ order, meaning, accessKey, headingRef, reveal }: PaymentStateProps) {
  const remembered = useRememberedOrder(order.trackingNumber);
  const hasTill = useHasTill();
  const orderId = order.id ?? remembered?.orderId ?? null;
  const total = order.total ?? remembered?.total ?? null;
  const discountCents = order.details?.discountCents ?? remembered?.discountCents;
  const phone = remembered?.phone ?? (order.isMasked ? '' : (order.details?.customerPhone ?? ''));
  const { kind, tone, title, text, canPay, hasReceipt } = meaning;
  const isPaidByHand = useIsPaidByHand() && kind === 'unpaid';
  // Until the stored orders are read, a device with orders counts as the one that placed this order.
  const isUnread = remembered === undefined && order.isMasked;

  return (
    <section
      aria-labelledby="payment"
      className={`flex flex-wrap items-center justify-between gap-x-6 gap-y-4 rounded-xl border px-5 py-5 sm:px-6 ${tones[tone]}`}
    >
      <div className="min-w-[min(14rem,100%)] flex-1">
        <h3
          id="payment"
          ref={headingRef}
          tabIndex={-1}
          className="flex items-center gap-2.5 text-xl outline-none!"
        >
          {tone === 'done' ? (
            <span className="grid size-7 place-items-center rounded-pill bg-leaf-600 text-white">
              <Icon name="check" className="size-4" />
            </span>
          ) : null}
          <span>
            <TextWithAmounts>{isPaidByHand ? 'Waiting for your payment' : title}</TextWithAmounts>
          </span>
        </h3>
        {/* The reservation is known only after hydration: reserves the space of the longest text, so that nothing
            moves under a tap. */}
        <p className={`mt-1 text-ink-soft ${kind === 'unpaid' ? 'min-h-[4lh] sm:min-h-[2lh]' : ''}`}>
          {isPaidByHand ? (
            <>
              If you've paid by hand, your payment shows here as soon as our team has found it. Please don't
              pay again. To speed it up, <ReceiptChat trackingNumber={order.trackingNumber} />.
            </>
          ) : (
            <TextWithAmounts>{text}</TextWithAmounts>
          )}
        </p>
      </div>
      {kind === 'to_agree' ? (
        <ContactButtons
          message={`Habari! It's about the delivery fee and day of order ${order.trackingNumber}.`}
        />
      ) : null}
      {hasReceipt ? (
        <Link
          to={orderLink('', order.trackingNumber, accessKey ?? remembered?.accessKey ?? null, 'receipt')}
          className={`${buttonStyle('quiet')} grow sm:grow-0`}
        >
          View receipt
        </Link>
      ) : null}
      <PayNow
        order={{ orderId, trackingNumber: order.trackingNumber, total, discountCents, phone }}
        meaning={meaning}
        accessKey={accessKey}
        isOffered={canPay && (orderId !== null || isUnread)}
        className={`${isUnread ? 'hidden in-data-[orders]:grid' : 'grid'} grow sm:grow-0`}
      />
      {canPay && orderId === null ? (
        <div className={`basis-full ${isUnread ? 'in-data-[orders]:hidden' : ''}`}>{reveal}</div>
      ) : null}
      {/* Not while a prompt is open: both could be paid. */}
      {kind === 'unpaid' && hasTill && total !== null ? (
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
    </section>
  );
}

/** Whether the customer came from the instructions for paying by hand and said that they paid. */
function useIsPaidByHand(): boolean {
  const { state } = useLocation();
  const [isPaidByHand, setPaidByHand] = useState(false);
  // The server does not know the state of the history entry.
  useEffect(() => {
    setPaidByHand((state as { isPaidByHand?: unknown } | null)?.isPaidByHand === true);
  }, [state]);
  return isPaidByHand;
}
