// The deliveries: searched, filtered, exported, assigned, and their status set where it is shown.
import { deliveryStatuses } from '../../../domain/delivery-status.ts';
import { Button } from '../../ui/button.tsx';
import { ExportButton } from '../list/export-button.tsx';
import { FilterSelect, ListToolbar, SearchBox } from '../list/list-toolbar.tsx';
import { ListFrame, RowList } from '../list/row-list.tsx';
import { useListFilters } from '../list/use-list-filters.ts';
import { describeStaffPage } from '../staff-page.ts';
import { statusWords } from '../status-badge.tsx';
import { useMember } from '../use-member.tsx';
import type { Route } from './+types/deliveries-page.ts';
import { AssignDialog } from './assign-dialog.tsx';
import { deliveryColumns, exportColumns } from './delivery-columns.tsx';
import { readDeliveries, useDeliveries } from './delivery-queries.ts';
import { useDeliveryStatus } from './use-delivery-status.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Deliveries');

export default function DeliveriesPage() {
  const { tables } = useMember().staff;
  const filters = useListFilters(['search', 'status']);
  const { search, status } = filters.values;
  const deliveries = useDeliveries({ search, status });
  const deliveryStatus = useDeliveryStatus();

  return (
    <>
      <ListFrame
        heading="Delivery Management"
        subtitle="Track and manage product deliveries"
        card="Active Deliveries"
        toolbar={
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
                ...deliveryStatuses.map((value) => ({ value, label: statusWords(value) })),
              ]}
              onChoose={(value) => filters.set('status', value)}
            />
            <ExportButton
              name="deliveries"
              read={readDeliveries(tables, { search, status })}
              columns={exportColumns}
            />
          </ListToolbar>
        }
      >
        <RowList
          {...deliveries}
          label="Deliveries"
          columns={deliveryColumns(deliveryStatus)}
          empty={
            filters.isNarrowed
              ? {
                  title: 'No deliveries found',
                  text: 'Try another search or another status.',
                  action: (
                    <Button tone="quiet" onClick={filters.clear}>
                      Show all deliveries
                    </Button>
                  ),
                }
              : { title: 'No deliveries yet', text: 'Each order gets one as soon as it is paid.' }
          }
        />
      </ListFrame>
      <AssignDialog />
    </>
  );
}
