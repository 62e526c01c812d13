// The answer of staff to a customer who asks to cancel a paid order (docs/decisions/cancelling.md).
import { useState } from 'react';
import { hasCancelRequest } from '../../../domain/deliveries/delivery-status.ts';
import { chargeCents, formatKes } from '../../../domain/money.ts';
import { Button } from '../../ui/button.tsx';
import { dataOf } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import type { ListedDelivery } from '../deliveries/delivery-queries.ts';
import { useMay, useMember } from '../layout/roles/use-member.tsx';
import { formatDateTime } from '../ui/time/dates.ts';
import { isReasonRefused, ReasonForm } from './payments/reason-form.tsx';
import { touchedByRefunds, usePaymentSetup } from './refunds/refund-queries.ts';
import type { WholeOrder } from './whole-order.ts';

const outcomes: Record<string, string> = {
  sent: 'The order is cancelled, and its money goes back',
  needs_approval: 'The order is cancelled. A colleague must approve the refund',
  left: 'The order is cancelled. Its money is still to be sent back',
};

interface CancelAnswerProps {
  order: Pick<ListedDelivery['order'], 'id' | 'order_number' | 'total_amount' | 'payment_method'>;
}

/** One button cancels and refunds; the other asks for the reason that the customer reads. */
export function CancelAnswer({ order }: CancelAnswerProps) {
  const { tables } = useMember().staff;
  const may = useMay();
  const setup = usePaymentSetup();
  const [isDeclining, setDeclining] = useState(false);
  const grant = useSave<void, string>({
    write: async () =>
      dataOf(await tables.rpc('grant_cancel_request', { order_id: order.id, sends_back: isSentBack })),
    success: (outcome) => outcomes[outcome] ?? 'The order is cancelled',
    failure: 'Failed to cancel the order',
    isUnsafeToRepeat: true,
    refresh: touchedByRefunds,
  });
  const decline = useSave<string>({
    write: async (reason) =>
      dataOf(await tables.rpc('decline_cancel_request', { order_id: order.id, reason })),
    success: 'The customer reads why the order is not cancelled',
    failure: 'Failed to answer the customer',
    refresh: ['orders', 'deliveries'],
    onSuccess: () => setDeclining(false),
    isShownElsewhere: isReasonRefused,
  });
  const amount = formatKes(chargeCents(order.total_amount)).replace(' ', '\u00a0');
  const { payment_method } = order;
  // What can be reversed is known only with the settings of M-PESA.
  const isSentBack =
    payment_method === 'credit' || (payment_method === 'mpesa' && setup.data?.canReverse === true);
  const isChecking = payment_method === 'mpesa' && setup.isPending;
  if (!may('refunds')) {
    return <p className="grow basis-full text-sm text-ink-soft">A colleague who may refund answers this.</p>;
  }
  if (isDeclining) {
    return (
      <div className="basis-full">
        <ReasonForm
          label={`Why ${order.order_number} is not cancelled`}
          text="The customer reads it on the tracking page. Then the order goes on."
          confirm="Don't cancel it"
          error={decline.error}
          isBusy={decline.isPending}
          onConfirm={(reason) => decline.mutate(reason)}
          onCancel={() => setDeclining(false)}
        />
      </div>
    );
  }
  return (
    <>
      <Button
        tone="quiet"
        isBusy={grant.isPending}
        onClick={() => setDeclining(true)}
        className="shrink-0 px-4! max-sm:px-3!"
      >
        Don't cancel<span className="sr-only"> {order.order_number}</span>
      </Button>
      <Button
        tone="danger"
        isBusy={grant.isPending || isChecking}
        onClick={({ detail }) => {
          // The second press of a double one would press what comes next.
          if (detail < 2) grant.mutate();
        }}
        className="min-w-0 grow basis-20 px-3!"
      >
        <span className="relative leading-tight">
          {!isSentBack
            ? 'Cancel, refund by hand'
            : payment_method === 'credit'
              ? `Cancel, ${amount} is credit again`
              : `Cancel, refund ${amount}`}
          <span className="sr-only"> of {order.order_number}</span>
        </span>
      </Button>
    </>
  );
}

/** In the opened order: nothing without a request or an answer. */
export function CancelRequest({ order }: { order: WholeOrder }) {
  if (hasCancelRequest(order)) {
    return (
      <section
        aria-label="Request to cancel"
        className="grid gap-3 rounded-md border border-danger/40 bg-danger-soft px-4 py-3 text-danger"
      >
        <div>
          <p className="font-bold">The customer asked to cancel</p>
          <p className="text-sm">
            {formatDateTime(order.cancel_requested_at ?? '')}. Nothing moves it on before you have answered.
          </p>
        </div>
        <div className="flex flex-wrap gap-3">
          <CancelAnswer order={order} />
        </div>
      </section>
    );
  }
  return order.cancel_answer && order.status !== 'cancelled' ? (
    <p className="rounded-md border border-line bg-paper-deep px-4 py-2 text-sm">
      The customer asked to cancel. The answer: “{order.cancel_answer}”
    </p>
  ) : null;
}
