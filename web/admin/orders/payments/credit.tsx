// What the shop owes to an order's customer: it pays the order, is taken back, or becomes credit again.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { chargeCents, formatKes } from '../../../../domain/money.ts';
import { Button } from '../../../ui/button.tsx';
import { dataOf } from '../../data/table-answer.ts';
import { useSave } from '../../data/use-save.ts';
import { ConfirmDialog } from '../../dialogs/confirm-dialog.tsx';
import { useMay, useMember } from '../../layout/roles/use-member.tsx';
import { hasLeftShop } from '../../status/states.ts';
import type { WholeOrder } from '../order-queries.ts';
import { countedOf, isRefundable, moneyOf, type PaymentOfOrder } from '../refunds/refund-queries.ts';
import { isSettling, useResolvedByOther } from '../use-resolved-by-other.ts';
import { canBePaidInCash } from './can-be-paid.ts';
import { isReasonRefused, ReasonForm } from './reason-form.tsx';

const touchedByCredit = [
  'orders',
  'deliveries',
  'products',
  'dashboard',
  'reconciliation',
  'kept',
  'customers',
];

/** What is missing of an order, in cents; null where credit cannot pay it. The database decides. */
function missingOf(order: WholeOrder): number | null {
  if (order.anonymised_at !== null) return null;
  if (canBePaidInCash(order)) return chargeCents(order.total_amount);
  const { own, came, left } = moneyOf(order);
  const missing = chargeCents(order.total_amount) - countedOf(order);
  return order.payment_status === 'needs_review' && came === left && own.length > 0 && missing > 0
    ? missing
    : null;
}

/** What is owed to the phone of the order and can pay it; empty until loaded. */
export function useCreditFor(order: WholeOrder) {
  const { tables } = useMember().staff;
  const isNeeded = missingOf(order) !== null;
  const { data } = useQuery({
    queryKey: ['kept', 'for order', order.id],
    queryFn: async ({ signal }) =>
      dataOf(await tables.rpc('credit_for_order', { order_id: order.id }).abortSignal(signal)),
    enabled: isNeeded,
  });
  const owed = isNeeded ? (data ?? []) : [];
  const credits = owed.filter(({ unconfirmed_receipt }) => unconfirmed_receipt === null);
  const sum = (counted: typeof credits) => counted.reduce((cents, { owed_cents }) => cents + owed_cents, 0);
  return {
    credits,
    cents: sum(credits),
    fromOthersCents: sum(credits.filter(({ order_id }) => order_id !== order.id)),
    /** Of receipts that M-PESA has not reported: it pays nothing until then. */
    unconfirmed: owed.filter(({ unconfirmed_receipt }) => unconfirmed_receipt !== null),
  };
}

export function CreditOfCustomer({ order }: { order: WholeOrder }) {
  const { tables } = useMember().staff;
  const may = useMay();
  const { credits, cents, unconfirmed } = useCreditFor(order);
  const [isAsking, setAsking] = useState(false);
  const missing = missingOf(order);
  const save = useSave<void>({
    write: async () => dataOf(await tables.rpc('use_credit', { order_id: order.id })),
    success: `${order.order_number} is paid from credit`,
    failure: 'Failed to use the credit',
    isUnsafeToRepeat: true,
    refresh: touchedByCredit,
    onSuccess: () => setAsking(false),
  });
  useResolvedByOther({
    orderId: order.id,
    isOpen: isAsking && !isSettling(save),
    isOffered: (now) => missingOf(now) !== null,
  });
  if (missing === null || (credits.length === 0 && unconfirmed.length === 0)) return null;
  // Who uses credit there decides about the order.
  if (order.payment_status === 'needs_review' && !may('refunds')) return null;
  const from = credits
    .map(({ order_id, order_number }) => (order_id === order.id ? 'this order' : order_number))
    .join(', ');
  return (
    <section
      aria-label="Credit"
      className="mb-3 grid justify-items-start gap-2 rounded-md border border-leaf-300 bg-success-soft px-3 py-2.5 text-sm"
    >
      {credits.length > 0 ? (
        <p className="font-semibold">
          Credit of {formatKes(cents)} from {from}
        </p>
      ) : null}
      {unconfirmed.map(({ payment_id, order_number, owed_cents, unconfirmed_receipt }) => (
        <p key={payment_id}>
          {formatKes(owed_cents)} of {order_number} can pay it once M-PESA reports {unconfirmed_receipt}, or
          once you keep that payment in Reconciliation.
        </p>
      ))}
      {credits.length === 0 ? null : cents >= missing ? (
        <Button onClick={() => setAsking(true)} aria-haspopup="dialog">
          Use {formatKes(missing)} of it
        </Button>
      ) : (
        <p>
          It pays the last {formatKes(cents)}, once {formatKes(missing - cents)} came. With cash: press
          Receive cash, enter {formatKes(missing - cents)} and choose From their credit. With the till: give
          that money to this order in Reconciliation, then use the credit here. A prompt asks for all of it.
        </p>
      )}
      <ConfirmDialog
        open={isAsking}
        title={`Pay ${formatKes(missing)} of ${order.order_number} from credit?`}
        text={`${order.customer_name} then has ${formatKes(Math.max(cents - missing, 0))} of credit left. No money moves.`}
        confirm="Use the credit"
        tone="leaf"
        isBusy={save.isPending}
        onConfirm={() => save.mutate()}
        onCancel={() => setAsking(false)}
      />
    </section>
  );
}

/** What staff can do about credit that paid an order: it was used by mistake, or the order does not need it any more. */
export function CreditDecisions({ order, payment }: { order: WholeOrder; payment: PaymentOfOrder }) {
  const may = useMay();
  const [isOpen, setOpen] = useState(false);
  if (payment.method !== 'credit' || payment.status !== 'completed' || payment.refunded_at !== null)
    return null;
  const isToReturn = isRefundable(order, payment);
  if (isToReturn && !may('refunds')) return null;
  // It cannot be owed again: it goes back as money (CashDecisions).
  if (isToReturn && payment.has_refunded_source) return null;
  if (
    !isToReturn &&
    (order.status === 'cancelled' || hasLeftShop(order.status) || payment.change_notes.length > 0)
  )
    return null;
  if (isOpen) {
    return (
      <EndCredit order={order} payment={payment} isToReturn={isToReturn} onClose={() => setOpen(false)} />
    );
  }
  return (
    <Button tone="quiet" className="mt-2" onClick={() => setOpen(true)}>
      {isToReturn ? `Make ${formatKes(payment.charge_cents)} credit again` : 'Used by mistake'}
    </Button>
  );
}

interface EndCreditProps {
  order: WholeOrder;
  payment: PaymentOfOrder;
  /** The order does not need it any more. Otherwise it was used by mistake. */
  isToReturn: boolean;
  onClose(): void;
}

function EndCredit({ order, payment, isToReturn, onClose }: EndCreditProps) {
  const { tables } = useMember().staff;
  const money = formatKes(payment.charge_cents);
  const save = useSave<string>({
    write: async (reason) => {
      const given = { payment_id: payment.id, reason };
      dataOf(
        isToReturn ? await tables.rpc('request_refund', given) : await tables.rpc('take_back_credit', given),
      );
    },
    success: `${money} is credit of ${order.customer_name} again`,
    failure: 'Failed to save it',
    isUnsafeToRepeat: true,
    refresh: [...touchedByCredit, 'refunds'],
    onSuccess: onClose,
    isShownElsewhere: isReasonRefused,
  });
  return (
    <ReasonForm
      label={isToReturn ? 'Credit again' : 'Used by mistake'}
      text={
        isToReturn
          ? `The ${money} is owed to ${order.customer_name} again, for another order or to give back. No money moves.`
          : `The ${money} is owed again, and this order waits for its payment.`
      }
      confirm="Make it credit again"
      error={save.error}
      isBusy={save.isPending}
      onConfirm={(reason) => save.mutate(reason)}
      onCancel={onClose}
    />
  );
}
