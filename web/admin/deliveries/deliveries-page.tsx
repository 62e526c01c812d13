// The deliveries: search, filters, export, assignment and status changes.
import { Link } from 'react-router';
import { deliveryStatuses } from '../../../domain/deliveries/delivery-status.ts';
import { buttonStyle } from '../../ui/button.tsx';
import { useMay, useMember } from '../layout/roles/use-member.tsx';
import { describeStaffPage } from '../layout/staff-page.ts';
import { type FilterParameters, noDays, readDays } from '../list/days.ts';
import { ExportButton, exportRows } from '../list/export/export-button.tsx';
import {
  DayFilterSelect,
  MoreFilters,
  QuickFilters,
  RiderFilterSelect,
  RowCount,
} from '../list/list-filters.tsx';
import { FilterSelect, SearchBox, SortSelect } from '../list/list-toolbar.tsx';
import { ListFrame, noneFound, RowList } from '../list/row-list.tsx';
import { useSavedViews } from '../list/saved-views.ts';
import { useListFilters } from '../list/use-list-filters.ts';
import { useRowKeys } from '../list/use-row-keys.ts';
import { isSortedByOther } from '../list/use-rows.ts';
import { useSelection } from '../list/use-selection.ts';
import { PrintList } from '../print/print-list.tsx';
import { statusLabel } from '../status/status-badge.tsx';
import { useNextSteps } from '../today/next-step-button.tsx';
import { useNow } from '../ui/time/age.tsx';
import { usePart } from '../ui/use-part.ts';
import type { Route } from './+types/deliveries-page.ts';
import { AssignDialog } from './assign-dialog.tsx';
import { DeliveryRow, deliveryColumns, exportColumns, printColumns } from './delivery-columns.tsx';
import { type DeliveryFilters, readDeliveries, useDeliveries, useDeliveryCount } from './delivery-queries.ts';
import { useRecentRiders, useWork } from './rider-queries.ts';
import { useDeliveryStatus } from './use-delivery-status.ts';

const loadBulk = () => import('../orders/bulk/bulk-bar.tsx');

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Deliveries');

const noFilters: FilterParameters<DeliveryFilters> & { sort: string } = {
  search: '',
  status: '',
  rider: '',
  due: '',
  sort: '',
  ...noDays,
};

export default function DeliveriesPage() {
  const { tables } = useMember().staff;
  const may = useMay();
  const filters = useListFilters(noFilters);
  const { search, status, rider, due } = filters.values;
  const query = { search, status, rider, due, ...readDays(filters.values, useNow()) };
  const { sort } = filters.values;
  // Open work is done in the order in which it came.
  const order = sort || (due || status === 'pending' ? 'date' : '');
  const deliveries = useDeliveries(query, order);
  const count = useDeliveryCount(query);
  const riders = useRecentRiders() ?? [];
  const work = useWork();
  const controls = { status: useDeliveryStatus(), steps: useNextSteps() };
  const selection = useSelection(deliveries);
  const views = useSavedViews('deliveries', Object.keys(noFilters));
  const bulk = usePart(loadBulk, selection.isSelecting, selection.clear);
  useRowKeys(deliveries.rows, selection);

  return (
    <>
      <ListFrame
        heading="Delivery Management"
        subtitle="Track and manage product deliveries"
        card="Active Deliveries"
        count={
          <RowCount
            count={count}
            one="delivery"
            many="deliveries"
            isSearch={search !== '' || rider !== ''}
            isSorted={isSortedByOther(order)}
          />
        }
        tools={
          <>
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
            <MoreFilters setCount={[filters.values.day, rider].filter(Boolean).length} views={views}>
              <DayFilterSelect filters={filters} />
              <RiderFilterSelect filters={filters} riders={riders} />
              <SortSelect
                value={sort}
                choices={[
                  ['date', 'Oldest first'],
                  ['-date', 'Newest first'],
                  ['customer', 'By customer'],
                  ['rider', 'By rider'],
                  ['status', 'By status'],
                ]}
                onChoose={(value) => filters.set('sort', value)}
              />
              {may('orders') ? (
                <ExportButton
                  name="deliveries"
                  read={readDeliveries(tables, query)}
                  columns={exportColumns}
                />
              ) : null}
              <Link to="/admin/riders" className={buttonStyle('quiet')}>
                Riders
              </Link>
              <PrintList
                heading="Deliveries"
                read={readDeliveries(tables, query, order)}
                columns={printColumns(may('orders'))}
              />
            </MoreFilters>
          </>
        }
        isChoosing={selection.isSelecting && bulk !== null}
        chips={
          selection.isSelecting && bulk ? (
            <bulk.BulkBar
              selection={selection}
              queuedOf={(delivery) => delivery}
              orderIdOf={({ order_id }) => order_id}
              steps={controls.steps}
              onExport={may('orders') ? (rows) => exportRows('deliveries', exportColumns, rows) : undefined}
            />
          ) : (
            <QuickFilters
              views={views}
              onSelect={selection.start}
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
          )
        }
      >
        <RowList
          {...deliveries}
          label="Deliveries"
          columns={deliveryColumns(controls)}
          compact={(delivery) => <DeliveryRow delivery={delivery} {...controls} />}
          sorting={{ value: order, set: (value) => filters.set('sort', value) }}
          selection={selection}
          nameOf={({ order: { order_number } }) => order_number}
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
