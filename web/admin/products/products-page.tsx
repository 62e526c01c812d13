// The products, newest first (specification §2, Admin Products).
import { formatKes } from '../../../domain/money.ts';
import { Badge } from '../../ui/badge.tsx';
import { type Column, ListScreen } from '../list-screen.tsx';
import { memberContext } from '../member.ts';
import { newest, rowsAndCount } from '../read-newest.ts';
import { describeStaffPage } from '../staff-page.ts';
import type { Route } from './+types/products-page.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Products');

export async function clientLoader({ context }: Route.ClientLoaderArgs) {
  const { tables } = context.get(memberContext).staff;
  return rowsAndCount(
    await tables
      .from('products')
      .select('id, name, tagline, price, category, stock_quantity, is_active', { count: 'exact' })
      .order('created_at', { ascending: false })
      .limit(newest),
  );
}
clientLoader.hydrate = true as const;

const columns: Column<Route.ComponentProps['loaderData']['rows'][number]>[] = [
  {
    title: 'Name',
    show: ({ name, tagline }) => (
      <>
        <span className="font-semibold">{name}</span>
        {tagline ? <span className="block text-ink-soft">{tagline}</span> : null}
      </>
    ),
  },
  { title: 'Price', isNumber: true, show: ({ price }) => formatKes(price) },
  { title: 'Category', show: ({ category }) => category || 'Uncategorized' },
  { title: 'Stock', isNumber: true, show: ({ stock_quantity }) => stock_quantity ?? 0 },
  {
    title: 'Status',
    show: ({ is_active }) => (
      <Badge tone={is_active ? 'green' : 'grey'}>{is_active ? 'Active' : 'Inactive'}</Badge>
    ),
  },
];

export default function ProductsPage({ loaderData }: Route.ComponentProps) {
  return (
    <ListScreen
      heading="Products"
      subtitle="Manage your product catalog"
      card="Catalog"
      noun={['product', 'products']}
      columns={columns}
      {...loaderData}
    />
  );
}
