// The four figures; skeletons until they are there (specification §2, Admin dashboard).
import { formatKes } from '../../../domain/money.ts';
import { Button } from '../../ui/button.tsx';
import { FittingFigure } from '../fitting-figure.tsx';
import { StaffIcon, type StaffIconName } from '../layout/staff-icons.tsx';
import { useFigures } from './dashboard-queries.ts';

type Figures = NonNullable<ReturnType<typeof useFigures>['data']>;

interface Stat {
  title: string;
  text: string;
  icon: StaffIconName;
  figure(figures: Figures): string;
  beneath?(figures: Figures): string;
}

const number = (figure: number): string => figure.toLocaleString('en-KE');

const stats: readonly Stat[] = [
  {
    title: 'Total Products',
    text: 'Active products in catalog',
    icon: 'bottle',
    figure: ({ products }) => number(products),
  },
  { title: 'Total Orders', text: 'Orders received', icon: 'receipt', figure: ({ orders }) => number(orders) },
  {
    title: 'Total Inquiries',
    text: 'Customer inquiries',
    icon: 'inbox',
    figure: ({ inquiries }) => number(inquiries),
  },
  {
    title: 'Total Revenue',
    text: 'Total sales revenue',
    icon: 'coins',
    figure: ({ revenue }) => formatKes(revenue),
    // The figure stays in one piece.
    beneath: ({ paid_revenue }) => `of which paid: ${formatKes(paid_revenue).replace(' ', '\u00a0')}`,
  },
];

const card = '@container grid content-start gap-1 rounded-lg border border-line bg-card p-5 shadow-sm';

export function StatCards() {
  const { data, error, isFetching, refetch } = useFigures();
  const isFailed = error !== null && data === undefined;
  return (
    <ul className="grid gap-4 sm:grid-cols-2 xl:grid-cols-4" aria-busy={data === undefined && !isFailed}>
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
            {stat.beneath ? (
              <p className="text-sm font-semibold text-ink-soft tabular-nums">{stat.beneath(data)}</p>
            ) : null}
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

function Title({ title, icon }: Stat) {
  return (
    <h2 className="flex items-center justify-between font-body text-sm font-semibold text-ink-soft">
      {title}
      <StaffIcon name={icon} className="size-5 text-dusk-400" />
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
