// Rows as cards, with all states of such a list.
import type { ReactNode } from 'react';
import { RefreshFailed, ScreenLoadState } from '../ui/load-states.tsx';
import { type EmptyList, ListEnd } from './row-list.tsx';
import type { Rows } from './use-rows.ts';

interface CardListProps<Row> {
  /** Accessible name of the list, such as 'Discount codes'. */
  label: string;
  list: Rows<Row>;
  empty: EmptyList;
  /** The list item of a row. */
  children(row: Row): ReactNode;
}

export function CardList<Row>({ label, list, empty, children }: CardListProps<Row>) {
  const { rows, isLoading, isOutdated, error, isReading, retry } = list;
  if (rows.length === 0 && (isLoading || error)) {
    const query = { error, isFetching: isReading, refetch: retry };
    return <ScreenLoadState noun={label.toLowerCase()} queries={[query]} />;
  }
  if (rows.length === 0) return <EmptyCard {...empty} />;
  return (
    <>
      {error ? <RefreshFailed isReading={isReading} retry={retry} /> : null}
      <ul
        aria-label={label}
        aria-busy={isOutdated || undefined}
        className="grid gap-3 aria-busy:cursor-progress"
      >
        {rows.map(children)}
      </ul>
      <ListEnd {...list} label={label} />
    </>
  );
}

/** In place of a list without rows. */
export function EmptyCard({ title, text, action }: EmptyList) {
  return (
    <div role="status" className="grid justify-items-start gap-3 rounded-lg border border-line bg-card p-6">
      <p className="font-display text-xl font-bold">{title}</p>
      <p className="max-w-text wrap-anywhere text-ink-soft">{text}</p>
      {action}
    </div>
  );
}

interface RowGroupProps {
  title: string;
  count: number;
  /** Its list items. */
  children: ReactNode;
}

/** A named part of a short list, such as the active riders. */
export function RowGroup({ title, count, children }: RowGroupProps) {
  return (
    <section aria-label={title} className="grid grid-cols-[minmax(0,1fr)] gap-2">
      <h2 className="flex items-baseline gap-2 text-lg">
        {title}
        <span className="rounded-pill bg-paper-deep px-2 text-sm font-bold text-ink-soft tabular-nums">
          {count}
        </span>
      </h2>
      <ul className="divide-y divide-line rounded-lg border border-line bg-card shadow-sm">{children}</ul>
    </section>
  );
}
