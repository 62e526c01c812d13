// Links to the most frequent tasks.
import { Link } from 'react-router';
import { Card } from '../../ui/card.tsx';
import { Icon } from '../../ui/icons.tsx';
import { StaffIcon, type StaffIconName } from '../layout/sidebar/staff-icons.tsx';

const actions: readonly { label: string; to: string; icon: StaffIconName }[] = [
  { label: 'Add New Product', to: '/admin/products?new=1', icon: 'bottle' },
  { label: 'View Recent Orders', to: '/admin/orders', icon: 'receipt' },
  { label: 'Review Inquiries', to: '/admin/inquiries', icon: 'inbox' },
];

export function QuickActions() {
  return (
    <Card title="Quick Actions">
      <ul className="grid grid-cols-[minmax(0,1fr)] gap-2">
        {actions.map(({ label, to, icon }) => (
          <li key={label}>
            <Link
              to={to}
              className="group flex min-h-12 items-center gap-3 rounded-md border border-line bg-paper px-4 font-semibold text-ink no-underline transition-colors hover:border-dusk-300 hover:bg-dusk-50"
            >
              <StaffIcon name={icon} className="size-5 text-dusk-500" />
              {label}
              <Icon
                name="arrow"
                className="ml-auto size-4 text-ink-faint transition-transform group-hover:translate-x-0.5"
              />
            </Link>
          </li>
        ))}
      </ul>
    </Card>
  );
}
