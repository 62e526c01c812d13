// Filters of the orders that are rarely needed, and what is done with the whole list: loaded when someone opens them.
import type { Staff } from '../../../lib/staff.ts';
import { useRecentRiders } from '../../deliveries/rider-queries.ts';
import { useMember } from '../../layout/roles/use-member.tsx';
import { ExportButton, exportRows } from '../../list/export/export-button.tsx';
import { DayFilterSelect, RiderFilterSelect } from '../../list/list-filters.tsx';
import { FilterSelect, SortSelect } from '../../list/list-toolbar.tsx';
import type { ListFilters } from '../../list/use-list-filters.ts';
import { PrintList } from '../../print/print-list.tsx';
import {
  type OrderFilters as Filters,
  type ListedOrder,
  type OrderParameters,
  readOrders,
} from '../order-queries.ts';
import { paymentFilters } from '../payments/payment-badge.tsx';
import { exportColumns, printColumns } from './order-export.ts';
import { readChosenOrders, readOrdersToExport } from './orders-to-export.ts';

interface OrderFiltersProps {
  filters: ListFilters<OrderParameters>;
  /** The same as the database gets it. */
  query: Filters;
  /** The order of the list. */
  order: string;
}

export function OrderFilters({ filters, query, order }: OrderFiltersProps) {
  const { tables } = useMember().staff;
  return (
    <>
      <FilterSelect
        label="Payment"
        value={query.payment}
        options={paymentFilters}
        onChoose={(value) => filters.set('payment', value)}
      />
      <DayFilterSelect filters={filters} />
      <RiderFilterSelect filters={filters} riders={useRecentRiders() ?? []} />
      <SortSelect
        value={filters.values.sort}
        choices={[
          ['date', 'Oldest first'],
          ['-date', 'Newest first'],
          ['customer', 'By customer'],
          ['-total', 'Highest total first'],
          ['status', 'By status'],
        ]}
        onChoose={(value) => filters.set('sort', value)}
      />
      <ExportButton name="orders" read={readOrdersToExport(tables, query)} columns={exportColumns} />
      <PrintList heading="Orders" read={readOrders(tables, query, order)} columns={printColumns} />
    </>
  );
}

/** Saves chosen orders as a file with the columns of the export. */
export const exportChosen = async (tables: Staff['tables'], rows: readonly ListedOrder[]) =>
  exportRows(
    'orders',
    exportColumns,
    await readChosenOrders(
      tables,
      rows.map(({ id }) => id),
    ),
  );
