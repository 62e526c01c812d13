// One order with everything around it. Apart from the queries of the list: only what opens an order reads it.
import { useQuery } from '@tanstack/react-query';
import { isOpenAttempt } from '../../../domain/mpesa/payment-result.ts';
import { isTrackingNumber } from '../../../domain/orders/tracking-number.ts';
import type { Staff } from '../../lib/staff.ts';
import { dataOf, rowOrNull } from '../data/table-answer.ts';
import { isUuid } from '../dialogs/uuid.ts';
import { useMember } from '../layout/roles/use-member.tsx';

async function idOfNumber({ tables }: Staff, number: string, signal: AbortSignal): Promise<string | null> {
  const answer = await tables
    .from('orders')
    .select('id')
    .eq('tracking_number', number)
    .abortSignal(signal)
    .maybeSingle();
  return rowOrNull(answer)?.id ?? null;
}

/** An order, by its id or tracking number, with everything around it; null when there is none. */
export async function readWholeOrder(staff: Staff, idOrNumber: string, signal: AbortSignal) {
  const id = isTrackingNumber(idOrNumber.slice(0, 40))
    ? await idOfNumber(staff, idOrNumber, signal)
    : idOrNumber;
  if (id === null || !isUuid(id)) return null;
  const { tables } = staff;
  const [order, events] = await Promise.all([
    tables
      .from('orders')
      .select(
        '*, nth_order, order_items(id, product_name, quantity, unit_price, product:products(slug, image_url, brand)), payments(*, counted_cents, is_unconfirmed, has_refunded_source, refunds(*), change_notes(*)), parts:mpesa_transactions(receipt, received_cents, transacted_at, payment_id, resolution), delivery:deliveries(*), rating:ratings(stars, words)',
      )
      .eq('id', id)
      .order('position', { referencedTable: 'order_items' })
      .order('created_at', { referencedTable: 'payments', ascending: false })
      .abortSignal(signal)
      .maybeSingle(),
    tables.from('order_events').select('*').eq('order_id', id).order('id').abortSignal(signal),
  ]);
  const row = rowOrNull(order);
  return row && { ...row, events: dataOf(events) };
}
/** An order with everything around it. */
export type WholeOrder = NonNullable<Awaited<ReturnType<typeof readWholeOrder>>>;

export const orderKey = (id: string) => ['orders', 'one', id];

/** One order by its id, or by its tracking number, which links in texts contain; null when there is none. */
export function useOrder(id: string) {
  const { staff } = useMember();
  return useQuery({
    queryKey: orderKey(id),
    queryFn: ({ signal }) => readWholeOrder(staff, id, signal),
    // The live channel reports the result of a prompt; polling works without the channel.
    refetchInterval: ({ state }) =>
      state.data?.payments.some(({ status }) => isOpenAttempt(status)) ? 3000 : false,
    staleTime: 0,
  });
}
