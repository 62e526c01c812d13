// The dashboard: four figures (specification §2, Admin dashboard; §7, Admin dashboard stats).
import { formatKes } from '../../../domain/money.ts';
import { StaffIcon, type StaffIconName } from '../layout/staff-icons.tsx';
import { memberContext } from '../member.ts';
import { rowsAndCount } from '../read-newest.ts';
import { describeStaffPage } from '../staff-page.ts';
import type { Route } from './+types/dashboard-page.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Dashboard');

export async function clientLoader({ context }: Route.ClientLoaderArgs) {
  const { tables } = context.get(memberContext).staff;
  const [products, orders, inquiries] = await Promise.all([
    tables.from('products').select('id', { count: 'exact', head: true }).eq('is_active', true),
    tables.from('orders').select('id, total_amount', { count: 'exact' }),
    tables.from('inquiries').select('id', { count: 'exact', head: true }),
  ]);
  const { rows, count } = rowsAndCount(orders);
  return {
    products: rowsAndCount(products).count,
    orders: count,
    inquiries: rowsAndCount(inquiries).count,
    revenue: rows.reduce((sum, { total_amount }) => sum + (total_amount ?? 0), 0),
  };
}
clientLoader.hydrate = true as const;

export default function DashboardPage({ loaderData }: Route.ComponentProps) {
  const { products, orders, inquiries, revenue } = loaderData;
  const figures: { title: string; figure: string; text: string; icon: StaffIconName }[] = [
    { title: 'Total Products', figure: number(products), text: 'Active products in catalog', icon: 'bottle' },
    { title: 'Total Orders', figure: number(orders), text: 'Orders received', icon: 'receipt' },
    { title: 'Total Inquiries', figure: number(inquiries), text: 'Customer inquiries', icon: 'inbox' },
    { title: 'Total Revenue', figure: formatKes(revenue), text: 'Total sales revenue', icon: 'dashboard' },
  ];
  return (
    <div className="grid gap-6">
      <h1 className="text-3xl">Dashboard</h1>
      <ul className="grid gap-4 sm:grid-cols-2 xl:grid-cols-4">
        {figures.map(({ title, figure, text, icon }) => (
          <li key={title} className="grid gap-1 rounded-lg border border-line bg-card p-5 shadow-sm">
            <h2 className="flex items-center justify-between font-body text-sm font-semibold text-ink-soft">
              {title}
              <StaffIcon name={icon} className="size-5 text-dusk-400" />
            </h2>
            <p className="font-display text-3xl font-bold tabular-nums">{figure}</p>
            <p className="text-sm text-ink-faint">{text}</p>
          </li>
        ))}
      </ul>
    </div>
  );
}

const number = (figure: number): string => figure.toLocaleString('en-KE');
