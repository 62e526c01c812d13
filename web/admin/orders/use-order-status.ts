// Setting an order's status, from the list and from the order itself: what somebody else has set meanwhile stays.
import { formatDateTime } from '../dates.ts';
import { statusWords } from '../status-badge.tsx';
import { ChangedMeanwhile, dataOf } from '../table-answer.ts';
import { useMember } from '../use-member.tsx';
import { useSave } from '../use-save.ts';

export interface OrderSeen {
  id: string;
  order_number: string;
  status: string;
  payment_status: string;
}

export function useOrderStatus() {
  const { tables } = useMember().staff;
  const save = useSave({
    write: async ({ order, to }: { order: OrderSeen; to: string }) => {
      const changed = await tables
        .from('orders')
        .update({ status: to, updated_at: new Date().toISOString() })
        .eq('id', order.id)
        .eq('status', order.status)
        // An order that is paid, or paid back, by now is another one than was decided about.
        .eq('payment_status', order.payment_status)
        .select('id');
      if (dataOf(changed).length === 0) throw new ChangedMeanwhile(await whatHappened(order));
    },
    success: 'Order status updated successfully',
    failure: 'Failed to update order status',
    refresh: ['orders', 'deliveries', 'products', 'dashboard'],
  });

  /** What became of it, and by whom, in words. */
  async function whatHappened({ id, order_number }: OrderSeen): Promise<string> {
    const { data } = await tables
      .from('order_events')
      .select('kind, actor_email, details, happened_at')
      .eq('order_id', id)
      .in('kind', ['status_changed', 'payment_status_changed'])
      .order('id', { ascending: false })
      .limit(1);
    const last = data?.[0];
    const to = (last?.details as { to?: string } | undefined)?.to;
    if (!last || !to) {
      return `${order_number} was changed in the meantime. You see its new status now; nothing of yours was saved.`;
    }
    const [when, words] = [formatDateTime(last.happened_at), statusWords(to)];
    return last.kind === 'payment_status_changed'
      ? `The payment of ${order_number} became ${words} (${when}). Nothing of yours was saved: please look at it again.`
      : `${last.actor_email ?? 'The shop'} set ${order_number} to ${words} (${when}). That stays; nothing of yours was saved.`;
  }

  return {
    set: (order: OrderSeen, to: string) => save.mutate({ order, to }),
    /** The status that is being saved for an order. */
    saving: (order: OrderSeen) =>
      save.isPending && save.variables.order.id === order.id ? save.variables.to : undefined,
  };
}
