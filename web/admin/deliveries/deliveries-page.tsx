// The deliveries, newest first (specification §2, Admin Deliveries).
import { type Column, ListScreen } from '../list-screen.tsx';
import { memberContext } from '../member.ts';
import { newest, rowsAndCount } from '../read-newest.ts';
import { describeStaffPage } from '../staff-page.ts';
import { StatusBadge } from '../status-badge.tsx';
import type { Route } from './+types/deliveries-page.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Deliveries');

export async function clientLoader({ context }: Route.ClientLoaderArgs) {
  const { tables } = context.get(memberContext).staff;
  return rowsAndCount(
    await tables
      .from('deliveries')
      .select(
        'id, delivery_status, delivery_person, delivery_phone, delivery_vehicle, order:orders(order_number, customer_name, city)',
        { count: 'exact' },
      )
      .order('created_at', { ascending: false })
      .limit(newest),
  );
}
clientLoader.hydrate = true as const;

const columns: Column<Route.ComponentProps['loaderData']['rows'][number]>[] = [
  { title: 'Order #', show: ({ order }) => <span className="font-semibold">{order?.order_number}</span> },
  {
    title: 'Customer',
    show: ({ order }) => (
      <>
        {order?.customer_name}
        <span className="block text-ink-soft">{order?.city}</span>
      </>
    ),
  },
  {
    title: 'Delivery Person',
    show: ({ delivery_person, delivery_phone }) =>
      delivery_person ? (
        <>
          {delivery_person}
          <span className="block text-ink-soft">{delivery_phone}</span>
        </>
      ) : (
        'Not assigned'
      ),
  },
  { title: 'Vehicle', show: ({ delivery_vehicle }) => delivery_vehicle || 'N/A' },
  { title: 'Status', show: ({ delivery_status }) => <StatusBadge status={delivery_status} /> },
];

export default function DeliveriesPage({ loaderData }: Route.ComponentProps) {
  return (
    <ListScreen
      heading="Delivery Management"
      subtitle="Track and manage product deliveries"
      card="Active Deliveries"
      noun={['delivery', 'deliveries']}
      columns={columns}
      {...loaderData}
    />
  );
}
