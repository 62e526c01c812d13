// The deliveries: search, filters, export, assignment and status changes.
import { deliveryStatuses } from '../../../domain/delivery-status.ts';
import { describeStaffPage } from '../layout/staff-page.ts';
import { useMember } from '../layout/use-member.tsx';
import { type FilterParameters, noDays, readDays } from '../list/days.ts';
import { ExportButton } from '../list/export-button.tsx';
import {
  DayFilterSelect,
  MoreFilters,
  QuickFilters,
  RiderFilterSelect,
  RowCount,
} from '../list/list-filters.tsx';
import { FilterSelect, ListToolbar, SearchBox } from '../list/list-toolbar.tsx';
import { ListFrame, noneFound, RowList } from '../list/row-list.tsx';
import { useListFilters } from '../list/use-list-filters.ts';
import { PrintList } from '../print/print-list.tsx';
import { statusLabel } from '../status/status-badge.tsx';
import { useNow } from '../ui/age.tsx';
import type { Route } from './+types/deliveries-page.ts';
import { AssignDialog } from './assign-dialog.tsx';
import { DeliveryRow, deliveryColumns, exportColumns, printColumns } from './delivery-columns.tsx';
import { type DeliveryFilters, readDeliveries, useDeliveries, useDeliveryCount } from './delivery-queries.ts';
import { useRecentRiders, useWork } from './rider-queries.ts';
import { useDeliveryStatus } from './use-delivery-status.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Deliveries');

const noFilters: FilterParameters<DeliveryFilters> = {
  search: '',
  status: '',
  rider: '',
  due: '',
  ...noDays,
};

export default function DeliveriesPage() {
  const { tables } = useMember().staff;
  const filters = useListFilters(noFilters);
  const { search, status, rider, due } = filters.values;
  const query = { search, status, rider, due, ...readDays(filters.values, useNow()) };
  const deliveries = useDeliveries(query);
  const count = useDeliveryCount(query);
  const riders = useRecentRiders() ?? [];
  const work = useWork();
  const deliveryStatus = useDeliveryStatus();

  return (
    <>
      <ListFrame
        heading="Delivery Management"
        subtitle="Track and manage product deliveries"
        card="Active Deliveries"
        toolbar={
          <>
            <ListToolbar>
              <SearchBox
                placeholder="Search deliveries..."
                searched={search}
                onSearch={(text) => filters.set('search', text)}
              />
              <FilterSelect
                label="Status"
                value={status}
                options={[
                  { value: '', label: 'All Status' },
                  ...deliveryStatuses.map((value) => ({ value, label: statusLabel(value) })),
                ]}
                onChoose={(value) => filters.set('status', value)}
              />
              <MoreFilters setCount={[filters.values.day, rider].filter(Boolean).length}>
                <DayFilterSelect filters={filters} />
                <RiderFilterSelect filters={filters} riders={riders} />
                <ExportButton
                  name="deliveries"
                  read={readDeliveries(tables, query)}
                  columns={exportColumns}
                />
                <PrintList heading="Deliveries" read={readDeliveries(tables, query)} columns={printColumns} />
              </MoreFilters>
            </ListToolbar>
            <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2">
              <QuickFilters
                filters={[
                  { label: 'To assign', count: work?.to_assign, ...filters.toggle('status', 'pending') },
                  {
                    label: 'Late',
                    count: work?.late_deliveries,
                    isUrgent: true,
                    ...filters.toggle('due', 'late'),
                  },
                ]}
              />
              <RowCount count={count} one="delivery" many="deliveries" />
            </div>
          </>
        }
      >
        <RowList
          {...deliveries}
          label="Deliveries"
          columns={deliveryColumns(deliveryStatus)}
          compact={(delivery) => <DeliveryRow delivery={delivery} status={deliveryStatus} />}
          empty={
            filters.isNarrowed
              ? noneFound(
                  'deliveries',
                  search
                    ? "Try three letters or more of the customer's or rider's name or phone, the address or the order number, or fewer filters."
                    : 'No delivery fits these filters. Try fewer of them.',
                  filters.clear,
                )
              : { title: 'No deliveries yet', text: 'Each order gets one as soon as it is paid.' }
          }
        />
      </ListFrame>
      <AssignDialog />
    </>
  );
}
