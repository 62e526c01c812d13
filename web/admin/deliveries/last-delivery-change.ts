// Who changed a delivery last. Apart from the queries of the deliveries screen, because the first visit of the panel has it.
import type { DeliveryStatus, OrderEventKind } from '../../../supabase/types.ts';
import type { Staff } from '../../lib/staff.ts';
import { knownNameOf } from '../ui/known-names.ts';

/**
 * Describes the last change of an order's delivery, without a full stop; null if unknown.
 */
export async function lastDeliveryChange(
  tables: Staff['tables'],
  orderId: string,
  kinds: readonly OrderEventKind[] = ['delivery_status_changed', 'delivery_assigned'],
): Promise<{ actor: string; details: { to?: DeliveryStatus; person?: string }; at: string } | null> {
  const { data } = await tables
    .from('order_events')
    .select('actor_email, details, happened_at')
    .eq('order_id', orderId)
    .in('kind', kinds)
    .order('id', { ascending: false })
    .limit(1);
  const last = data?.[0];
  if (!last) return null;
  return {
    actor: knownNameOf(last.actor_email ?? 'The shop'),
    details: last.details as { to?: DeliveryStatus; person?: string },
    at: last.happened_at,
  };
}
