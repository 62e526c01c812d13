// Toasts for new events: a paid order, a new inquiry, a message of M-PESA to check.
import { useCallback, useRef } from 'react';
import { useNavigate } from 'react-router';
import { formatKes } from '../../../domain/money.ts';
import { showToast } from '../../ui/toasts/toasts.tsx';
import { useMember } from '../layout/use-member.tsx';
import { withdrawOvertaken } from '../undo/undoable-changes.ts';
import { titleOfPayment } from './payment-news.ts';
import type { RowChange } from './use-live-changes.ts';

/** @returns a handler of changes, which also withdraws offers to undo changes that were overtaken */
export function useEventToasts(): (change: RowChange) => void {
  const {
    staff: { tables },
    id: memberId,
  } = useMember();
  const navigate = useNavigate();
  const go = useRef(navigate);
  go.current = navigate;
  const announced = useRef(new Set<string>());

  return useCallback(
    (change) => {
      withdrawOvertaken(change);
      const { table, type, row, at } = change;
      const id = String(row.id);
      const isNewEvent =
        (table === 'payments' &&
          type === 'UPDATE' &&
          row.purpose === 'order' &&
          row.status === 'completed' &&
          // Staff who assign a payment see the outcome where they do it.
          row.confirmed_by !== memberId &&
          row.refunded_at === null) ||
        ((table === 'inquiries' || table === 'messages_to_check') && type === 'INSERT');
      if (!isNewEvent || announced.current.has(`${table} ${id}`)) return;
      announced.current.add(`${table} ${id}`);
      if (table === 'messages_to_check') {
        showToast({
          kind: 'info',
          title: 'M-PESA message to check',
          text: row.problem === 'reversed' ? 'M-PESA reversed a payment' : 'The shop can’t read all of it',
          topic: 'message to check',
          action: { label: 'Check', run: () => void go.current('/admin/reconciliation') },
        });
        return;
      }
      if (table === 'inquiries') {
        showToast({
          kind: 'info',
          title: 'New inquiry',
          text: `From ${String(row.name)}`,
          topic: 'inquiry',
          action: { label: 'Read', run: () => void go.current(`/admin/inquiries?view=${id}`) },
        });
        return;
      }
      const orderId = String(row.order_id);
      void Promise.all([
        tables
          .from('orders')
          .select('order_number, customer_name, payment_status')
          .eq('id', orderId)
          .maybeSingle(),
        // A statement brings old money: only M-PESA's time shows it. A prompt is answered within two minutes.
        tables
          .from('mpesa_transactions')
          .select('transacted_at')
          .eq('receipt', String(row.receipt))
          .maybeSingle(),
      ]).then(([{ data }, transaction]) => {
        if (!data) return;
        showToast({
          kind: 'info',
          title: titleOfPayment({
            needsRefund: row.needs_refund === true,
            paymentStatus: data.payment_status,
            paidAt:
              transaction.data?.transacted_at ??
              String(row.method === 'prompt' ? row.created_at : row.completed_at),
            knownAt: at,
          }),
          // The amount does not break at the space after the currency.
          text: `${data.order_number}, ${formatKes(Number(row.charge_cents)).replace(' ', '\u00a0')}, ${data.customer_name}`,
          topic: 'paid order',
          action: { label: 'View', run: () => void go.current(`/admin/orders/${orderId}`) },
        });
      });
    },
    [tables, memberId],
  );
}
