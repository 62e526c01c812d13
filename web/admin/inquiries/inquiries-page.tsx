// The inquiries, newest first (specification §2, Admin Inquiries).
import { Badge } from '../../ui/badge.tsx';
import { formatDate } from '../dates.ts';
import { type Column, ListScreen } from '../list-screen.tsx';
import { memberContext } from '../member.ts';
import { newest, rowsAndCount } from '../read-newest.ts';
import { describeStaffPage } from '../staff-page.ts';
import type { Route } from './+types/inquiries-page.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Inquiries');

export async function clientLoader({ context }: Route.ClientLoaderArgs) {
  const { tables } = context.get(memberContext).staff;
  return rowsAndCount(
    await tables
      .from('inquiries')
      .select('id, name, email, subject, created_at, is_read', { count: 'exact' })
      .order('created_at', { ascending: false })
      .limit(newest),
  );
}
clientLoader.hydrate = true as const;

const columns: Column<Route.ComponentProps['loaderData']['rows'][number]>[] = [
  { title: 'Name', show: ({ name }) => <span className="font-semibold">{name}</span> },
  { title: 'Email', show: ({ email }) => email },
  { title: 'Subject', show: ({ subject }) => subject || 'No subject' },
  { title: 'Date', show: ({ created_at }) => formatDate(created_at) },
  {
    title: 'Status',
    show: ({ is_read }) => <Badge tone={is_read ? 'grey' : 'blue'}>{is_read ? 'Read' : 'Unread'}</Badge>,
  },
];

export default function InquiriesPage({ loaderData }: Route.ComponentProps) {
  return (
    <ListScreen
      heading="Inquiries"
      subtitle="Manage customer inquiries"
      card="Messages"
      noun={['inquiry', 'inquiries']}
      columns={columns}
      {...loaderData}
    />
  );
}
