// Asks once whether the order is to be cancelled. Works without JavaScript.
import { type RefObject, useEffect, useRef } from 'react';
import { Form, useNavigation } from 'react-router';
import { chargeCents, formatKsh } from '../../../domain/money.ts';
import { Button } from '../../ui/button.tsx';
import { Icon } from '../../ui/icons.tsx';
import { useRememberedOrder } from '../payment/details/use-remembered-order.ts';
import type { TrackedOrder } from './tracked-order.ts';

interface CancelOrderProps {
  order: TrackedOrder;
  /** From the page's URL, if present. */
  accessKey: string | null;
  /** Why it was not cancelled just now. */
  problem: string | null;
  /** The heading that says what became of it: gets the focus once this form is gone. */
  resultRef: RefObject<HTMLHeadingElement | null>;
}

export function CancelOrder({ order, accessKey, problem, resultRef }: CancelOrderProps) {
  const remembered = useRememberedOrder(order.trackingNumber);
  const key = accessKey ?? order.accessKey ?? remembered?.accessKey ?? null;
  const { status, wayToCancel, isCancelRequested, paymentStatus } = order;
  const navigation = useNavigation();
  const isBusy = navigation.state !== 'idle' && navigation.formData?.has('cancel') === true;
  const wasSent = useRef(false);
  useEffect(() => {
    if (isBusy) wasSent.current = true;
  }, [isBusy]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: runs after these have changed
  useEffect(() => {
    if (wasSent.current) resultRef.current?.focus();
    wasSent.current = false;
  }, [status, isCancelRequested, resultRef]);
  const alert = problem ? (
    <p role="alert" className="font-semibold text-danger">
      {problem}
    </p>
  ) : null;
  if (key === null || (wayToCancel === null && !isCancelRequested)) return alert;
  const form = (wanted: string, button: React.ReactNode) => (
    <Form method="post" replace preventScrollReset className="grid justify-items-start gap-3">
      <input type="hidden" name="key" value={key} />
      <input type="hidden" name="cancel" value={wanted} />
      {button}
      {alert}
    </Form>
  );
  if (isCancelRequested) {
    return form(
      'keep',
      <Button type="submit" tone="quiet" isBusy={isBusy}>
        Keep my order after all
      </Button>,
    );
  }
  return (
    <details open={problem !== null || undefined} className="group px-1">
      <summary className="inline-flex min-h-11 list-none items-center gap-2 rounded-md font-semibold text-dusk-600 underline underline-offset-2 [&::-webkit-details-marker]:hidden">
        Cancel this order
        <Icon name="chevron" className="size-4 transition-[rotate] group-open:rotate-180" />
      </summary>
      <div className="grid max-w-text gap-3 pt-2">
        <p>
          <b>Do you want to cancel order {order.trackingNumber}?</b> {consequences(order)}
        </p>
        {form(
          paymentStatus,
          <Button type="submit" tone="danger" isBusy={isBusy}>
            {wayToCancel === 'at_once' ? 'Yes, cancel my order' : 'Yes, ask to cancel it'}
          </Button>,
        )}
      </div>
    </details>
  );
}

function consequences({
  wayToCancel,
  paymentCheck,
  paid,
  total,
  paysCash,
  paysCredit,
}: TrackedOrder): string {
  if (wayToCancel === 'at_once') {
    return paymentCheck === 'prompted' || paymentCheck === 'unresolved'
      ? "It ends at once. Please don't confirm a prompt on your phone any more: money that still comes goes back to you."
      : "You haven't paid, so nothing has to go back. It ends at once, and we can't undo that.";
  }
  const cents = paid ?? (total === null ? null : chargeCents(total));
  const money = cents === null ? 'your payment' : formatKsh(cents);
  const way = paysCash ? 'in cash' : paysCredit ? 'as credit' : 'to the phone that paid';
  return `We haven't begun to prepare it. Our team confirms it and sends ${money} back ${way}. You see the answer here, and until then nothing else happens to your order.`;
}
