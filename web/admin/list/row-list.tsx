// Rows as a table, or as compact rows if there is too little space, and all states of a list without rows.
import { type ReactNode, type RefObject, useEffect, useId, useLayoutEffect, useRef, useState } from 'react';
import { Button } from '../../ui/button.tsx';
import type { Rows } from './use-rows.ts';

export interface Column<Row> {
  title: string;
  isNumber?: boolean;
  /** Width of the column, such as '6rem'. With widths the table has a fixed layout and truncates long text. */
  width?: string;
  show(row: Row): ReactNode;
}

type Needed = 'rows' | 'isLoading' | 'error' | 'retry';

interface RowListProps<Row> extends Pick<Rows<Row>, Needed>, Partial<Omit<Rows<Row>, Needed>> {
  /** Accessible name of the table, such as 'Orders'. */
  label: string;
  columns: readonly Column<Row>[];
  /** Text for an empty list. */
  empty: { title: string; text: string; action?: ReactNode };
  /** Number of skeleton rows while loading. */
  skeletons?: number;
  /** Classes of a highlighted row. */
  rowStyle?(row: Row): string;
  /** A row in a few short lines. */
  compact(row: Row): ReactNode;
}

/** Text for a list whose filters match no row, with a button that clears them. */
export const noneFound = (rows: string, text: string, clear: () => void) => ({
  title: `No ${rows} found`,
  text,
  action: (
    <Button tone="quiet" onClick={clear}>
      Show all {rows}
    </Button>
  ),
});

/** Minimum width of the list for a table, in px. */
const tableWidth = 1024;

/** Whether the list itself, next to a sidebar of any width, has space for a table. */
function useIsWide(list: RefObject<HTMLElement | null>): boolean {
  const [isWide, setWide] = useState(true);
  useLayoutEffect(() => {
    const element = list.current;
    if (!element) return;
    const measure = () => setWide(element.clientWidth >= tableWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, [list]);
  return isWide;
}

export function RowList<Row extends { id: string }>(list: RowListProps<Row>) {
  const element = useRef<HTMLDivElement>(null);
  const isWide = useIsWide(element);
  return (
    <div ref={element} data-shape={isWide ? 'table' : 'rows'}>
      <Content {...list} isWide={isWide} />
    </div>
  );
}

function Content<Row extends { id: string }>({ isWide, ...list }: RowListProps<Row> & { isWide: boolean }) {
  const { rows, label, isLoading, isOutdated, error, retry, empty } = list;
  if (error && rows.length === 0) {
    return (
      <div role="alert" className="grid justify-items-center gap-3 px-5 py-12 text-center">
        <p className="font-display text-xl font-bold">{label} could not be loaded</p>
        <p className="max-w-prose text-ink-soft">
          Nothing was changed. Please check the connection and try again.
        </p>
        <Button tone="quiet" onClick={retry}>
          Try again
        </Button>
      </div>
    );
  }
  if (!isLoading && rows.length === 0) {
    return (
      <div role="status" className="grid justify-items-center gap-3 px-5 py-12 text-center">
        <p className="font-display text-xl font-bold">{empty.title}</p>
        <p className="max-w-prose text-balance text-ink-soft">{empty.text}</p>
        {empty.action}
      </div>
    );
  }
  const Shape = isWide ? Table : CompactRows;
  return (
    <div aria-busy={isLoading || isOutdated || undefined} className="aria-busy:cursor-progress">
      {isLoading ? (
        <p role="status" className="sr-only">
          Loading {label.toLowerCase()}...
        </p>
      ) : null}
      {error ? (
        <p
          role="alert"
          className="flex flex-wrap items-center gap-3 bg-danger-soft px-5 py-3 text-sm text-danger"
        >
          <span className="font-semibold">What you see may be out of date: the last refresh failed.</span>
          <Button tone="quiet" onClick={retry}>
            Try again
          </Button>
        </p>
      ) : null}
      <Shape {...list} />
      <End {...list} />
    </div>
  );
}

function Table<Row extends { id: string }>({
  label,
  columns,
  rows,
  isLoading,
  skeletons = 3,
  rowStyle,
}: RowListProps<Row>) {
  const isFixed = columns.some(({ width }) => width);
  const [headCell, bodyCell] = isFixed ? ['px-2 py-2', 'px-2 py-1'] : ['px-3 py-2.5', 'px-3 py-3'];
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable by keyboard
    <section aria-label={label} tabIndex={0} className="overflow-x-auto">
      <table className={`w-full text-left text-sm ${isFixed ? 'table-fixed' : ''}`}>
        <caption className="sr-only">{label}</caption>
        {isFixed ? (
          <colgroup>
            {columns.map(({ title, width }) => (
              <col key={title} style={width ? { width } : undefined} />
            ))}
          </colgroup>
        ) : null}
        <thead>
          <tr className="bg-paper-deep">
            {columns.map(({ title, isNumber }) => (
              <th
                key={title}
                scope="col"
                className={`${headCell} font-semibold whitespace-nowrap text-ink-soft first:pl-4 last:pr-4 ${isNumber ? 'text-right' : ''}`}
              >
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {isLoading
            ? Array.from({ length: skeletons }, (_, index) => (
                <tr key={index} className="border-t border-line">
                  {columns.map(({ title }) => (
                    <td key={title} className="px-2 py-5 first:pl-4 last:pr-4">
                      <Bone />
                    </td>
                  ))}
                </tr>
              ))
            : rows.map((row) => (
                <tr key={row.id} className={`border-t border-line ${rowStyle?.(row) ?? ''}`}>
                  {columns.map(({ title, isNumber, show }) => (
                    <td
                      key={title}
                      className={`${bodyCell} align-middle first:pl-4 last:pr-4 ${isNumber ? 'text-right whitespace-nowrap tabular-nums' : ''}`}
                    >
                      {show(row)}
                    </td>
                  ))}
                </tr>
              ))}
        </tbody>
      </table>
    </section>
  );
}

function CompactRows<Row extends { id: string }>({
  label,
  rows,
  isLoading,
  skeletons = 3,
  rowStyle,
  compact,
}: RowListProps<Row>) {
  if (isLoading) {
    return (
      <div aria-hidden="true">
        {Array.from({ length: skeletons }, (_, index) => (
          <div key={index} className="grid gap-2 border-t border-line px-3 py-4">
            <Bone />
            <Bone />
          </div>
        ))}
      </div>
    );
  }
  return (
    <ul aria-label={label}>
      {rows.map((row) => (
        <li
          key={row.id}
          className={`relative border-t border-line px-3 py-0.5 sm:px-4 sm:py-1 ${rowStyle?.(row) ?? ''}`}
        >
          {compact(row)}
        </li>
      ))}
    </ul>
  );
}

const Bone = () => (
  <span className="block h-4 w-full max-w-40 animate-pulse rounded-sm bg-line motion-reduce:animate-none" />
);

/** Loads the next rows before the user reaches the end. */
function End<Row>(list: RowListProps<Row>) {
  const { rows, label, isLoading, error, hasMore, isLoadingMore, isReading, more } = list;
  const end = useRef<HTMLDivElement>(null);
  const loadMore = useRef(more);
  useEffect(() => {
    loadMore.current = more;
  });
  const count = rows.length;
  // biome-ignore lint/correctness/useExhaustiveDependencies: after new rows the end may still be visible
  useEffect(() => {
    const element = end.current;
    // Failed pages are retried by a button: automatic retries would loop.
    if (!element || !hasMore || isReading || error) return;
    const watcher = new IntersectionObserver(
      ([entry]) => {
        if (entry?.isIntersecting) loadMore.current?.();
      },
      { rootMargin: '800px 0px' },
    );
    watcher.observe(element);
    return () => watcher.disconnect();
  }, [hasMore, isReading, error, count]);

  if (isLoading) return null;
  return (
    <div
      ref={end}
      role="status"
      className="border-line px-5 text-center text-sm text-ink-soft not-empty:border-t not-empty:py-3"
    >
      {hasMore ? (
        isLoadingMore ? (
          'Loading more...'
        ) : (
          <Button tone="quiet" onClick={more}>
            Show more
          </Button>
        )
      ) : count > 20 ? (
        `All ${count.toLocaleString('en-KE')} ${label.toLowerCase()} are shown`
      ) : null}
    </div>
  );
}

/** The layout of a list screen: heading, actions, and a card with the rows. */
export function ListFrame({
  heading,
  subtitle,
  actions,
  card,
  toolbar,
  children,
}: {
  heading: string;
  subtitle: string;
  /** Next to the heading. */
  actions?: ReactNode;
  /** Title of the card, if any. */
  card?: string;
  toolbar: ReactNode;
  children: ReactNode;
}) {
  const id = useId();
  return (
    <div className="grid gap-4 md:gap-5">
      <div className="flex flex-wrap items-end justify-between gap-x-4 gap-y-3">
        <header>
          <h1 className="text-2xl">{heading}</h1>
          <p className="text-sm text-ink-soft">{subtitle}</p>
        </header>
        {actions ? <div className="flex flex-wrap gap-2 sm:gap-3">{actions}</div> : null}
      </div>
      <section
        aria-labelledby={card ? id : undefined}
        className="min-w-0 overflow-hidden rounded-lg border border-line bg-card shadow-sm max-sm:-mx-3"
      >
        {/* Lets a row of buttons scroll sideways instead of widening the page. */}
        <div className="grid grid-cols-[minmax(0,1fr)] gap-3 px-3 py-3 sm:px-4 print:hidden">
          {card ? (
            <h2 id={id} className="text-lg">
              {card}
            </h2>
          ) : null}
          {toolbar}
        </div>
        {children}
      </section>
    </div>
  );
}
