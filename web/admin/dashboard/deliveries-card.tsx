// How the deliveries of the last seven days went, with a link to the report.
import { Link } from 'react-router';
import { formatCount } from '../../../domain/count.ts';
import { nairobiDay } from '../../../domain/nairobi-time.ts';
import { onTimePercent, useDeliveryReport } from '../reports/report-queries.ts';
import { FittingFigure } from '../ui/fitting-figure.tsx';
import { useNow } from '../ui/time/age.tsx';
import { dayAfter } from '../ui/time/nairobi-day.ts';

/** Nothing if it cannot be loaded: the cards above report a failure. */
export function DeliveriesCard() {
  const today = nairobiDay(useNow());
  const { data, error } = useDeliveryReport({ since: dayAfter(today, -6), until: today });
  if (error && !data) return null;
  const total = data?.total;
  const minutes = (figure: number | null | undefined) =>
    typeof figure === 'number' ? `${figure.toLocaleString('en-KE')} min` : '–';
  const percent = total ? onTimePercent(total) : null;
  const figures = [
    ['On time', percent === null ? '–' : `${percent} %`],
    ['Half within', minutes(total?.median_minutes)],
    ['9 of 10 within', minutes(total?.p90_minutes)],
    ['Came back', formatCount(total?.failures ?? 0)],
    ['Stars', total && total.ratings > 0 ? `${total.average_stars} of 5` : '–'],
  ];
  return (
    <section
      aria-labelledby="deliveries-of-the-week"
      aria-busy={data === undefined}
      className="grid gap-x-8 gap-y-3 rounded-lg border border-line bg-card p-4 shadow-sm md:p-5 lg:grid-cols-[minmax(12rem,1fr)_2.6fr] lg:items-center"
    >
      <div>
        <h2 id="deliveries-of-the-week" className="font-body text-sm font-semibold text-ink-soft">
          Deliveries
        </h2>
        <p className="text-sm text-ink-faint">
          Orders paid in the last seven days.{' '}
          <Link to="/admin/reports" className="tap font-semibold text-ink underline">
            By area, hour and rider
          </Link>
        </p>
      </div>
      {total && total.delivered === 0 && total.failures === 0 ? (
        <p className="text-sm text-ink-soft">None of them has arrived yet.</p>
      ) : (
        <dl className="grid grid-cols-2 gap-x-6 gap-y-2 sm:grid-cols-5">
          {figures.map(([label, figure]) => (
            <div key={label} className="@container grid gap-0.5">
              <dt className="text-sm font-semibold text-ink-soft">{label}</dt>
              <dd className="min-h-9">
                {total ? (
                  <FittingFigure size="var(--text-2xl)" className="leading-tight">
                    {figure as string}
                  </FittingFigure>
                ) : (
                  <span className="my-1.5 block h-7 w-16 rounded-sm bg-line motion-safe:animate-pulse">
                    <span className="sr-only">Loading...</span>
                  </span>
                )}
              </dd>
            </div>
          ))}
        </dl>
      )}
    </section>
  );
}
