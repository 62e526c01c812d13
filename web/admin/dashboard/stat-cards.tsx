// The four statistics (docs/product.md#dashboard-screen) and the received money; skeletons while loading.
import { Link } from 'react-router';
import { formatCount } from '../../../domain/count.ts';
import { formatKes } from '../../../domain/money.ts';
import { Button } from '../../ui/button.tsx';
import { StaffIcon, type StaffIconName } from '../layout/sidebar/staff-icons.tsx';
import { FittingFigure } from '../ui/fitting-figure.tsx';
import { useFigures } from './dashboard-queries.ts';

type Figures = NonNullable<ReturnType<typeof useFigures>['data']>;

interface Stat {
  title: string;
  text: string;
  icon: StaffIconName;
  figure(figures: Figures): string;
  /** Explains the figure. */
  beneath?: string;
}

const stats: readonly Stat[] = [
  {
    title: 'Total Products',
    text: 'Active products in catalog',
    icon: 'bottle',
    figure: ({ products }) => formatCount(products),
  },
  {
    title: 'Total Orders',
    text: 'Orders received',
    icon: 'receipt',
    figure: ({ orders }) => formatCount(orders),
  },
  {
    title: 'Total Inquiries',
    text: 'Customer inquiries',
    icon: 'inbox',
    figure: ({ inquiries }) => formatCount(inquiries),
  },
  {
    title: 'Total Revenue',
    text: 'Total sales revenue',
    icon: 'coins',
    figure: ({ revenue }) => formatKes(revenue),
    beneath: 'All orders, paid or not',
  },
];

const card =
  '@container grid content-start gap-1 rounded-lg border border-line bg-card p-3.5 shadow-sm md:p-5';

export function StatCards() {
  const { data, error, isFetching, refetch } = useFigures();
  const isFailed = error !== null && data === undefined;
  return (
    <ul
      className="grid grid-cols-2 gap-3 md:gap-4 xl:grid-cols-4"
      aria-busy={data === undefined && !isFailed}
    >
      {stats.map((stat) =>
        data ? (
          <li key={stat.title} className={card}>
            <Title {...stat} />
            <p className="flex min-h-9 items-center">
              <FittingFigure size="var(--text-3xl)" className="leading-tight">
                {stat.figure(data)}
              </FittingFigure>
            </p>
            <p className="text-sm text-ink-faint">{stat.text}</p>
            {stat.beneath ? <p className="text-sm text-ink-soft">{stat.beneath}</p> : null}
          </li>
        ) : isFailed ? (
          <li key={stat.title} className={card}>
            <Title {...stat} />
            <p className="font-semibold text-danger">Could not be loaded</p>
            <Button
              tone="quiet"
              isBusy={isFetching}
              onClick={() => void refetch()}
              aria-label={`Try again: ${stat.title}`}
              className="mt-1 justify-self-start"
            >
              Try again
            </Button>
          </li>
        ) : (
          <Skeleton key={stat.title} />
        ),
      )}
    </ul>
  );
}

const money: readonly { label: string; figure(figures: Figures): number }[] = [
  { label: 'Today', figure: ({ received_today }) => received_today },
  { label: 'This week', figure: ({ received_this_week }) => received_this_week },
  { label: 'In all', figure: ({ received }) => received },
];

/** The reliable figure: received payments less refunds. Empty if the cards above report the failure. */
export function MoneyReceived() {
  const { data, error } = useFigures();
  if (error && !data) return null;
  return (
    <section
      aria-labelledby="money-received"
      aria-busy={data === undefined}
      className="grid gap-x-8 gap-y-3 rounded-lg border border-line bg-card p-4 shadow-sm md:p-5 lg:grid-cols-[minmax(12rem,1fr)_2.6fr] lg:items-center"
    >
      <div>
        <h2 id="money-received" className="font-body text-sm font-semibold text-ink-soft">
          Money received
        </h2>
        <p className="text-sm text-ink-faint">
          Payments that arrived, less refunds. Days of Nairobi; weeks begin on Monday.
        </p>
      </div>
      <dl className="grid gap-2 sm:grid-cols-3 sm:gap-6">
        {money.map(({ label, figure }) => (
          <div
            key={label}
            className="@container flex items-baseline justify-between gap-3 sm:grid sm:justify-stretch sm:gap-0.5"
          >
            <dt className="text-sm font-semibold text-ink-soft">{label}</dt>
            <dd className="sm:min-h-9">
              {data ? (
                <FittingFigure size="var(--text-3xl)" className="leading-tight">
                  {formatKes(figure(data))}
                </FittingFigure>
              ) : (
                <span className="my-1.5 block h-8 w-24 rounded-sm bg-line motion-safe:animate-pulse">
                  <span className="sr-only">Loading...</span>
                </span>
              )}
            </dd>
          </div>
        ))}
      </dl>
      <div className="lg:col-span-2">
        <Link to="/admin/day" className="tap text-sm font-semibold underline">
          How today's money adds up
        </Link>
      </div>
    </section>
  );
}

function Title({ title, icon }: Stat) {
  return (
    <h2 className="flex items-center justify-between font-body text-sm font-semibold text-ink-soft">
      {title}
      <StaffIcon name={icon} className="size-5 shrink-0 text-dusk-400 max-sm:hidden" />
    </h2>
  );
}

function Skeleton() {
  return (
    <li data-skeleton className={`${card} motion-safe:animate-pulse`}>
      <span className="sr-only">Loading...</span>
      <span aria-hidden="true" className="my-1 block h-4 w-28 rounded-sm bg-line" />
      <span aria-hidden="true" className="my-1.5 block h-8 w-24 rounded-sm bg-line" />
      <span aria-hidden="true" className="my-1 block h-4 w-36 rounded-sm bg-paper-deep" />
    </li>
  );
}
