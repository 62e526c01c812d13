// What waits for staff: paid orders nobody has begun, deliveries without a person, inquiries nobody has read.
import { useQueries } from '@tanstack/react-query';
import { TableProblem } from '../table-answer.ts';
import { useMember } from '../use-member.tsx';

export interface Waiting {
  orders: number;
  deliveries: number;
  inquiries: number;
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

export function useWaiting(): Waiting {
  const { tables } = useMember().staff;
  const [orders, deliveries, inquiries] = useQueries({
    queries: [
      {
        queryKey: ['orders', 'waiting'],
        queryFn: async ({ signal }) =>
          counted(
            await tables
              .from('orders')
              .select('id', { count: 'exact', head: true })
              .or('payment_status.eq.needs_decision,and(payment_status.eq.paid,status.eq.pending)')
              .abortSignal(signal),
          ),
      },
      {
        queryKey: ['deliveries', 'waiting'],
        queryFn: async ({ signal }) =>
          counted(
            await tables
              .from('deliveries')
              .select('id', { count: 'exact', head: true })
              .eq('delivery_status', 'pending')
              .abortSignal(signal),
          ),
      },
      {
        queryKey: ['inquiries', 'unread'],
        queryFn: async ({ signal }) =>
          counted(
            await tables
              .from('inquiries')
              .select('id', { count: 'exact', head: true })
              .is('is_read', false)
              .abortSignal(signal),
          ),
      },
    ],
  });
  return { orders: orders.data ?? 0, deliveries: deliveries.data ?? 0, inquiries: inquiries.data ?? 0 };
}
