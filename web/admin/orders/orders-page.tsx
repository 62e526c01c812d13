// The orders: search, filters, export, status changes and details.
import { Link, useSearchParams } from 'react-router';
import { useRecentRiders, useWork } from '../deliveries/rider-queries.ts';
import { describeStaffPage } from '../layout/staff-page.ts';
import { useMember } from '../layout/use-member.tsx';
import { type FilterParameters, noDays, readDays } from '../list/days.ts';
import { ExportButton } from '../list/export-button.tsx';
import {
  DayFilterSelect,
  MoreFilters,
  type QuickFilter,
  QuickFilters,
  RiderFilterSelect,
  RowCount,
} from '../list/list-filters.tsx';
import { FilterSelect, ListToolbar, SearchBox } from '../list/list-toolbar.tsx';
import { ListFrame, noneFound, RowList } from '../list/row-list.tsx';
import { type ListFilters, useListFilters } from '../list/use-list-filters.ts';
import { PrintList } from '../print/print-list.tsx';
import { hasPaymentInReview } from '../status/states.ts';
import { statusLabel } from '../status/status-badge.tsx';
import { useNow } from '../ui/age.tsx';
import { usePart } from '../ui/use-part.ts';
import type { Route } from './+types/orders-page.ts';
import { OrderRow, orderColumns } from './list/order-columns.tsx';
import { exportColumns, printColumns } from './list/order-export.ts';
import { OrderDetails } from './order-details.tsx';
import {
  decisionOf,
  type OrderFilters,
  orderStatuses,
  readOrders,
  readOrdersToExport,
  useOrderCount,
  useOrders,
  useOrdersNeedingReview,
} from './order-queries.ts';
import { paymentFilters } from './payments/payment-badge.tsx';
import { useRefundsNeedingAction } from './refunds/refund-queries.ts';
import { useOrderStatus } from './use-order-status.ts';

const loadRefunds = () => import('./refunds/refunds-needing-action.tsx');

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Orders');

type OrderParameters = FilterParameters<OrderFilters>;
const noFilters: OrderParameters = { search: '', status: '', payment: '', rider: '', due: '', ...noDays };

export default function OrdersPage({ params }: Route.ComponentProps) {
  const { tables } = useMember().staff;
  const filters = useListFilters(noFilters);
  const { search, status, payment, rider, due } = filters.values;
  const query = { search, status, payment, rider, due, ...readDays(filters.values, useNow()) };
  const orders = useOrders(query);
  const count = useOrderCount(query);
  const riders = useRecentRiders() ?? [];
  const work = useWork();
  const orderStatus = useOrderStatus();

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
        toolbar={
          <>
            <OrdersNeedingReview />
            <Refunds />
            <ListToolbar>
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
              <MoreFilters setCount={[payment, filters.values.day, rider].filter(Boolean).length}>
                <FilterSelect
                  label="Payment"
                  value={payment}
                  options={paymentFilters}
                  onChoose={(value) => filters.set('payment', value)}
                />
                <DayFilterSelect filters={filters} />
                <RiderFilterSelect filters={filters} riders={riders} />
                <ExportButton
                  name="orders"
                  read={readOrdersToExport(tables, query)}
                  columns={exportColumns}
                />
                <PrintList heading="Orders" read={readOrders(tables, query)} columns={printColumns} />
              </MoreFilters>
            </ListToolbar>
            <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2">
              <QuickFilters
                filters={[
                  quick('due', 'prepare', 'To prepare', work?.to_prepare),
                  quick('due', 'ready', 'Ready', work?.ready),
                  quick('due', 'failed', 'Delivery failed', work?.failed),
                  quick('due', 'on_the_way', 'On the way', work?.on_the_way),
                  quick('due', 'late', 'Late', work?.late),
                  quick('payment', 'unpaid', 'Unpaid', work?.unpaid),
                  quick('payment', 'refund_due', 'Refund due', work?.refunds_due),
                ]}
              />
              <RowCount count={count} one="order" many="orders" />
            </div>
          </>
        }
      >
        <RowList
          {...orders}
          label="Orders"
          columns={orderColumns(orderStatus)}
          compact={(order) => <OrderRow order={order} status={orderStatus} />}
          rowStyle={(order) =>
            decisionOf(order) || hasPaymentInReview(order)
              ? 'bg-danger-soft/40 shadow-[inset_4px_0_0] shadow-danger'
              : ''
          }
          empty={describeEmpty(filters)}
        />
      </ListFrame>
      <OrderDetails screen="/admin/orders" id={params.orderId ?? null} />
    </>
  );
}

function Refunds() {
  const waiting = useRefundsNeedingAction();
  const part = usePart(loadRefunds, (waiting?.length ?? 0) > 0);
  return part ? <part.RefundsNeedingAction waiting={waiting} /> : null;
}

/** Title and text of an empty list of waiting work. */
const nothingDue = new Map<string, readonly [title: string, text: string]>([
  ['prepare', ['Nothing to prepare', 'Every paid order is packed, on its way or delivered.']],
  ['ready', ['Nothing is ready', 'No packed order waits for its rider.']],
  ['on_the_way', ['Nothing is on its way', 'No paid order has left without being delivered.']],
  ['failed', ['No delivery failed', 'No paid order waits for another try.']],
  ['late', ['Nothing is late', 'No paid order has waited longer than 60 minutes.']],
]);

function describeEmpty({ values, isNarrowed, clear }: ListFilters<OrderParameters>) {
  if (!isNarrowed)
    return { title: 'No orders yet', text: 'They appear here as soon as a customer places one.' };
  const isDueAlone = Object.entries(values).every(([name, value]) => value === '' || name === 'due');
  const [title, text] = (isDueAlone && nothingDue.get(values.due)) || [
    'No orders found',
    values.search
      ? 'Try three letters or more of the name, phone, address, drink or order number, or fewer filters.'
      : 'No order fits these filters. Try fewer of them.',
  ];
  return { ...noneFound('orders', text, clear), title };
}

/** Payments that need review come first, whatever the filters. */
function OrdersNeedingReview() {
  const [parameters] = useSearchParams();
  const waiting = useOrdersNeedingReview();
  if (!waiting || waiting.count === 0) return null;
  const { orders, count } = waiting;
  return (
    <div
      role="status"
      className="flex flex-wrap items-center gap-x-4 rounded-md border border-danger/40 bg-danger-soft px-4 py-2 text-sm text-danger"
    >
      <p className="py-1 font-bold">
        {count === 1 ? 'One paid order needs' : `${count} paid orders need`} your decision
      </p>
      <ul className="flex flex-wrap gap-x-4 gap-y-1">
        {orders.map(({ id, order_number }) => (
          <li key={id}>
            <Link
              to={{ pathname: `/admin/orders/${id}`, search: parameters.toString() }}
              state={{ isFromList: true }}
              preventScrollReset
              className="tap font-semibold text-danger underline"
            >
              {order_number}
            </Link>
          </li>
        ))}
        {count > orders.length ? (
          <li className="py-1">and {(count - orders.length).toLocaleString('en-KE')} more</li>
        ) : null}
      </ul>
    </div>
  );
}
