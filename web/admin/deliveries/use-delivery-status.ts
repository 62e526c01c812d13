// Setting a delivery's status where it is shown: what somebody else has set meanwhile stays.
import { formatDateTime } from '../dates.ts';
import { statusWords } from '../status-badge.tsx';
import { ChangedMeanwhile, dataOf } from '../table-answer.ts';
import { useMember } from '../use-member.tsx';
import { useSave } from '../use-save.ts';
import { type ListedDelivery, lastDeliveryChange } from './delivery-queries.ts';

export function useDeliveryStatus() {
  const { tables } = useMember().staff;
  const save = useSave({
    write: async ({ delivery, to }: { delivery: ListedDelivery; to: string }) => {
      // The times that go with it are the database's.
      const changed = await tables
        .from('deliveries')
        .update({ delivery_status: to })
        .eq('id', delivery.id)
        .eq('delivery_status', delivery.delivery_status)
        .select('id');
      if (dataOf(changed).length === 0) throw new ChangedMeanwhile(await whatHappened(delivery));
    },
    success: 'Delivery status updated successfully',
    failure: 'Failed to update delivery status',
    refresh: ['deliveries', 'orders', 'dashboard'],
  });

  async function whatHappened({ order }: ListedDelivery): Promise<string> {
    const last = await lastDeliveryChange(tables, order.id);
    return last?.details.to
      ? `${last.actor} set the delivery of ${order.order_number} to ${statusWords(last.details.to)} (${formatDateTime(last.at)}). That stays; nothing of yours was saved.`
      : `The delivery of ${order.order_number} was changed in the meantime. You see its new status now; nothing of yours was saved.`;
  }

  return {
    set: (delivery: ListedDelivery, to: string) => save.mutate({ delivery, to }),
    /** The status that is being saved for a delivery. */
    saving: (delivery: ListedDelivery) =>
      save.isPending && save.variables.delivery.id === delivery.id ? save.variables.to : undefined,
  };
}
