// Counts of what waits for staff: orders to prepare, new payments since they last opened the orders, deliveries without a rider, unread
// inquiries, failed messages to customers, money to match or check, and refunds to approve.
import { useQuery } from '@tanstack/react-query';
import { useEffect, useMemo, useState } from 'react';
import { readStored, writeStored } from '../../lib/browser/browser-storage.ts';
import { dataOf, TableProblem } from '../data/table-answer.ts';
import { useWork } from '../deliveries/rider-queries.ts';
import { useMay, useMember } from '../layout/roles/use-member.tsx';
import { usePaymentHealth } from '../payments-check/payment-health.ts';
import { useStatementStatus } from '../reconciliation/statement-status.ts';
import { unsentMessageStatuses } from '../status/states.ts';

export interface Waiting {
  toPrepare: number;
  orders: number;
  deliveries: number;
  inquiries: number;
  messages: number;
  /** Payments at M-PESA that belong to no order, messages of M-PESA to check, and typed receipts that M-PESA has not reported. */
  money: number;
  /** Refunds that another staff member requested, above the limit. */
  refunds: number;
}

interface Count {
  count: number | null;
  error: { message: string } | null;
  status: number;
}

function counted({ count, error, status }: Count): number {
  if (error) throw new TableProblem(error, status);
  return count ?? 0;
}

/** Older messages that were not sent are not counted, as in `message_budgets`. */
const weekMs = 7 * 24 * 60 * 60 * 1000;

const seenKey = 'jani.staff.payments-seen';

/** @param isShowingOrders whether the orders are on the screen: then none of them is new */
export function useWaiting(isShowingOrders: boolean): Waiting {
  const { tables } = useMember().staff;
  const may = useMay();
  // The time of the newest payment seen on this device, by the database's clock.
  const [seen, setSeen] = useState(() => readStored(seenKey));
  // Not `useQueries`, whose code the first screen would wait for.
  const orders = useQuery({
    queryKey: ['orders', 'paid since', seen],
    queryFn: async ({ signal }) => {
      const answer = await tables.rpc('count_payments_since', { since: seen }).abortSignal(signal);
      const [paid] = dataOf(answer);
      return { count: paid?.count ?? 0, newest: paid?.newest ?? null };
    },
  });
  const deliveries = useQuery({
    queryKey: ['deliveries', 'waiting'],
    queryFn: async ({ signal }) =>
      counted(
        await tables
          .from('deliveries')
          .select('id, order:orders!inner(id)', { count: 'exact', head: true })
          .eq('delivery_status', 'pending')
          // Collected orders wait for no rider.
          .is('order.is_collected', false)
          .abortSignal(signal),
      ),
  });
  const inquiries = useQuery({
    queryKey: ['inquiries', 'unread'],
    enabled: may('inquiries'),
    queryFn: async ({ signal }) =>
      counted(
        await tables
          .from('inquiries')
          .select('id', { count: 'exact', head: true })
          .is('is_read', false)
          .abortSignal(signal),
      ),
  });
  const messages = useQuery({
    queryKey: ['messages', 'not sent'],
    enabled: may('messages'),
    queryFn: async ({ signal }) =>
      counted(
        await tables
          .from('outbox_messages')
          .select('id', { count: 'exact', head: true })
          .in('status', unsentMessageStatuses)
          // A message without its recipient, who was erased, cannot be sent again.
          .neq('recipient', '')
          .gt('created_at', new Date(Date.now() - weekMs).toISOString())
          .abortSignal(signal),
      ),
  });
  const books = useStatementStatus(may('reconciliation'));
  const health = usePaymentHealth();
  // Read by the notices of the device, which are loaded after the first screen.
  const work = useWork(false);
  const newest = orders.data?.newest;
  // On the first visit from a device all payments so far count as seen.
  const isNewEvent = seen !== null && !isShowingOrders;
  useEffect(() => {
    if (newest === undefined || isNewEvent) return;
    const latest = newest ?? seen ?? new Date(0).toISOString();
    // Never back to an earlier one, where the newest payment was taken back: the answers that are kept for the two times would lead from
    // each to the other without end.
    if (seen !== null && Date.parse(latest) <= Date.parse(seen)) return;
    writeStored(seenKey, latest);
    setSeen(latest);
  }, [newest, isNewEvent, seen]);
  const toPrepare = work?.to_prepare ?? 0;
  const newPayments = isNewEvent ? (orders.data?.count ?? 0) : 0;
  const withoutRider = deliveries.data ?? 0;
  const unread = inquiries.data ?? 0;
  const unsent = messages.data ?? 0;
  const { unmatched, to_check, unconfirmed } = books.data ?? { unmatched: 0, to_check: 0, unconfirmed: 0 };
  const money = unmatched + to_check + unconfirmed;
  const refunds = health.data?.refunds_to_approve_by_me ?? 0;
  // Equal counts are one object: the screens receive it, which are not rendered again with each step of the layout.
  return useMemo(
    () => ({
      toPrepare,
      orders: newPayments,
      deliveries: withoutRider,
      inquiries: unread,
      messages: unsent,
      money,
      refunds,
    }),
    [toPrepare, newPayments, withoutRider, unread, unsent, money, refunds],
  );
}
