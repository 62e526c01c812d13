// Everything that happened to an order: what, who, when; the newest first.
import { formatDateTime } from '../dates.ts';
import { describeActor, describeEvent, type OrderEvent } from './order-event-words.ts';

const dots = { good: 'bg-leaf-500', bad: 'bg-danger', plain: 'bg-dusk-400' };

export function OrderTimeline({ events }: { events: readonly OrderEvent[] }) {
  return (
    <ol className="grid">
      {[...events].reverse().map((event) => {
        const { what, more, tone } = describeEvent(event);
        return (
          <li
            key={event.id}
            className="relative pb-4 pl-6 before:absolute before:top-3 before:-bottom-3 before:left-[5px] before:w-0.5 before:bg-line last:pb-0 last:before:hidden"
          >
            <span
              aria-hidden="true"
              className={`absolute top-2 left-0 size-3 rounded-pill ring-4 ring-card ${dots[tone]}`}
            />
            <p className="font-semibold">{what}</p>
            {more ? <p className="text-sm break-words text-ink-soft">{more}</p> : null}
            <p className="text-xs break-words text-ink-soft">
              {describeActor(event)} ·{' '}
              <time dateTime={event.happened_at}>{formatDateTime(event.happened_at)}</time>
            </p>
          </li>
        );
      })}
    </ol>
  );
}
