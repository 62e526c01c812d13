// Toasts for what M-PESA reports and is no notice (`web/admin/notices/`): money that is not a new order's, messages to check.
import { useCallback, useRef } from 'react';
import { useNavigate } from 'react-router';
import { formatKes } from '../../../domain/money.ts';
import { showToast } from '../../ui/toasts/toasts.tsx';
import { useMember } from '../layout/roles/use-member.tsx';
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
      const { table, type, row } = change;
      const id = String(row.id);
      const isNewEvent =
        (table === 'payments' &&
          type === 'UPDATE' &&
          row.purpose === 'order' &&
          row.status === 'completed' &&
          // Staff who assign a payment see the outcome where they do it.
          row.confirmed_by !== memberId &&
          row.refunded_at === null) ||
        (table === 'messages_to_check' && type === 'INSERT');
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
      const orderId = String(row.order_id);
      void Promise.all([
        tables
          .from('orders')
          .select('order_number, customer_name, payment_status')
          .eq('id', orderId)
          .maybeSingle(),
        tables.from('notices').select('id').eq('kind', 'paid_order').eq('event_key', orderId).maybeSingle(),
      ]).then(([{ data }, notice]) => {
        if (!data) return;
        const title = titleOfPayment({
          needsRefund: row.needs_refund === true,
          paymentStatus: data.payment_status,
          isNotice: notice.data !== null,
        });
        if (title === null) return;
        showToast({
          kind: 'info',
          title,
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
