// A table of a report, with its file; optionally with a chart above it.
import { lazy, Suspense, useId } from 'react';
import { Link } from 'react-router';
import { formatCount } from '../../../domain/count.ts';
import { formatKes } from '../../../domain/money.ts';
import { Button } from '../../ui/button.tsx';
import { exportRows } from '../list/export/export-button.tsx';
import type { Bars } from './report-chart.tsx';
import type { Span } from './report-span.ts';

// The chart library is large: it is loaded last. Without it the table has the figures.
const ReportChart = lazy(() => import('./report-chart.tsx').catch(() => ({ default: MissingChart })));

function MissingChart() {
  return (
    <p className="grid h-full place-content-center rounded-md bg-paper-deep px-6 text-center text-ink-soft">
      The chart could not be loaded. The table has the same figures.
    </p>
  );
}

export type ReportColumn<Row> = { title: string } /** With `to`, a link to the screen with its rows. */ & (
  | { text(row: Row): string; to?(row: Row): string }
  | { count(row: Row): number }
  /** Null: there is none. */
  | { figure(row: Row): number | null }
  /** An amount in cents, shown and written in shillings. */
  | { cents(row: Row): number }
);

function cellOf<Row>(column: ReportColumn<Row>, row: Row): string | number {
  if ('text' in column) return column.text(row);
  if ('figure' in column) return column.figure(row) ?? '';
  return 'count' in column ? column.count(row) : column.cents(row) / 100;
}

function textOf<Row>(column: ReportColumn<Row>, row: Row): string {
  if ('text' in column) return column.text(row);
  if ('figure' in column) return column.figure(row)?.toLocaleString('en-KE') ?? '–';
  return 'count' in column
    ? formatCount(column.count(row))
    : formatKes(column.cents(row)).replace('KES ', '');
}

interface ReportTableProps<Row> {
  title: string;
  description?: string;
  /** Name of the file: 'drinks'. */
  name: string;
  span: Span;
  rows: readonly Row[];
  columns: readonly ReportColumn<Row>[];
  /** What is shown without rows: a sentence. */
  empty: string;
  /** Length of the bar behind a row, from 0 to 1. Default: none. */
  share?(row: Row): number;
  chart?: Bars;
}

export function ReportTable<Row>({
  title,
  description,
  name,
  span,
  rows,
  columns,
  empty,
  share,
  chart,
}: ReportTableProps<Row>) {
  const id = useId();
  const file = () => {
    const listed = rows.map((row, index) => ({ row, id: String(index), created_at: '' }));
    void exportRows(
      name,
      columns.map((column) => ({
        title: column.title,
        value: (entry: (typeof listed)[number]) => cellOf(column, entry.row),
      })),
      listed,
      span.since === span.until ? span.since : `${span.since}-to-${span.until}`,
    );
  };
  const table = (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable by keyboard
    <section aria-label={`${title}, table`} tabIndex={0} className="relative max-h-104 overflow-auto">
      <table className="w-full text-left text-sm">
        <caption className="sr-only">{title}</caption>
        <thead className="sticky top-0 z-10 bg-card">
          <tr>
            {columns.map((column) => (
              <th
                key={column.title}
                scope="col"
                className={`py-1.5 pr-3 font-semibold text-ink-soft last:pr-0 ${'text' in column ? '' : 'text-right'}`}
              >
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index} className="border-t border-line align-top">
              {columns.map((column, place) =>
                place === 0 ? (
                  <th key={column.title} scope="row" className="relative min-w-24 py-1.5 pr-3 font-normal">
                    {'text' in column && column.to ? (
                      <Link to={column.to(row)} className="tap font-semibold underline">
                        {textOf(column, row)}
                      </Link>
                    ) : (
                      textOf(column, row)
                    )}
                    {share ? (
                      <span aria-hidden="true" className="mt-1 block h-1 rounded-pill bg-paper-deep">
                        <span
                          className="block h-1 rounded-pill bg-dusk-400 forced-color-adjust-none"
                          style={{ width: `${Math.max(2, Math.round(100 * share(row)))}%` }}
                        />
                      </span>
                    ) : null}
                  </th>
                ) : (
                  <td
                    key={column.title}
                    className={`py-1.5 pr-3 last:pr-0 ${'text' in column ? '' : 'text-right whitespace-nowrap tabular-nums'}`}
                  >
                    {textOf(column, row)}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
  return (
    <section
      aria-labelledby={id}
      className="mb-4 break-inside-avoid rounded-lg border border-line bg-card p-4 shadow-sm md:p-5"
    >
      <header className="mb-3 flex items-start justify-between gap-x-3">
        <div>
          <h2 id={id} className="text-lg">
            {title}
          </h2>
          {description ? <p className="max-w-text text-sm text-ink-soft">{description}</p> : null}
        </div>
        {rows.length > 0 ? (
          <Button tone="quiet" onClick={file} className="shrink-0 px-4!">
            CSV<span className="sr-only"> of {title.toLowerCase()}</span>
          </Button>
        ) : null}
      </header>
      {rows.length === 0 ? (
        <p className="text-ink-soft">{empty}</p>
      ) : chart ? (
        <>
          <div
            role="img"
            aria-label={`Chart: ${chart.name}. The table below holds the same figures.`}
            className="mb-2 h-56"
          >
            <Suspense
              fallback={<div className="h-full rounded-md bg-paper-deep motion-safe:animate-pulse" />}
            >
              <ReportChart {...chart} />
            </Suspense>
          </div>
          <details>
            <summary className="tap cursor-pointer text-sm font-semibold text-dusk-600 underline underline-offset-4">
              Figures as a table
            </summary>
            <div className="mt-2">{table}</div>
          </details>
        </>
      ) : (
        table
      )}
    </section>
  );
}
