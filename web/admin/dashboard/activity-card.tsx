// Page views, orders and failed deliveries of the last 30 days: a chart, and a table for screen readers and details.
import { lazy, Suspense } from 'react';
import { formatCount } from '../../../domain/count.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { useInstallation } from '../layout/use-installation.ts';
import { formatDay } from '../ui/time/nairobi-day.ts';
import { type Day, useDays } from './dashboard-queries.ts';

// The chart library is large: it is loaded last. Without it the table has the figures.
const ActivityChart = lazy(() => import('./activity-chart.tsx').catch(() => ({ default: MissingChart })));

function MissingChart() {
  return (
    <p className="grid h-64 place-content-center rounded-md bg-paper-deep px-6 text-center text-ink-soft">
      The chart could not be loaded. The table below has the same figures.
    </p>
  );
}

const total = (days: readonly Day[], of: 'page_views' | 'orders' | 'failed_deliveries'): number =>
  days.reduce((sum, day) => sum + day[of], 0);

export function ActivityCard() {
  const { data, error, isFetching, refetch } = useDays();
  const { analytics } = useInstallation();
  return (
    <Card title="Last 30 Days" description="Page views and orders per day, in Nairobi time.">
      {data ? (
        <Activity days={data} countedAt={analytics.url} />
      ) : error ? (
        <div role="alert" className="grid h-72 place-content-center justify-items-center gap-3 text-center">
          <p className="font-semibold text-danger">The last 30 days could not be loaded</p>
          <Button tone="quiet" isBusy={isFetching} onClick={() => void refetch()}>
            Try again
          </Button>
        </div>
      ) : (
        <div className="h-72 rounded-md bg-paper-deep motion-safe:animate-pulse">
          <span className="sr-only">Loading...</span>
        </div>
      )}
    </Card>
  );
}

/** @param countedAt where page views are counted instead; '' if they are counted here */
function Activity({ days, countedAt }: { days: readonly Day[]; countedAt: string }) {
  const [views, orders] = [total(days, 'page_views'), total(days, 'orders')];
  const failures = total(days, 'failed_deliveries');
  const failedToday = days.at(-1)?.failed_deliveries ?? 0;
  const hasViews = countedAt === '' || views > 0;
  const span = `${formatDay(days[0]?.day ?? '')} to ${formatDay(days.at(-1)?.day ?? '')}`;
  return (
    <>
      <ul className="mb-4 flex flex-wrap gap-x-6 gap-y-2 text-sm text-ink-soft">
        {hasViews ? (
          <li className="flex items-baseline gap-2">
            <span
              aria-hidden="true"
              className="h-1 w-4 self-center rounded-pill bg-dusk-400 forced-color-adjust-none"
            />
            Page views{' '}
            <strong className="font-display text-xl text-ink tabular-nums">{formatCount(views)}</strong>
          </li>
        ) : (
          <li>
            Page views are counted at{' '}
            <a href={countedAt} className="font-semibold underline" rel="noreferrer" target="_blank">
              {new URL(countedAt).host}
            </a>
          </li>
        )}
        <li className="flex items-baseline gap-2">
          <span
            aria-hidden="true"
            className="size-3 self-center rounded-sm bg-leaf-500 forced-color-adjust-none"
          />
          Orders <strong className="font-display text-xl text-ink tabular-nums">{formatCount(orders)}</strong>
        </li>
        <li className="flex items-baseline gap-2">
          Failed deliveries{' '}
          <strong className="font-display text-xl text-ink tabular-nums">{formatCount(failures)}</strong>
          {failedToday > 0 ? <span>({formatCount(failedToday)} today)</span> : null}
        </li>
      </ul>
      {views + orders === 0 ? (
        <div className="grid h-64 place-content-center rounded-md border border-dashed border-line-strong/60 px-6 text-center">
          <p className="font-display text-xl font-bold">Nothing yet</p>
          <p className="text-ink-soft">Page views and orders appear here as they come in.</p>
        </div>
      ) : (
        <>
          <div
            role="img"
            aria-label={`Chart of ${span}: ${formatCount(views)} page views, ${formatCount(orders)} orders. The table below holds the same figures.`}
            className="h-64 xl:h-104"
          >
            <Suspense
              fallback={<div className="h-full rounded-md bg-paper-deep motion-safe:animate-pulse" />}
            >
              <ActivityChart days={days} hasViews={hasViews} />
            </Suspense>
          </div>
          <details className="group mt-4">
            <summary className="inline-flex min-h-11 cursor-pointer items-center rounded-md text-sm font-semibold text-dusk-600 underline underline-offset-4">
              Figures as a table
            </summary>
            <Table days={days} hasViews={hasViews} />
          </details>
        </>
      )}
    </>
  );
}

function Table({ days, hasViews }: { days: readonly Day[]; hasViews: boolean }) {
  return (
    <div className="mt-2 overflow-hidden rounded-md border border-line">
      <table className="w-full text-sm">
        <thead className="bg-paper-deep text-left">
          <tr>
            <th scope="col" className="px-4 py-2 font-semibold">
              Day
            </th>
            {hasViews ? (
              <th scope="col" className="px-4 py-2 text-right font-semibold">
                Page views
              </th>
            ) : null}
            <th scope="col" className="px-4 py-2 text-right font-semibold">
              Orders
            </th>
            <th scope="col" className="px-4 py-2 text-right font-semibold">
              Failed deliveries
            </th>
          </tr>
        </thead>
        <tbody>
          {[...days].reverse().map(({ day, page_views, orders, failed_deliveries }) => (
            <tr key={day} className="border-t border-line">
              <th scope="row" className="px-4 py-1.5 text-left font-normal">
                {formatDay(day)}
              </th>
              {hasViews ? (
                <td className="px-4 py-1.5 text-right tabular-nums">{formatCount(page_views)}</td>
              ) : null}
              <td className="px-4 py-1.5 text-right tabular-nums">{formatCount(orders)}</td>
              <td className="px-4 py-1.5 text-right tabular-nums">{formatCount(failed_deliveries)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
