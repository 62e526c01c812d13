// The orders, newest first (specification §2, Admin Orders).
import { formatKes } from '../../../domain/money.ts';
import { formatDate } from '../dates.ts';
import { type Column, ListScreen } from '../list-screen.tsx';
import { memberContext } from '../member.ts';
import { newest, rowsAndCount } from '../read-newest.ts';
import { describeStaffPage } from '../staff-page.ts';
import { StatusBadge } from '../status-badge.tsx';
import type { Route } from './+types/orders-page.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Orders');

export async function clientLoader({ context }: Route.ClientLoaderArgs) {
  const { tables } = context.get(memberContext).staff;
  return rowsAndCount(
    await tables
      .from('orders')
      .select('id, order_number, customer_name, customer_email, created_at, total_amount, status', {
        count: 'exact',
      })
      .order('created_at', { ascending: false })
      .limit(newest),
  );
}
clientLoader.hydrate = true as const;

const columns: Column<Route.ComponentProps['loaderData']['rows'][number]>[] = [
  { title: 'Order #', show: ({ order_number }) => <span className="font-semibold">{order_number}</span> },
  {
    title: 'Customer',
    show: ({ customer_name, customer_email }) => (
      <>
        {customer_name}
        <span className="block text-ink-soft">{customer_email}</span>
      </>
    ),
  },
  { title: 'Date', show: ({ created_at }) => formatDate(created_at) },
  { title: 'Total', isNumber: true, show: ({ total_amount }) => formatKes(total_amount) },
  { title: 'Status', show: ({ status }) => <StatusBadge status={status} /> },
];

export default function OrdersPage({ loaderData }: Route.ComponentProps) {
  return (
    <ListScreen
      heading="Orders"
      subtitle="Manage customer orders"
      card="Order Management"
      noun={['order', 'orders']}
      columns={columns}
      {...loaderData}
    />
  );
}
