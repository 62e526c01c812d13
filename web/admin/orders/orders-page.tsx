// The orders: search, filters, export, status changes and details.
import { type ReactNode, useId, useState } from 'react';
import { useSearchParams } from 'react-router';
import { useWork } from '../deliveries/rider-queries.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { describeStaffPage } from '../layout/staff-page.ts';
import { noDays, readDays } from '../list/days.ts';
import { MoreFilters, type QuickFilter, QuickFilters, RowCount } from '../list/list-filters.tsx';
import { FilterSelect, SearchBox } from '../list/list-toolbar.tsx';
import { ListFrame, noneFound, RowList } from '../list/row-list.tsx';
import { useSavedViews } from '../list/saved-views.ts';
import { type ListFilters, useListFilters } from '../list/use-list-filters.ts';
import { useRowKeys } from '../list/use-row-keys.ts';
import { isSortedByOther } from '../list/use-rows.ts';
import { useSelection } from '../list/use-selection.ts';
import { hasPaymentInReview } from '../status/states.ts';
import { statusLabel } from '../status/status-badge.tsx';
import { useNextSteps } from '../today/next-step-button.tsx';
import { queuedOf } from '../today/use-next-step.ts';
import { useNow } from '../ui/time/age.tsx';
import { usePart } from '../ui/use-part.ts';
import type { Route } from './+types/orders-page.ts';
import { OrderRow, orderColumns, orderTableWidth } from './list/order-columns.tsx';
import { NewOrderLink } from './new/new-order-link.tsx';
import { OrderDetails } from './order-details.tsx';
import {
  decisionOf,
  type OrderParameters,
  orderOf,
  orderStatuses,
  useOrderCount,
  useOrders,
  useOrdersNeedingReview,
} from './order-queries.ts';
import { useRefundsNeedingAction } from './refunds/refund-queries.ts';
import { useOrderStatus } from './use-order-status.ts';

const loadPanel = () => import('./list/order-filters.tsx');
const loadBulk = () => import('./bulk/bulk-bar.tsx');
const loadAssignDialog = () => import('../deliveries/assign-dialog.tsx');
const loadDecisions = () => import('./decisions.tsx');

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Orders');

const noFilters: OrderParameters = {
  search: '',
  status: '',
  payment: '',
  rider: '',
  due: '',
  sort: '',
  ...noDays,
};

export default function OrdersPage({ params }: Route.ComponentProps) {
  const { tables } = useMember().staff;
  const filters = useListFilters(noFilters);
  const { search, status, payment, rider, due } = filters.values;
  const query = { search, status, payment, rider, due, ...readDays(filters.values, useNow()) };
  const { sort } = filters.values;
  const order = orderOf(query, sort);
  const orders = useOrders(query, order);
  const count = useOrderCount(query);
  const work = useWork();
  const controls = { status: useOrderStatus(), steps: useNextSteps() };
  const selection = useSelection(orders);
  const views = useSavedViews('orders', Object.keys(noFilters));
  const [parameters] = useSearchParams();
  const assigning = usePart(loadAssignDialog, parameters.has('assign'));
  const [isFiltering, setFiltering] = useState(false);
  const panel = usePart(loadPanel, isFiltering, () => setFiltering(false));
  const bulk = usePart(loadBulk, selection.isSelecting, selection.clear);
  const decisions = useDecisions();
  useRowKeys(orders.rows, selection);

  const quick = <Name extends 'due' | 'payment'>(
    name: Name,
    value: OrderParameters[Name],
    label: string,
    waiting: number | undefined,
  ): QuickFilter => ({
    label,
    count: waiting,
    isUrgent: value === 'late' || value === 'failed' || value === 'refund_due',
    ...filters.toggle(name, value),
  });
  return (
    <>
      <ListFrame
        heading="Orders"
        subtitle="Manage customer orders"
        card="Order Management"
        actions={<NewOrderLink className="max-md:min-h-9! max-md:px-3!" />}
        count={
          <RowCount
            count={count}
            one="order"
            many="orders"
            isSearch={query.search !== '' || query.rider !== ''}
            isSorted={isSortedByOther(order)}
          />
        }
        tools={
          <>
            <SearchBox
              placeholder="Search orders..."
              searched={search}
              onSearch={(text) => filters.set('search', text)}
            />
            <FilterSelect
              label="Status"
              value={status}
              options={[
                { value: '', label: 'All Status' },
                ...orderStatuses.map((value) => ({ value, label: statusLabel(value) })),
              ]}
              onChoose={(value) => filters.set('status', value)}
            />
            <MoreFilters
              setCount={[payment, filters.values.day, rider].filter(Boolean).length}
              views={views}
              onOpen={() => setFiltering(true)}
            >
              {panel ? <panel.OrderFilters filters={filters} query={query} order={order} /> : null}
            </MoreFilters>
          </>
        }
        isChoosing={selection.isSelecting && bulk !== null}
        chips={
          selection.isSelecting && bulk ? (
            <bulk.BulkBar
              selection={selection}
              queuedOf={(order) => queuedOf(order)}
              orderIdOf={({ id }) => id}
              steps={controls.steps}
              onExport={async (rows) => {
                const { exportChosen } = await loadPanel();
                await exportChosen(tables, rows);
              }}
            />
          ) : (
            <QuickFilters
              views={views}
              onSelect={selection.start}
              filters={[
                decisions.chip,
                quick('due', 'prepare', 'To prepare', work?.to_prepare),
                quick('due', 'ready', 'Ready', work?.ready),
                quick('due', 'failed', 'Delivery failed', work?.failed),
                quick('due', 'on_the_way', 'On the way', work?.on_the_way),
                quick('due', 'late', 'Late', work?.late),
                quick('payment', 'unpaid', 'Unpaid', work?.unpaid),
                quick('payment', 'refund_due', 'Refund due', work?.refunds_due),
              ]}
            />
          )
        }
        notices={decisions.panel}
      >
        <RowList
          {...orders}
          label="Orders"
          columns={orderColumns(controls)}
          tableWidth={orderTableWidth}
          compact={(order) => <OrderRow order={order} {...controls} />}
          sorting={{ value: order, set: (value) => filters.set('sort', value) }}
          selection={selection}
          nameOf={({ order_number }) => order_number}
          rowStyle={(order) =>
            decisionOf(order) || hasPaymentInReview(order)
              ? 'bg-danger-soft/40 shadow-[inset_4px_0_0] shadow-danger'
              : ''
          }
          empty={describeEmpty(filters)}
        />
      </ListFrame>
      <OrderDetails screen="/admin/orders" id={params.orderId ?? null} />
      {assigning ? <assigning.AssignDialog /> : null}
    </>
  );
}

/** Title and text of an empty list of waiting work. */
const nothingDue = new Map<string, readonly [title: string, text: string]>([
  ['prepare', ['Nothing to prepare', 'Every paid order is packed, on its way or delivered.']],
  ['ready', ['Nothing is ready', 'No packed order waits for its rider.']],
  ['on_the_way', ['Nothing is on its way', 'No paid order has left without being delivered.']],
  ['failed', ['No delivery failed', 'No paid order waits for another try.']],
  ['late', ['Nothing is late', 'Every paid order is within its promised time.']],
]);

function describeEmpty({ values, isNarrowed, clear }: ListFilters<OrderParameters>) {
  if (!isNarrowed)
    return { title: 'No orders yet', text: 'They appear here as soon as a customer places one.' };
  const isDueAlone = Object.entries(values).every(
    ([name, value]) => value === '' || name === 'due' || name === 'sort',
  );
  const [title, text] = (isDueAlone && nothingDue.get(values.due)) || [
    'No orders found',
    values.search
      ? 'Try three letters or more of the name, phone, address, drink or order number, or fewer filters.'
      : 'No order fits these filters. Try fewer of them.',
  ];
  return { ...noneFound('orders', text, clear), title };
}

/** Payments and refunds that need a decision, whatever the filters: the first button above the rows opens them. */
function useDecisions(): { chip: QuickFilter; panel: ReactNode } {
  const id = useId();
  const { isOn: isOpen, onToggle } = useListFilters({ decide: '' }).toggle('decide', 'open');
  const orders = useOrdersNeedingReview();
  const refunds = useRefundsNeedingAction();
  const part = usePart(loadDecisions, isOpen);
  return {
    chip: {
      label: 'To decide',
      count: orders && refunds && orders.count + refunds.length,
      isOn: isOpen,
      isUrgent: true,
      controls: id,
      onToggle,
    },
    panel: (
      <div id={id} className="grid grid-cols-[minmax(0,1fr)] gap-2 px-3 pb-2 empty:hidden sm:px-4">
        {isOpen && part && orders && orders.count > 0 ? <part.OrdersNeedingReview {...orders} /> : null}
        {isOpen && part ? <part.RefundsNeedingAction waiting={refunds} screen="/admin/orders" /> : null}
      </div>
    ),
  };
}
