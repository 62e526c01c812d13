// Today: the queue of paid orders by what they wait for, the earliest due first (docs/product.md#today-screen).
import { useOutletContext } from 'react-router';
import { dueAt, minutesLeft } from '../../../domain/deliveries/delivery-promise.ts';
import { hasCancelRequest } from '../../../domain/deliveries/delivery-status.ts';
import { Button } from '../../ui/button.tsx';
import { AssignDialog } from '../deliveries/assign-dialog.tsx';
import { useMay } from '../layout/roles/use-member.tsx';
import { describeStaffPage } from '../layout/staff-page.ts';
import type { Waiting } from '../live/use-waiting.ts';
import { NewOrderLink } from '../orders/new/new-order-link.tsx';
import { OrderDetails } from '../orders/order-details.tsx';
import { flat, PausableHeading } from '../pause/pause-orders.tsx';
import type { Route } from './+types/today-page.ts';
import { isThere, Matters, useMatters, useMoneyMatters } from './attention.tsx';
import { CounterQueue } from './counter/counter-queue.tsx';
import { useCounterOpener } from './counter/use-counter-mode.ts';
import { useIsCounter } from './counter/use-is-counter.ts';
import { ReviewCards, useMoneyDecisions } from './money-decisions.tsx';
import { Cards, Group, groups, type QueueEntry, QueueProblem, Skeletons, useQueue } from './queue-groups.tsx';
import { useNextRider } from './use-next-rider.ts';
import { useSettledNow } from './use-settled-now.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Today');

export default function TodayPage({ params }: Route.ComponentProps) {
  const shown = useQueue();
  const { queue, isLoaded, error } = shown;
  const [rider, chooseRider] = useNextRider();
  const now = useSettledNow();
  const waiting = useOutletContext<Waiting>();
  const matters = useMatters(waiting);
  const moneyMatters = useMoneyMatters(waiting);
  const decisions = useMoneyDecisions();
  const openCounter = useCounterOpener();
  const may = useMay();
  const dialogs = (
    <>
      <AssignDialog />
      <OrderDetails screen="/admin/today" id={params.orderId ?? null} />
    </>
  );
  if (useIsCounter())
    return (
      <>
        {/* Late orders stay in their columns there: each scrolls by itself and begins with the earliest due. */}
        <CounterQueue
          shown={shown}
          matters={[...moneyMatters, ...matters]}
          rider={rider}
          onHandOver={chooseRider}
        />
        {dialogs}
      </>
    );
  const isAsked = ({ delivery }: QueueEntry) => hasCancelRequest(delivery.order);
  const isUrgent = ({ delivery, step }: QueueEntry) =>
    step === 'failed' ||
    hasCancelRequest(delivery.order) ||
    minutesLeft(dueAt(delivery.order, delivery.created_at), now) < 0;
  // Customers who asked to cancel wait for an answer, failed deliveries for a decision, late ones for the next step.
  const urgent = [
    ...queue.filter(isAsked),
    ...queue.filter((entry) => entry.step === 'failed' && !isAsked(entry)),
    ...queue.filter((entry) => entry.step !== 'failed' && !isAsked(entry) && isUrgent(entry)),
  ];
  const needAttention = urgent.length > 0 || decisions.isShown || matters.some(isThere);
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-2 md:gap-3">
      <PausableHeading>
        <h1 className="text-2xl">Today</h1>
        {may('orders') ? <NewOrderLink isShort className={`max-md:min-w-11 max-md:px-0! ${flat}`} /> : null}
        <Button
          tone="quiet"
          onClick={openCounter}
          title="The queue alone, large, for a tablet at the counter"
          className={`ml-auto px-4! max-md:hidden ${flat}`}
        >
          Counter
        </Button>
      </PausableHeading>
      <QueueProblem queue={shown} />
      {needAttention ? (
        <Group
          title="Needs attention"
          count={urgent.length + decisions.count + matters.reduce((sum, { count }) => sum + count, 0)}
        >
          <div className="grid grid-cols-[minmax(0,1fr)] gap-2">
            <Cards
              queue={urgent}
              isMixed
              columns="items-start sm:grid-cols-2 xl:grid-cols-3"
              rider={rider}
              onHandOver={chooseRider}
            >
              <ReviewCards reviews={decisions.reviews} />
            </Cards>
            {decisions.refunds}
            <Matters matters={matters} isOneLine />
          </div>
        </Group>
      ) : null}
      {isLoaded || !error ? (
        <div className="grid grid-cols-[minmax(0,1fr)] items-start gap-x-4 gap-y-5 md:grid-cols-2 xl:grid-cols-3">
          {groups.map(({ title, steps, empty }) => {
            const onTime = queue.filter((entry) => steps.includes(entry.step) && !isUrgent(entry));
            return (
              <Group key={title} title={title} count={isLoaded ? onTime.length : null}>
                {!isLoaded ? (
                  <Skeletons />
                ) : onTime.length === 0 ? (
                  <p className="rounded-lg border border-dashed border-line-strong px-3 py-4 text-sm text-ink-soft">
                    {empty}
                  </p>
                ) : (
                  <Cards queue={onTime} rider={rider} onHandOver={chooseRider} />
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
