// Takes money back from an order that staff assigned or typed for it, until the order leaves the shop.
import { useState } from 'react';
import { formatKes } from '../../../../domain/money.ts';
import { Button } from '../../../ui/button.tsx';
import { dataOf } from '../../data/table-answer.ts';
import { useSave } from '../../data/use-save.ts';
import { ConfirmDialog } from '../../dialogs/confirm-dialog.tsx';
import { useMember } from '../../layout/roles/use-member.tsx';
import { hasLeftShop, isOpenRefund } from '../../status/states.ts';
import type { WholeOrder } from '../order-queries.ts';
import type { PaymentOfOrder } from '../refunds/refund-queries.ts';

/** Whether staff can take a payment back, as far as the order shows it; the database decides. */
export const canTakeBack = (order: WholeOrder, payment: PaymentOfOrder): boolean =>
  payment.status === 'completed' &&
  payment.method === 'till' &&
  payment.confirmed_by !== null &&
  payment.refunded_at === null &&
  !payment.refunds.some(({ status }) => isOpenRefund(status)) &&
  payment.change_notes.length === 0 &&
  (payment.needs_refund || !hasLeftShop(order.status));

export function TakeBack({ order, payment }: { order: WholeOrder; payment: PaymentOfOrder }) {
  const { tables } = useMember().staff;
  const [isAsking, setAsking] = useState(false);
  const save = useSave<void, string>({
    write: async () => dataOf(await tables.rpc('take_back_payment', { payment_id: payment.id })),
    success: 'The money is taken back, and waits in Reconciliation',
    failure: 'Failed to take the money back',
    isUnsafeToRepeat: true,
    refresh: ['orders', 'deliveries', 'products', 'reconciliation', 'dashboard'],
    onSuccess: () => setAsking(false),
  });
  if (!canTakeBack(order, payment)) return null;
  const money = formatKes(payment.charge_cents);
  return (
    <div className="mt-2">
      <Button tone="quiet" onClick={() => setAsking(true)} aria-haspopup="dialog">
        Not for this order
      </Button>
      <ConfirmDialog
        open={isAsking}
        title={`Take ${money} back from ${order.order_number}?`}
        text={`${money}${payment.receipt ? `, receipt ${payment.receipt},` : ''} was not ${order.customer_name}'s payment for ${order.order_number}? It waits in Reconciliation for another order. ${
          payment.needs_refund
            ? 'This order stays as it is.'
            : 'This order is no longer paid with it. If its customer got a message about the payment, another one follows.'
        }`}
        confirm="Take it back"
        isBusy={save.isPending}
        onConfirm={() => save.mutate()}
        onCancel={() => setAsking(false)}
      />
    </div>
  );
}
