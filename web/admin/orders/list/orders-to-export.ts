// Orders with all columns of the export, which only the filters and the bulk actions read.
import type { Staff } from '../../../lib/staff.ts';
import { dataOf } from '../../data/table-answer.ts';
import type { ReadPage } from '../../list/use-rows.ts';
import { type OrderFilters, searchOrders } from '../order-queries.ts';

const exported =
  '*, order_items(quantity, product_name, unit_price), payments(receipt, charge_cents, status, method, needs_refund, refunded_at, completed_at, refunds(refund_cents, status, method, completed_at, refund_receipt), change_notes(kind, amount_cents, receipt, noted_at, is_part_refund)), delivery:deliveries(delivery_person)';

/** A page of the filtered list, newest first. */
export function readOrdersToExport(tables: Staff['tables'], filters: OrderFilters) {
  return ((page) =>
    searchOrders(tables, filters, page)
      .select(exported)
      .order('position', { referencedTable: 'order_items' })
      .order('created_at', { ascending: false })
      .order('id', { ascending: false })
      .abortSignal(page.signal)) satisfies ReadPage<{ id: string; created_at: string }>;
}
type ExportAnswer = Awaited<ReturnType<ReturnType<typeof readOrdersToExport>>>;
export type ExportedOrder = NonNullable<ExportAnswer['data']>[number];

/** Chosen orders with all columns of the export, in their order. */
export const readChosenOrders = async (tables: Staff['tables'], ids: readonly string[]) => {
  const rows = dataOf(
    await tables
      .from('orders')
      .select(exported)
      .in('id', ids)
      .order('position', { referencedTable: 'order_items' }),
  );
  return ids.flatMap((id) => rows.find((row) => row.id === id) ?? []);
};
