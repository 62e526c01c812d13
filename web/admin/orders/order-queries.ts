// Queries of the orders screen and their keys.

import { useQuery } from '@tanstack/react-query';
import type { OrderPaymentStatus, OrderStatus } from '../../../supabase/types.ts';
import type { Staff } from '../../lib/staff.ts';
import { dataOf } from '../data/table-answer.ts';
import { useMay, useMember } from '../layout/roles/use-member.tsx';
import type { Days, FilterParameters } from '../list/days.ts';
import { inOrder, type PageWanted, type ReadPage, useRows } from '../list/use-rows.ts';

export type { WholeOrder } from './whole-order.ts';

/** Statuses that staff can set and filter by (docs/product.md#orders-screen). */
export const orderStatuses = [
  'pending',
  'processing',
  'shipped',
  'delivered',
  'cancelled',
] as const satisfies readonly OrderStatus[];

/** '' or null without a filter. */
export interface OrderFilters extends Days {
  search: string;
  status: OrderStatus | '';
  payment: OrderPaymentStatus | 'cash' | 'refund_due' | 'to_decide' | '';
  rider: string;
  due: 'prepare' | 'ready' | 'on_the_way' | 'failed' | 'late' | '';
}

/** The parameters of the address. */
export type OrderParameters = FilterParameters<OrderFilters> & { sort: string };

/** Open work is done in the order in which it came; everything else is looked up, the newest first. */
export const orderOf = ({ due }: { due: string }, sort: string): string => sort || (due ? 'date' : '');

/** The filters as parameters of `search_orders` and `count_orders`. */
export const parametersOf = ({ search, status, payment, rider, due, from_day, until_day }: OrderFilters) => ({
  search,
  status: status || null,
  payment: payment || null,
  rider: rider || null,
  due: due || null,
  from_day,
  until_day,
});

export const searchOrders = (
  tables: Staff['tables'],
  filters: OrderFilters,
  { after, limit }: Pick<PageWanted, 'after' | 'limit'>,
  sort = '',
) =>
  tables.rpc('search_orders', {
    ...parametersOf(filters),
    sort: sort || null,
    before_created_at: after?.created_at ?? null,
    before_id: after?.id ?? null,
    page_size: limit,
  });

/** The columns of an order in the list. */
export const listedColumns =
  'id, order_number, tracking_number, customer_name, customer_email, customer_phone, shipping_address, city, created_at, total_amount, status, payment_status, payment_method, source, is_collected, promised_at, delivery_day, cancel_requested_at, cancel_declined_at, anonymised_at, delivery_notes, nth_order, order_items(quantity, product_name, product:products(brand)), payments(status), delivery:deliveries(id, created_at, updated_at, delivery_status, delivery_person, taken_by, ready_at), rating:ratings(stars)';

/** @param sort newest first if empty */
export function readOrders(tables: Staff['tables'], filters: OrderFilters, sort = '') {
  return ((page) => {
    const rows = searchOrders(tables, filters, page, sort)
      .select(listedColumns)
      // Only the columns that decide whether an order needs review.
      .eq('payments.status', 'review')
      .order('position', { referencedTable: 'order_items' })
      // For the same reason as in inOrder.
      .limit(1, { referencedTable: 'rating' });
    return inOrder(rows, sort, 'delivery').abortSignal(page.signal);
  }) satisfies ReadPage<{ id: string; created_at: string }>;
}
type Answer = Awaited<ReturnType<ReturnType<typeof readOrders>>>;
/** An order as in the list. */
export type ListedOrder = NonNullable<Answer['data']>[number];

export function useOrders(filters: OrderFilters, sort: string) {
  const { tables } = useMember().staff;
  return useRows<ListedOrder>(['orders', 'list', filters, sort], readOrders(tables, filters, sort));
}

/** Number of orders that match the filters; undefined until loaded. */
export function useOrderCount(filters: OrderFilters): number | undefined {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['orders', 'count', filters],
    queryFn: async ({ signal }) =>
      dataOf(await tables.rpc('count_orders', parametersOf(filters)).abortSignal(signal)),
  }).data;
}

/** Why a payment needs review: its units were sold before it arrived, or the order was cancelled afterwards. */
export function decisionOf(order: {
  status: OrderStatus;
  payment_status: OrderPaymentStatus;
}): 'units are gone' | 'refund is due' | null {
  if (order.payment_status === 'needs_review') return 'units are gone';
  return order.payment_status === 'paid' && order.status === 'cancelled' ? 'refund is due' : null;
}

/** The newest orders with money to decide about, and their number, at most 1,000: the list's filter `to_decide`. */
export function useOrdersNeedingReview(isActive = true) {
  const { tables } = useMember().staff;
  const may = useMay();
  return useQuery({
    queryKey: ['orders', 'to decide'],
    enabled: isActive && may('refunds'),
    queryFn: async ({ signal }) => {
      const answer = await tables
        .rpc('search_orders', { payment: 'to_decide', page_size: 1000 }, { count: 'exact' })
        .select(
          'id, order_number, customer_name, status, payment_status, cancel_reason, total_amount, order_items(quantity, product_name, product:products(brand)), payments(status, charge_cents, counted_cents, needs_refund, refunded_at, result_description)',
        )
        .order('created_at', { ascending: false })
        .order('id', { ascending: false })
        .limit(5)
        .abortSignal(signal);
      return { orders: dataOf(answer), count: answer.count ?? 0 };
    },
  }).data;
}
