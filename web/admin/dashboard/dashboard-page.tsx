// The dashboard: what waits, four statistics, quick actions, the system status and the last 30 days
// (docs/product.md#dashboard-screen).
import { useOutletContext } from 'react-router';
import { useWork } from '../deliveries/rider-queries.ts';
import { describeStaffPage } from '../layout/staff-page.ts';
import type { Waiting } from '../live/use-waiting.ts';
import { PausableHeading } from '../pause/pause-orders.tsx';
import { Matters, queueMatters, useMatters, useMoneyMatters } from '../today/attention.tsx';
import type { Route } from './+types/dashboard-page.ts';
import { ActivityCard } from './activity-card.tsx';
import { DeliveriesCard } from './deliveries-card.tsx';
import { QuickActions } from './quick-actions.tsx';
import { MoneyReceived, StatCards } from './stat-cards.tsx';
import { SystemStatusCard } from './system-status-card.tsx';
import { WithheldNotice } from './withheld-notice.tsx';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Dashboard');

export default function DashboardPage() {
  const work = useWork();
  const waiting = useOutletContext<Waiting>();
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-6">
      <PausableHeading>
        <h1 className="text-3xl">Dashboard</h1>
      </PausableHeading>
      <WithheldNotice />
      <Matters matters={[...queueMatters(work), ...useMoneyMatters(waiting), ...useMatters(waiting)]} />
      <StatCards />
      <MoneyReceived />
      <DeliveriesCard />
      <div className="grid grid-cols-[minmax(0,1fr)] items-start gap-6 xl:grid-cols-[minmax(0,1.7fr)_minmax(0,1fr)]">
        <ActivityCard />
        <div className="grid grid-cols-[minmax(0,1fr)] items-start gap-6 lg:grid-cols-2 xl:grid-cols-[minmax(0,1fr)]">
          <QuickActions />
          <SystemStatusCard />
        </div>
      </div>
    </div>
  );
}
