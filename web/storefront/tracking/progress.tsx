// The four steps of an order and how many of them are completed.

import { formatOrderTime } from '../../lib/orders/order-date.ts';
import type { ShownStatus } from '../../lib/orders/order-meaning.ts';
import { Icon } from '../../ui/icons.tsx';
import { describeOrderStatus, trackingProgress, trackingSteps } from './order-status.ts';

// Side by side; stacked if large text leaves no space for four.
const steps = 'relative grid grid-cols-4 @max-3xs:grid-cols-1 @max-3xs:gap-3 @max-3xs:px-4';

interface ProgressProps {
  status: ShownStatus;
  /** When each step was reached, as ISO date-times; null where it is not known. */
  times: readonly (string | null)[];
}

export function Progress({ status, times }: ProgressProps) {
  const { index, filled } = trackingProgress(status);
  return (
    <div className="@container relative max-sm:-mx-4">
      <div
        aria-hidden="true"
        className="absolute top-5 @max-3xs:hidden right-[12.5%] left-[12.5%] h-1.5 -translate-y-1/2 overflow-hidden rounded-pill bg-line"
      >
        <div
          data-filled={filled}
          className="h-full origin-left rounded-pill bg-leaf-500 forced-colors:bg-[Highlight] transition-transform duration-(--duration-slow)"
          style={{ transform: `scaleX(${filled})` }}
        />
      </div>
      {/* biome-ignore lint/a11y/noRedundantRoles: Safari removes the list role from lists without bullets */}
      <ol role="list" aria-label="Progress of the order" className={steps}>
        {trackingSteps.map((step, position) => {
          const isComplete = position <= index;
          const isCurrent = position === index;
          const time = isComplete ? times[position] : null;
          return (
            <li
              key={step}
              aria-current={isCurrent ? 'step' : undefined}
              className={`grid justify-items-center gap-2 px-1 text-center text-[min(0.75rem,3.25vw)] leading-tight wrap-anywhere sm:text-sm @max-3xs:flex @max-3xs:items-center @max-3xs:text-left @max-3xs:text-sm ${isCurrent ? 'font-bold text-ink' : isComplete ? 'text-ink' : 'text-ink-faint'}`}
            >
              <span
                aria-hidden="true"
                className={`grid size-10 shrink-0 place-items-center rounded-pill border-4 border-card transition-colors ${isComplete ? 'bg-leaf-600 text-white' : 'bg-line text-ink-soft'} ${isCurrent ? 'ring-4 ring-leaf-200' : ''}`}
              >
                {isComplete ? (
                  <Icon name="check" className="size-5" />
                ) : (
                  <span className="text-sm font-bold tabular-nums">{position + 1}</span>
                )}
              </span>
              <span>
                {describeOrderStatus(step).label}
                {isComplete ? <span className="sr-only">, done</span> : null}
                {time ? (
                  <time dateTime={time} className="block font-normal text-ink-soft tabular-nums">
                    {formatOrderTime(time)}
                  </time>
                ) : null}
              </span>
            </li>
          );
        })}
      </ol>
    </div>
  );
}
