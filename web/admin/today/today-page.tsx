// Today: the queue of paid orders by what they wait for, the earliest due first (docs/product.md#today-screen).
import { type ReactNode, useId } from 'react';
import { useOutletContext } from 'react-router';
import { minutesLeft, type WorkStep, workStep } from '../../../domain/delivery-status.ts';
import { Button } from '../../ui/button.tsx';
import { AssignDialog } from '../deliveries/assign-dialog.tsx';
import { type ListedDelivery, useWorkQueue } from '../deliveries/delivery-queries.ts';
import type { Rider } from '../deliveries/rider-queries.ts';
import { describeStaffPage } from '../layout/staff-page.ts';
import type { Waiting } from '../live/use-waiting.ts';
import { OrderDetails } from '../orders/order-details.tsx';
import { PausableHeading } from '../pause/pause-orders.tsx';
import { useNow } from '../ui/age.tsx';
import type { Route } from './+types/today-page.ts';
import { isThere, Matters, useMatters } from './attention.tsx';
import { OrderCard } from './order-card.tsx';
import { useNextRider } from './use-next-rider.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Today');

interface Queued {
  delivery: ListedDelivery;
  step: WorkStep;
}

const groups: readonly { title: string; steps: readonly WorkStep[]; empty: string }[] = [
  {
    title: 'To prepare',
    steps: ['prepare', 'preparing'],
    empty: 'Nothing to prepare. A new paid order appears here by itself.',
  },
  { title: 'Ready', steps: ['ready'], empty: 'Nothing is packed and waiting for its rider.' },
  { title: 'On the way', steps: ['on_the_way'], empty: 'No rider is on the way.' },
];

export default function TodayPage({ params }: Route.ComponentProps) {
  const { data, error, refetch, isFetching } = useWorkQueue();
  const [rider, chooseRider] = useNextRider();
  const now = useNow();
  const queue = (data ?? []).flatMap((delivery): Queued[] => {
    const step = workStep(delivery.order, delivery);
    return step ? [{ delivery, step }] : [];
  });
  const failed = queue.filter(({ step }) => step === 'failed');
  const late = queue.filter(({ delivery }) => minutesLeft(delivery.created_at, now) < 0).length;
  const matters = useMatters(useOutletContext<Waiting>(), late);
  const needAttention = failed.length > 0 || matters.some(isThere);
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
      <PausableHeading>
        <h1 className="text-2xl">Today</h1>
      </PausableHeading>
      {error ? (
        <div
          role="alert"
          className="flex flex-wrap items-center gap-3 rounded-md bg-danger-soft px-4 py-3 text-sm text-danger"
        >
          <span className="font-semibold">
            {data
              ? 'What you see may be out of date: the last refresh failed.'
              : 'The queue could not be loaded. Please check the connection and try again.'}
          </span>
          <Button tone="quiet" onClick={() => void refetch()} isBusy={isFetching}>
            Try again
          </Button>
        </div>
      ) : null}
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
      {data || !error ? (
        <div className="grid grid-cols-[minmax(0,1fr)] items-start gap-x-4 gap-y-5 md:grid-cols-2 xl:grid-cols-3">
          {groups.map(({ title, steps, empty }) => {
            const waiting = queue.filter(({ step }) => steps.includes(step));
            return (
              <Group key={title} title={title} count={data ? waiting.length : null}>
                {data === undefined ? (
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
      <AssignDialog />
      <OrderDetails screen="/admin/today" id={params.orderId ?? null} />
    </div>
  );
}

function Group({ title, count, children }: { title: string; count: number | null; children: ReactNode }) {
  const id = useId();
  return (
    <section aria-labelledby={id} className="grid min-w-0 grid-cols-[minmax(0,1fr)] gap-2">
      <h2 id={id} className="flex items-baseline gap-2 text-lg">
        {title}
        {count === null ? null : (
          <span className="rounded-pill bg-paper-deep px-2 text-sm font-bold text-ink-soft tabular-nums">
            {count.toLocaleString('en-KE')}
          </span>
        )}
      </h2>
      {children}
    </section>
  );
}

interface CardsProps {
  queue: readonly Queued[];
  columns?: string;
  rider: Rider | undefined;
  onHandOver(name: string): void;
}

function Cards({ queue, columns = '', rider, onHandOver }: CardsProps) {
  return (
    <ul className={`grid grid-cols-[minmax(0,1fr)] gap-2 empty:hidden ${columns}`}>
      {queue.map(({ delivery, step }) => (
        <OrderCard key={delivery.id} delivery={delivery} step={step} rider={rider} onHandOver={onHandOver} />
      ))}
    </ul>
  );
}

function Skeletons() {
  return (
    <>
      <p role="status" className="sr-only">
        Loading the queue...
      </p>
      <div aria-hidden="true" className="grid gap-2">
        {[0, 1].map((index) => (
          <div
            key={index}
            className="h-36 animate-pulse rounded-lg border border-line bg-card motion-reduce:animate-none"
          />
        ))}
      </div>
    </>
  );
}
