// The orders: searched, filtered, exported, their status set where it is shown, and each opened whole.
import { Link, useSearchParams } from 'react-router';
import { Button } from '../../ui/button.tsx';
import { ExportButton } from '../list/export-button.tsx';
import { FilterSelect, ListToolbar, SearchBox } from '../list/list-toolbar.tsx';
import { ListFrame, RowList } from '../list/row-list.tsx';
import { useListFilters } from '../list/use-list-filters.ts';
import { describeStaffPage } from '../staff-page.ts';
import { statusWords } from '../status-badge.tsx';
import { useMember } from '../use-member.tsx';
import type { Route } from './+types/orders-page.ts';
import { exportColumns, orderColumns } from './order-columns.tsx';
import { OrderDialog } from './order-dialog.tsx';
import {
  decisionOf,
  orderStatuses,
  readOrders,
  useOrderCount,
  useOrders,
  useOrdersToDecide,
} from './order-queries.ts';
import { RefundsToLookAt } from './refunds-to-look-at.tsx';
import { useOrderStatus } from './use-order-status.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Orders');

export default function OrdersPage({ params }: Route.ComponentProps) {
  const { tables } = useMember().staff;
  const filters = useListFilters(['search', 'status']);
  const { search, status } = filters.values;
  const orders = useOrders({ search, status });
  const count = useOrderCount({ search, status });
  const orderStatus = useOrderStatus();

  return (
    <>
      <ListFrame
        heading="Orders"
        subtitle="Manage customer orders"
        card="Order Management"
        toolbar={
          <>
            <OrdersToDecide />
            <RefundsToLookAt />
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
                  ...orderStatuses.map((value) => ({ value, label: statusWords(value) })),
                ]}
                onChoose={(value) => filters.set('status', value)}
              />
              <ExportButton
                name="orders"
                read={readOrders(tables, { search, status })}
                columns={exportColumns}
              />
              <p role="status" className="min-w-20 text-sm text-ink-soft tabular-nums">
                {count === undefined
                  ? ''
                  : `${count.toLocaleString('en-KE')} ${count === 1 ? 'order' : 'orders'}`}
              </p>
            </ListToolbar>
          </>
        }
      >
        <RowList
          {...orders}
          label="Orders"
          columns={orderColumns(orderStatus)}
          rowStyle={(order) =>
            decisionOf(order) ? 'bg-danger-soft/40 shadow-[inset_4px_0_0] shadow-danger' : ''
          }
          empty={
            filters.isNarrowed
              ? {
                  title: 'No orders found',
                  text: 'Try another search or another status.',
                  action: (
                    <Button tone="quiet" onClick={filters.clear}>
                      Show all orders
                    </Button>
                  ),
                }
              : { title: 'No orders yet', text: 'They appear here as soon as somebody places one.' }
          }
        />
      </ListFrame>
      <OrderDialog id={params.orderId ?? null} />
    </>
  );
}

/** Money that waits for a person comes first, whatever the list is narrowed to. */
function OrdersToDecide() {
  const [parameters] = useSearchParams();
  const waiting = useOrdersToDecide();
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
