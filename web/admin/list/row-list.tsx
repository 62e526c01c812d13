// Rows as a table, or as compact rows if there is too little space, and all states of a list without rows.
import {
  type MouseEvent,
  type ReactNode,
  type RefObject,
  useEffect,
  useId,
  useLayoutEffect,
  useRef,
  useState,
} from 'react';
import { formatCount } from '../../../domain/count.ts';
import { Button } from '../../ui/button.tsx';
import { Icon } from '../../ui/icons.tsx';
import { watchInView } from '../../ui/watch-in-view.ts';
import { useLostFocus } from './use-lost-focus.ts';
import type { Rows } from './use-rows.ts';
import type { Selection } from './use-selection.ts';

export interface Column<Row> {
  title: string;
  isNumber?: boolean;
  /** Width of the column, such as '6rem'. With widths the table has a fixed layout and truncates long text. */
  width?: string;
  /** What the list is sorted by with a press on the title; without it there is no such order. */
  sort?: string;
  show(row: Row): ReactNode;
}

/** The order of a list: the key of a column, with '-' before it for the opposite direction; '' for the list's own. */
export interface Sorting {
  value: string;
  set(value: string): void;
}

/** The text of a list without rows. */
export interface EmptyList {
  title: string;
  text: string;
  action?: ReactNode;
}

type Needed = 'rows' | 'isLoading' | 'error' | 'retry';

interface RowListProps<Row> extends Pick<Rows<Row>, Needed>, Partial<Omit<Rows<Row>, Needed>> {
  /** Accessible name of the table, such as 'Orders'. */
  label: string;
  columns: readonly Column<Row>[];
  /** Minimum width of the list for a table, in px. Default: 1024. */
  tableWidth?: number;
  empty: EmptyList;
  /** Number of skeleton rows while loading. */
  skeletons?: number;
  /** Classes of a highlighted row. */
  rowStyle?(row: Row): string;
  /** A row in a few short lines. */
  compact(row: Row): ReactNode;
  sorting?: Sorting;
  /** Which rows are chosen, where several can be changed at once. */
  selection?: Selection<Row>;
  /** What a row is called, such as its order number. */
  nameOf?(row: Row): string;
}

/** Text for a list whose filters match no row, with a button that clears them. */
export const noneFound = (rows: string, text: string, clear: () => void): EmptyList => ({
  title: `No ${rows} found`,
  text,
  action: (
    <Button tone="quiet" onClick={clear}>
      Show all {rows}
    </Button>
  ),
});

/** Whether the list itself, next to a sidebar of any width, has space for a table. */
function useIsWide(list: RefObject<HTMLElement | null>, tableWidth: number): boolean {
  const [isWide, setWide] = useState(true);
  useLayoutEffect(() => {
    const element = list.current;
    if (!element) return;
    const measure = () => setWide(element.clientWidth >= tableWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, [list, tableWidth]);
  return isWide;
}

export function RowList<Row extends { id: string }>({ tableWidth = 1024, ...list }: RowListProps<Row>) {
  useLostFocus('data-row', '[data-row-link]');
  const element = useRef<HTMLDivElement>(null);
  const isWide = useIsWide(element, tableWidth);
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
        <p className="max-w-text text-ink-soft">
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
        <p className="max-w-text text-balance text-ink-soft">{empty.text}</p>
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
      <ListEnd {...list} />
    </div>
  );
}

/** Opens a row by its link wherever it is pressed, except on its controls and while its text is being marked. */
function openByLink(event: MouseEvent<HTMLElement>): void {
  const pressed = event.target as Element;
  if (pressed.closest('a, button, input, label, summary, [role=menu], [role=dialog]')) return;
  if (window.getSelection()?.toString()) return;
  event.currentTarget.querySelector<HTMLElement>('[data-row-link]')?.click();
}

function Table<Row extends { id: string }>({
  label,
  columns,
  rows,
  isLoading,
  skeletons = 3,
  rowStyle,
  sorting,
  selection,
  nameOf,
}: RowListProps<Row>) {
  const isFixed = columns.some(({ width }) => width);
  const [headCell, bodyCell] = isFixed ? ['px-2 py-1', 'px-2 py-1'] : ['px-3 py-1', 'px-3 py-2'];
  return (
    // Positioned: texts for screen readers beyond its edge would otherwise widen the page.
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable by keyboard
    <section aria-label={label} tabIndex={0} className="relative overflow-x-auto">
      <table className={`w-full text-left text-sm ${isFixed ? 'table-fixed' : ''}`}>
        <caption className="sr-only">{label}</caption>
        {isFixed ? (
          <colgroup>
            {selection ? <col style={{ width: '2.5rem' }} /> : null}
            {columns.map(({ title, width }) => (
              <col key={title} style={width ? { width } : undefined} />
            ))}
          </colgroup>
        ) : null}
        <thead>
          <tr className="bg-paper-deep">
            {selection ? (
              <td className="py-0 pl-2">
                <Tick
                  label={`Select all ${label.toLowerCase()}`}
                  isOn={rows.length > 0 && selection.rows.length === rows.length}
                  isPartly={selection.rows.length > 0 && selection.rows.length < rows.length}
                  onToggle={() => (selection.rows.length > 0 ? selection.clear() : selection.all())}
                />
              </td>
            ) : null}
            {columns.map(({ title, isNumber, sort }) => (
              <th
                key={title}
                scope="col"
                aria-sort={sortOf(sort, sorting)}
                className={`${headCell} font-semibold whitespace-nowrap text-ink-soft first:pl-4 last:pr-4 ${isNumber ? 'text-right' : ''}`}
              >
                {sort && sorting ? <SortButton title={title} sort={sort} sorting={sorting} /> : title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {isLoading
            ? Array.from({ length: skeletons }, (_, index) => (
                <tr key={index} className="border-t border-line">
                  {selection ? <td /> : null}
                  {columns.map(({ title }) => (
                    <td key={title} className="px-2 py-5 first:pl-4 last:pr-4">
                      <Bone />
                    </td>
                  ))}
                </tr>
              ))
            : rows.map((row) => (
                <tr
                  key={row.id}
                  data-row={row.id}
                  onClick={openByLink}
                  aria-selected={selection ? selection.has(row) : undefined}
                  className={`border-t border-line has-data-row-link:cursor-pointer has-data-row-link:hover:bg-paper-deep/60 aria-selected:bg-dusk-100/60 ${rowStyle?.(row) ?? ''}`}
                >
                  {selection ? (
                    <td className="py-0 pl-2">
                      <SelectRow row={row} selection={selection} nameOf={nameOf} />
                    </td>
                  ) : null}
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

function sortOf(sort: string | undefined, sorting: Sorting | undefined) {
  if (!sort || !sorting) return undefined;
  if (sorting.value === sort) return 'ascending';
  return sorting.value === `-${sort}` ? 'descending' : 'none';
}

/** Ascending, descending, and the list's own order again. */
function SortButton({ title, sort, sorting }: { title: string; sort: string; sorting: Sorting }) {
  const now = sortOf(sort, sorting);
  const next = now === 'none' ? sort : now === 'ascending' ? `-${sort}` : '';
  return (
    <button
      type="button"
      onClick={() => sorting.set(next)}
      className="inline-flex min-h-8 items-center gap-0.5 rounded-sm hover:text-ink"
    >
      {title}
      <Icon
        name="chevron"
        className={`size-3.5 ${now === 'ascending' ? 'rotate-180' : ''} ${now === 'none' ? 'opacity-30' : ''}`}
      />
    </button>
  );
}

interface TickProps {
  label: string;
  isOn: boolean;
  isPartly?: boolean;
  onToggle(event: { shiftKey: boolean }): void;
}

function Tick({ label, isOn, isPartly = false, onToggle }: TickProps) {
  return (
    <label className="grid size-9 cursor-pointer place-items-center rounded-md hover:bg-paper-deep rows:size-11">
      <span className="sr-only">{label}</span>
      <input
        type="checkbox"
        checked={isOn}
        ref={(box) => {
          if (box) box.indeterminate = isPartly;
        }}
        onChange={({ nativeEvent }) =>
          onToggle({ shiftKey: (nativeEvent as unknown as globalThis.MouseEvent).shiftKey })
        }
        className="size-4.5 accent-dusk-800"
      />
    </label>
  );
}

function SelectRow<Row extends { id: string }>({
  row,
  selection,
  nameOf,
}: {
  row: Row;
  selection: Selection<Row>;
  nameOf: ((row: Row) => string) | undefined;
}) {
  return (
    <Tick
      label={`Select ${nameOf?.(row) ?? 'this row'}`}
      isOn={selection.has(row)}
      onToggle={({ shiftKey }) => selection.toggle(row, shiftKey)}
    />
  );
}

function CompactRows<Row extends { id: string }>({
  label,
  rows,
  isLoading,
  skeletons = 3,
  rowStyle,
  compact,
  selection,
  nameOf,
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
        // biome-ignore lint/a11y/useKeyWithClickEvents: the row's link opens it by keyboard
        <li
          key={row.id}
          data-row={row.id}
          onClick={openByLink}
          className={`flex items-center border-t border-line has-data-row-link:cursor-pointer ${
            selection?.isSelecting ? 'pr-3' : 'px-3 sm:px-4'
          } py-0.5 sm:py-1 ${selection?.has(row) ? 'bg-dusk-100/60' : ''} ${rowStyle?.(row) ?? ''}`}
        >
          {selection?.isSelecting ? <SelectRow row={row} selection={selection} nameOf={nameOf} /> : null}
          <div className="min-w-0 flex-1">{compact(row)}</div>
        </li>
      ))}
    </ul>
  );
}

const Bone = () => (
  <span className="block h-4 w-full max-w-40 animate-pulse rounded-sm bg-line motion-reduce:animate-none" />
);

type EndProps = Pick<RowListProps<unknown>, 'label' | 'isLoading' | 'error'> &
  Partial<Pick<Rows<unknown>, 'hasMore' | 'isLoadingMore' | 'isReading' | 'more'>> & {
    rows: readonly unknown[];
  };

/** The end of a list: loads the next rows before the user reaches it. */
export function ListEnd(list: EndProps) {
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
    return watchInView(element, '800px 0px', (isInView) => {
      if (isInView) loadMore.current?.();
    });
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
        `All ${formatCount(count)} ${label.toLowerCase()} are shown`
      ) : null}
    </div>
  );
}

interface ListFrameProps {
  heading: string;
  subtitle: string;
  /** The number of rows, after the heading. */
  count?: ReactNode;
  /** In the line of the heading: search, filters. */
  tools?: ReactNode;
  /** At the end of that line. */
  actions?: ReactNode;
  /** Title of the card, if any. */
  card?: string;
  /** In the line of the card's title: quick filters, or what can be done with the chosen rows. */
  chips?: ReactNode;
  /** Whether rows are chosen: that line then stays in sight. */
  isChoosing?: boolean;
  /** What waits for a decision, above the rows. */
  notices?: ReactNode;
  /** Further controls above the rows. */
  toolbar?: ReactNode;
  children: ReactNode;
}

/** The layout of a list screen: one line with heading, search and filters, one with quick filters, and the rows. */
export function ListFrame({
  heading,
  subtitle,
  count,
  tools,
  actions,
  card,
  chips,
  isChoosing = false,
  notices,
  toolbar,
  children,
}: ListFrameProps) {
  const id = useId();
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-1.5 md:gap-2">
      <div className="flex flex-wrap items-center gap-x-2 gap-y-1.5 md:gap-x-3">
        <header className="flex min-w-0 flex-1 items-baseline gap-x-3 max-xl:min-w-fit max-xl:flex-wrap">
          <h1 className="text-xl leading-7 md:text-2xl xl:whitespace-nowrap">{heading}</h1>
          {count}
          <p className="min-w-0 truncate text-sm text-ink-soft max-xl:sr-only">{subtitle}</p>
        </header>
        {/* As high as they are, they take no more space than the heading and what surrounds it. */}
        {actions ? (
          <div className="flex flex-wrap gap-2 max-lg:-mt-1.5 max-lg:-mb-1 md:gap-3 lg:order-last">
            {actions}
          </div>
        ) : null}
        {/* In a line of their own where there is too little space. */}
        {tools ? (
          <div className="flex min-w-0 basis-full flex-wrap items-center gap-x-2 gap-y-1.5 md:gap-x-3 lg:contents">
            {tools}
          </div>
        ) : null}
      </div>
      <section
        aria-labelledby={card ? id : undefined}
        className="min-w-0 overflow-clip rounded-lg border border-line bg-card shadow-sm max-sm:-mx-3 max-sm:rounded-none max-sm:border-x-0"
      >
        {card || chips ? (
          <div
            className={`flex min-h-10 items-center gap-x-3 rounded-t-lg bg-card px-3 sm:py-0.5 sm:px-4 print:hidden ${
              isChoosing ? 'sticky top-15 z-20 shadow-md' : ''
            }`}
          >
            {card ? (
              <h2 id={id} className="shrink-0 text-base max-lg:sr-only">
                {card}
              </h2>
            ) : null}
            {chips}
          </div>
        ) : null}
        {notices}
        {/* Lets a row of buttons scroll sideways instead of widening the page. */}
        {toolbar ? (
          <div className="grid grid-cols-[minmax(0,1fr)] gap-3 px-3 py-3 sm:px-4 print:hidden">{toolbar}</div>
        ) : null}
        {children}
      </section>
    </div>
  );
}
