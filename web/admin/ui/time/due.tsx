// Minutes until a paid order is late, or since: one rule for all lists (domain/deliveries/delivery-promise.ts).
import { formatArrival, minutesLeft } from '../../../../domain/deliveries/delivery-promise.ts';
import { useNow } from './age.tsx';
import { formatDateTime } from './dates.ts';

/** A duration of at least zero minutes: `12 min`, `2 h 5 min`, `3 days`. */
export function formatMinutes(minutes: number): string {
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 48 * 60)
    return [`${Math.floor(minutes / 60)} h`, minutes % 60 && `${minutes % 60} min`].filter(Boolean).join(' ');
  return `${Math.floor(minutes / (24 * 60))} days`;
}

/** `12 min left`, or `8 min late`. */
export function formatDue(due: string, now: number): string {
  const left = minutesLeft(due, now);
  return left >= 0 ? `${formatMinutes(left)} left` : `${formatMinutes(-left)} late`;
}

/** @param soonMinutes from this many minutes on the time is emphasised */
export function Due({
  at: due,
  paidAt,
  soonMinutes = 15,
}: {
  at: string;
  paidAt: string;
  soonMinutes?: number;
}) {
  const now = useNow();
  const left = minutesLeft(due, now);
  const tone = left < 0 ? 'font-bold text-danger' : left < soonMinutes ? 'font-bold text-ember-700' : '';
  return (
    <time
      dateTime={due}
      title={`Promised by ${formatArrival(due, now)}, paid ${formatDateTime(paidAt)}`}
      className={`whitespace-nowrap tabular-nums ${tone}`}
    >
      {formatDue(due, now)}
    </time>
  );
}
