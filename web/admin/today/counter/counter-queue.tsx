// The queue in counter mode: three columns that scroll by themselves, and above them what needs attention.
import { useRef } from 'react';
import type { Rider } from '../../deliveries/rider-queries.ts';
import { drinkAndBrand } from '../../orders/place.ts';
import { PauseBanner } from '../../pause/pause-orders.tsx';
import { labelOfFailure } from '../../status/staff-labels.ts';
import { isThere, type Matter, Matters } from '../attention.tsx';
import { OrderActions } from '../order-card.tsx';
import {
  Cards,
  Group,
  groups,
  type Queue,
  type QueueEntry,
  QueueProblem,
  Skeletons,
} from '../queue-groups.tsx';
import { CounterLine } from './counter-line.tsx';
import { useArrivals } from './use-arrivals.ts';

interface CounterQueueProps {
  shown: Queue;
  matters: readonly Matter[];
  rider: Rider | undefined;
  onHandOver(name: string): void;
}

const firstDrink = ({ delivery: { order } }: QueueEntry): string => {
  const [item] = order.order_items;
  return item ? `${item.quantity} × ${drinkAndBrand(item)[0]}` : order.order_number;
};

export function CounterQueue({ shown, matters, rider, onHandOver }: CounterQueueProps) {
  const { queue, isLoaded, error } = shown;
  const heading = useRef<HTMLHeadingElement>(null);
  const { fresh, hidden } = useArrivals(
    isLoaded
      ? queue.map(({ delivery, step }) => ({ id: delivery.id, isUntouched: step === 'prepare' }))
      : undefined,
  );
  const failed = queue.filter(({ step }) => step === 'failed');
  const outOfView = queue.filter(({ delivery }) => hidden.includes(delivery.id));
  return (
    <div data-counter className="flex min-h-full flex-col lg:h-full">
      <CounterLine />
      <div className="flex min-h-0 flex-1 flex-col gap-3 px-3 pt-3">
        <h1 ref={heading} tabIndex={-1} className="sr-only">
          Today at the counter
        </h1>
        <PauseBanner onResume={() => heading.current?.focus()} />
        <QueueProblem queue={shown} />
        {failed.length > 0 || matters.some(isThere) ? (
          <section aria-label="Needs attention" className="grid shrink-0 grid-cols-[minmax(0,1fr)] gap-2">
            <Matters matters={matters} isOneLine />
            <ul className="relative grid gap-2 empty:hidden lg:max-h-46 lg:overflow-y-auto">
              {failed.map((entry) => (
                <Failed key={entry.delivery.id} {...entry} rider={rider} onHandOver={onHandOver} />
              ))}
            </ul>
          </section>
        ) : null}
        {isLoaded || !error ? (
          <div className="grid min-h-0 flex-1 grid-cols-[minmax(0,1fr)] gap-3 md:grid-cols-2 lg:grid-cols-3">
            {groups.map(({ title, steps, empty }) => {
              const waiting = queue.filter(({ step }) => steps.includes(step));
              const isFirst = steps.includes('prepare');
              return (
                <Group
                  key={title}
                  title={title}
                  count={isLoaded ? waiting.length : null}
                  className="flex min-h-0 flex-col"
                >
                  {/* Space for outlines, and below the last card, so that messages cover none of its buttons. Positioned: texts
                    for screen readers would otherwise make the page itself scroll. */}
                  <div className="relative -mx-1 grid min-h-0 flex-1 auto-rows-max grid-cols-[minmax(0,1fr)] gap-2 overscroll-contain p-1 lg:overflow-y-auto lg:pb-24">
                    {!isLoaded ? (
                      <Skeletons />
                    ) : waiting.length === 0 ? (
                      <p className="rounded-lg border border-dashed border-line-strong px-3 py-4 text-ink-soft">
                        {empty}
                      </p>
                    ) : (
                      <Cards queue={waiting} rider={rider} onHandOver={onHandOver} fresh={fresh} />
                    )}
                  </div>
                  {isFirst ? <NewOrders entries={outOfView} /> : null}
                </Group>
              );
            })}
          </div>
        ) : null}
      </div>
    </div>
  );
}

/** New orders below the ones in view: the earliest due stands first, so that a new one is last. */
function NewOrders({ entries }: { entries: readonly QueueEntry[] }) {
  const [first] = entries;
  return (
    // The region is in the page before its first words, or screen readers do not announce them.
    <div role="status" className="shrink-0 not-empty:pb-3">
      {first ? (
        <button
          type="button"
          onClick={() =>
            document
              .querySelector(`[data-delivery="${CSS.escape(first.delivery.id)}"]`)
              ?.scrollIntoView({ block: 'center' })
          }
          className="min-h-14 w-full rounded-lg bg-ember-300 px-4 text-lg leading-tight font-bold text-ink hover:bg-ember-200"
        >
          <span className="line-clamp-2">
            {entries.length === 1 ? `New: ${firstDrink(first)}` : `${entries.length} new orders`}
          </span>
        </button>
      ) : null}
    </div>
  );
}

function Failed({
  delivery,
  step,
  rider,
  onHandOver,
}: QueueEntry & Pick<CounterQueueProps, 'rider' | 'onHandOver'>) {
  const { order, failure_reason, failures } = delivery;
  return (
    <li className="flex flex-wrap items-center gap-x-4 gap-y-2 rounded-lg border border-l-4 border-line border-l-danger bg-card px-3 py-2">
      <p className="min-w-0 flex-1 basis-64 text-xl leading-tight font-bold wrap-anywhere">
        {order.order_items.map((item) => `${item.quantity} × ${drinkAndBrand(item)[0]}`).join(', ')}
        <span className="block text-base font-semibold text-danger">
          {failure_reason ? labelOfFailure(failure_reason) : 'The delivery failed'}
          {failures > 1 ? `, ${failures} times` : ''}
          <span className="font-normal text-ink-soft">
            {' '}
            · {order.order_number} · <bdi>{order.customer_name.split(/\s/)[0]}</bdi>
          </span>
        </span>
      </p>
      <OrderActions delivery={delivery} step={step} rider={rider} onHandOver={onHandOver} />
    </li>
  );
}
