// The orders (specification §2, Admin Orders): searched, filtered, and their status set where it is shown.
import { formatKes } from '../../../domain/money.ts';
import { formatDate } from '../dates.ts';
import { anyContains } from '../list/contains.ts';
import { ExportButton } from '../list/export-button.tsx';
import { FilterSelect, ListToolbar, SearchBox } from '../list/list-toolbar.tsx';
import { type Column, ListFrame, RowList } from '../list/row-list.tsx';
import { useListFilters } from '../list/use-list-filters.ts';
import { isAfter, type PageWanted, useRows } from '../list/use-rows.ts';
import { describeStaffPage } from '../staff-page.ts';
import { StatusBadge, statusWords } from '../status-badge.tsx';
import { StatusSelect } from '../status-select.tsx';
import { changedRow } from '../table-answer.ts';
import { useMember } from '../use-member.tsx';
import { useSave } from '../use-save.ts';
import type { Route } from './+types/orders-page.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Orders');

const statuses = ['pending', 'processing', 'shipped', 'delivered', 'cancelled'];

export default function OrdersPage() {
  const { tables } = useMember().staff;
  const filters = useListFilters(['search', 'status']);
  const { search, status } = filters.values;

  const read = ({ after, limit, signal }: PageWanted) => {
    let wanted = tables
      .from('orders')
      .select(
        'id, order_number, customer_name, customer_email, created_at, total_amount, status, order_items(quantity)',
      );
    if (search) wanted = wanted.or(anyContains(['customer_name', 'customer_email', 'order_number'], search));
    if (status) wanted = wanted.eq('status', status);
    if (after) wanted = wanted.or(isAfter(after));
    return wanted
      .order('created_at', { ascending: false })
      .order('id', { ascending: false })
      .limit(limit)
      .abortSignal(signal);
  };
  const orders = useRows(['orders', 'list', { search, status }], read);
  type Order = (typeof orders.rows)[number];

  const setStatus = useSave({
    write: async ({ order, to }: { order: Order; to: string }) =>
      changedRow(
        await tables
          .from('orders')
          .update({ status: to, updated_at: new Date().toISOString() })
          .eq('id', order.id)
          .eq('status', order.status)
          .select('id'),
        `${order.order_number} was changed by somebody else in the meantime. You see its new status now.`,
      ),
    success: 'Order status updated successfully',
    failure: 'Failed to update order status',
    refresh: ['orders', 'dashboard'],
  });

  const columns: Column<Order>[] = [
    {
      title: 'Order #',
      card: 'heading',
      show: ({ order_number }) => <span className="font-semibold">{order_number}</span>,
    },
    {
      title: 'Customer',
      card: 'alone',
      show: ({ customer_name, customer_email }) => (
        <>
          {customer_name}
          <span className="block text-ink-soft">{customer_email}</span>
        </>
      ),
    },
    { title: 'Date', show: ({ created_at }) => formatDate(created_at) },
    {
      title: 'Items',
      show: ({ order_items }) => `${order_items.length} ${order_items.length === 1 ? 'item' : 'items'}`,
    },
    { title: 'Total', isNumber: true, show: ({ total_amount }) => formatKes(total_amount) },
    { title: 'Status', card: 'corner', show: ({ status: shown }) => <StatusBadge status={shown} /> },
    {
      title: 'Actions',
      card: 'actions',
      show: (order) => (
        <StatusSelect
          label={`Status of ${order.order_number}`}
          value={order.status}
          options={statuses}
          saving={
            setStatus.isPending && setStatus.variables.order.id === order.id
              ? setStatus.variables.to
              : undefined
          }
          onChoose={(to) => setStatus.mutate({ order, to })}
        />
      ),
    },
  ];

  return (
    <ListFrame
      heading="Orders"
      subtitle="Manage customer orders"
      card="Order Management"
      toolbar={
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
              ...statuses.map((value) => ({ value, label: statusWords(value) })),
            ]}
            onChoose={(value) => filters.set('status', value)}
          />
          <ExportButton
            name="orders"
            read={read}
            columns={[
              { title: 'Order #', value: ({ order_number }) => order_number },
              { title: 'Total (KES)', value: ({ total_amount }) => total_amount / 100 },
            ]}
          />
        </ListToolbar>
      }
    >
      <RowList
        {...orders}
        label="Orders"
        columns={columns}
        empty={
          filters.isNarrowed
            ? { title: 'No orders found', text: 'Try another search or another status.' }
            : { title: 'No orders yet', text: 'They appear here as soon as somebody places one.' }
        }
      />
    </ListFrame>
  );
}
