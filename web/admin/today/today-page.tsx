// Today: the queue of paid orders by what they wait for, the earliest due first (docs/product.md#today-screen).
import { useOutletContext } from 'react-router';
import { minutesLeft } from '../../../domain/delivery-status.ts';
import { Button } from '../../ui/button.tsx';
import { AssignDialog } from '../deliveries/assign-dialog.tsx';
import { describeStaffPage } from '../layout/staff-page.ts';
import type { Waiting } from '../live/use-waiting.ts';
import { OrderDetails } from '../orders/order-details.tsx';
import { PausableHeading } from '../pause/pause-orders.tsx';
import { useNow } from '../ui/age.tsx';
import type { Route } from './+types/today-page.ts';
import { isThere, Matters, useMatters } from './attention.tsx';
import { CounterQueue } from './counter/counter-queue.tsx';
import { useCounterOpener } from './counter/use-counter-mode.ts';
import { useIsCounter } from './counter/use-is-counter.ts';
import { Cards, Group, groups, QueueProblem, Skeletons, useQueue } from './queue-groups.tsx';
import { useNextRider } from './use-next-rider.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Today');

export default function TodayPage({ params }: Route.ComponentProps) {
  const shown = useQueue();
  const { queue, isLoaded, error } = shown;
  const [rider, chooseRider] = useNextRider();
  const now = useNow();
  const failed = queue.filter(({ step }) => step === 'failed');
  const late = queue.filter(({ delivery }) => minutesLeft(delivery.created_at, now) < 0).length;
  const isCounter = useIsCounter();
  // At the counter the line above the queue counts the late ones.
  const matters = useMatters(useOutletContext<Waiting>(), isCounter ? 0 : late);
  const openCounter = useCounterOpener();
  const dialogs = (
    <>
      <AssignDialog />
      <OrderDetails screen="/admin/today" id={params.orderId ?? null} />
    </>
  );
  if (isCounter)
    return (
      <>
        <CounterQueue shown={shown} matters={matters} rider={rider} onHandOver={chooseRider} />
        {dialogs}
      </>
    );
  const needAttention = failed.length > 0 || matters.some(isThere);
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
      <PausableHeading>
        <h1 className="text-2xl">Today</h1>
        <Button
          tone="quiet"
          onClick={openCounter}
          title="The queue alone, large, for a tablet at the counter"
          className="ml-auto px-4! max-md:hidden"
        >
          Counter
        </Button>
      </PausableHeading>
      <QueueProblem queue={shown} />
      {needAttention ? (
        <Group
          title="Needs attention"
          count={failed.length + matters.reduce((sum, { count }) => sum + count, 0)}
        >
          <div className="grid gap-3">
            <Matters matters={matters} />
            <Cards
              queue={failed}
              columns="sm:grid-cols-2 xl:grid-cols-3"
              rider={rider}
              onHandOver={chooseRider}
            />
          </div>
        </Group>
      ) : null}
      {isLoaded || !error ? (
        <div className="grid grid-cols-[minmax(0,1fr)] items-start gap-x-4 gap-y-5 md:grid-cols-2 xl:grid-cols-3">
          {groups.map(({ title, steps, empty }) => {
            const waiting = queue.filter(({ step }) => steps.includes(step));
            return (
              <Group key={title} title={title} count={isLoaded ? waiting.length : null}>
                {!isLoaded ? (
                  <Skeletons />
                ) : waiting.length === 0 ? (
                  <p className="rounded-lg border border-dashed border-line-strong px-3 py-4 text-sm text-ink-soft">
                    {empty}
                  </p>
                ) : (
                  <Cards queue={waiting} rider={rider} onHandOver={chooseRider} />
                )}
              </Group>
            );
          })}
        </div>
      ) : null}
      {dialogs}
    </div>
  );
}
