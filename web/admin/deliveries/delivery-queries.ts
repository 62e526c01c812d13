// Queries of the deliveries screen and their keys.

import { useQuery } from '@tanstack/react-query';
import type { DeliveryStatus } from '../../../supabase/types.ts';
import type { Staff } from '../../lib/staff.ts';
import { dataOf, rowOrNull } from '../data/table-answer.ts';
import { isUuid } from '../dialogs/uuid.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import type { Days } from '../list/days.ts';
import { inOrder, type ReadPage, useRows } from '../list/use-rows.ts';

/** '' or null without a filter. */
export interface DeliveryFilters extends Days {
  search: string;
  status: DeliveryStatus | '';
  rider: string;
  due: 'late' | '';
}

const parametersOf = ({ search, status, rider, due, from_day, until_day }: DeliveryFilters) => ({
  search,
  status: status || null,
  rider: rider || null,
  due: due || null,
  from_day,
  until_day,
});

export const listed =
  '*, order:orders(id, order_number, customer_name, customer_phone, shipping_address, map_point, city, area_name, delivery_notes, total_amount, status, payment_status, payment_method, is_collected, promised_at, promised_again_at, delivery_day, cancel_requested_at, cancel_declined_at, anonymised_at, nth_order, order_items(quantity, product_name, product:products(brand)))';

export const ofItems = { referencedTable: 'order.order_items' };

/** @param sort newest first if empty */
export function readDeliveries(tables: Staff['tables'], filters: DeliveryFilters, sort = '') {
  return (({ after, limit, signal }) => {
    const rows = tables
      .rpc('search_deliveries', {
        ...parametersOf(filters),
        sort: sort || null,
        before_created_at: after?.created_at ?? null,
        before_id: after?.id ?? null,
        page_size: limit,
      })
      .select(listed)
      .order('position', ofItems);
    return inOrder(rows, sort, 'order').abortSignal(signal);
  }) satisfies ReadPage<{ id: string; created_at: string }>;
}
type Answer = Awaited<ReturnType<ReturnType<typeof readDeliveries>>>;
/** A delivery with its order, as in the list. */
export type ListedDelivery = NonNullable<Answer['data']>[number];

/** The deliveries of paid orders that are neither delivered nor cancelled, the earliest payment first; undefined until loaded. */
export function useWorkQueue() {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['deliveries', 'queue'],
    queryFn: async ({ signal }): Promise<ListedDelivery[]> =>
      dataOf(
        await tables
          .rpc('work_queue')
          .select(listed)
          .order('position', ofItems)
          .order('created_at')
          .order('id')
          .abortSignal(signal),
      ),
  });
}

export function useDeliveries(filters: DeliveryFilters, sort: string) {
  const { tables } = useMember().staff;
  return useRows<ListedDelivery>(
    ['deliveries', 'list', filters, sort],
    readDeliveries(tables, filters, sort),
  );
}

/** Number of deliveries that match the filters; undefined until loaded. */
export function useDeliveryCount(filters: DeliveryFilters): number | undefined {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['deliveries', 'count', filters],
    queryFn: async ({ signal }) =>
      dataOf(await tables.rpc('count_deliveries', parametersOf(filters)).abortSignal(signal)),
  }).data;
}

/** The current state of one delivery; null if it does not exist. */
export async function readDelivery(
  tables: Staff['tables'],
  id: string,
  signal?: AbortSignal,
): Promise<ListedDelivery | null> {
  if (!isUuid(id)) return null;
  const query = tables.from('deliveries').select(listed).order('position', ofItems).eq('id', id);
  const answer = await (signal ? query.abortSignal(signal) : query).maybeSingle();
  return rowOrNull(answer);
}

export function useDelivery(id: string) {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['deliveries', 'one', id],
    queryFn: ({ signal }) => readDelivery(tables, id, signal),
    staleTime: 0,
    // A dialog opens with current data: outdated data would look like another member's change.
    gcTime: 0,
  });
}
