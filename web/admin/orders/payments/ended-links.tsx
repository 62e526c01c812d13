// Orders that ended unpaid although staff had given their customers the link: counted in Today, ended in the order.
import { useQuery } from '@tanstack/react-query';
import { Button } from '../../../ui/button.tsx';
import { dataOf } from '../../data/table-answer.ts';
import { useSave } from '../../data/use-save.ts';
import { useMay, useMember } from '../../layout/roles/use-member.tsx';
import { formatDateTime } from '../../ui/time/dates.ts';
import type { WholeOrder } from '../order-queries.ts';

/** The newest first; undefined until loaded. */
export function useEndedLinks(isNeeded = true) {
  const { tables } = useMember().staff;
  const may = useMay();
  return useQuery({
    queryKey: ['orders', 'ended-links'],
    enabled: isNeeded && may('orders'),
    queryFn: async ({ signal }) => dataOf(await tables.rpc('ended_pay_links').abortSignal(signal)),
  }).data;
}

export function EndedLink({ order }: { order: WholeOrder }) {
  const { tables } = useMember().staff;
  const isPossible = order.status === 'cancelled' && order.payment_status === 'unpaid';
  const ended = useEndedLinks(isPossible)?.find(({ order_id }) => order_id === order.id);
  const dismiss = useSave<void>({
    write: async () => dataOf(await tables.rpc('dismiss_ended_pay_link', { order_id: order.id })),
    success: `${order.order_number} needs no attention any more`,
    failure: 'Failed to save it',
    refresh: ['orders'],
  });
  if (!isPossible || !ended) return null;
  return (
    <div
      role="status"
      className="mt-3 flex flex-wrap items-center justify-between gap-3 rounded-md border border-ember-200 bg-ember-50 px-4 py-3"
    >
      <p className="min-w-48 flex-1 text-sm">
        <b>The pay link ended unpaid</b> on {formatDateTime(ended.ended_at)}. Call or write to ask why. With
        the status Pending it can be paid again.
      </p>
      <Button tone="quiet" isBusy={dismiss.isPending} onClick={() => dismiss.mutate()}>
        Done
      </Button>
    </div>
  );
}
