// The queue of paid orders by what they wait for, as Today and its counter mode show it.
import { type ReactNode, useId } from 'react';
import { formatCount } from '../../../domain/count.ts';
import { type WorkStep, workStep } from '../../../domain/deliveries/delivery-status.ts';
import { Button } from '../../ui/button.tsx';
import { type ListedDelivery, useWorkQueue } from '../deliveries/delivery-queries.ts';
import type { Rider } from '../deliveries/rider-queries.ts';
import { useLostFocus } from '../list/use-lost-focus.ts';
import { OrderCard } from './order-card.tsx';

export interface QueueEntry {
  delivery: ListedDelivery;
  step: WorkStep;
}

export const groups: readonly { title: string; steps: readonly WorkStep[]; empty: string }[] = [
  {
    title: 'To prepare',
    steps: ['prepare', 'preparing'],
    empty: 'Nothing to prepare. A new paid order appears here by itself.',
  },
  { title: 'Ready', steps: ['ready'], empty: 'Nothing is packed and waiting for its rider.' },
  { title: 'On the way', steps: ['on_the_way'], empty: 'No rider is on the way.' },
];

export function useQueue() {
  useLostFocus('data-delivery', 'button');
  const { data, error, refetch, isFetching } = useWorkQueue();
  /** Empty until loaded. */
  const queue = (data ?? []).flatMap((delivery): QueueEntry[] => {
    const step = workStep(delivery.order, delivery);
    return step ? [{ delivery, step }] : [];
  });
  return { queue, isLoaded: data !== undefined, error, refetch, isFetching };
}
export type Queue = ReturnType<typeof useQueue>;

/** Says that the queue may be outdated, or could not be loaded. */
export function QueueProblem({ queue: { error, isLoaded, refetch, isFetching } }: { queue: Queue }) {
  if (!error) return null;
  return (
    <div
      role="alert"
      className="flex flex-wrap items-center gap-3 rounded-md bg-danger-soft px-4 py-3 text-sm text-danger"
    >
      <span className="font-semibold">
        {isLoaded
          ? 'What you see may be out of date: the last refresh failed.'
          : 'The queue could not be loaded. Please check the connection and try again.'}
      </span>
      <Button tone="quiet" onClick={() => void refetch()} isBusy={isFetching}>
        Try again
      </Button>
    </div>
  );
}

interface GroupProps {
  title: string;
  /** Null while unknown. */
  count: number | null;
  className?: string;
  children: ReactNode;
}

export function Group({ title, count, className = 'grid', children }: GroupProps) {
  const id = useId();
  return (
    <section aria-labelledby={id} className={`min-w-0 grid-cols-[minmax(0,1fr)] gap-2 ${className}`}>
      <h2 id={id} className="flex items-baseline gap-2 text-lg">
        {title}
        {count === null ? null : (
          <span className="rounded-pill bg-paper-deep px-2 text-sm font-bold text-ink-soft tabular-nums">
            {formatCount(count)}
          </span>
        )}
      </h2>
      {children}
    </section>
  );
}

interface CardsProps {
  queue: readonly QueueEntry[];
  columns?: string;
  rider: Rider | undefined;
  onHandOver(name: string): void;
  /** Ids of the deliveries that have just arrived. */
  fresh?: readonly string[];
  /** Whether each card names its step, because the group does not. */
  isMixed?: boolean;
  /** Further cards, after those of the queue. */
  children?: ReactNode;
}

export function Cards({
  queue,
  columns = '',
  rider,
  onHandOver,
  fresh = [],
  isMixed = false,
  children,
}: CardsProps) {
  return (
    <ul className={`grid grid-cols-[minmax(0,1fr)] gap-2 empty:hidden ${columns}`}>
      {queue.map(({ delivery, step }) => (
        <OrderCard
          key={delivery.id}
          delivery={delivery}
          step={step}
          rider={rider}
          onHandOver={onHandOver}
          isNew={fresh.includes(delivery.id)}
          showsStep={isMixed}
        />
      ))}
      {children}
    </ul>
  );
}

export function Skeletons() {
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
