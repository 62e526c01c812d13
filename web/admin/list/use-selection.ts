// Rows of a list that are chosen to change several at once.
import { useEffect, useRef, useState } from 'react';
import type { Rows } from './use-rows.ts';

/** More than a day's work at once: each row is changed by a request of its own. */
export const mostChosen = 200;

export interface Selection<Row> {
  /** The chosen rows that are in the list, in its order. */
  rows: readonly Row[];
  has(row: Row): boolean;
  /** @param toHere also chooses all rows between this one and the one chosen before */
  toggle(row: Row, toHere?: boolean): void;
  /** Chooses all rows of the list, and loads those that are not shown yet. */
  all(): void;
  /** Whether that is under way. */
  isLoadingAll: boolean;
  clear(): void;
  /** Whether compact rows show their boxes; a table always does. */
  isSelecting: boolean;
  /** Shows them. Undefined while the list has no rows. */
  start: (() => void) | undefined;
}

export function useSelection<Row extends { id: string }>(list: Rows<Row>): Selection<Row> {
  const { rows, hasMore, isReading, error, more } = list;
  const [ids, setIds] = useState<ReadonlySet<string>>(new Set());
  const [isLoadingAll, setLoadingAll] = useState(false);
  const [isSelecting, setSelecting] = useState(false);
  const last = useRef<string>(undefined);
  useEffect(() => {
    if (!isLoadingAll || isReading) return;
    if (hasMore && !error && rows.length < mostChosen) {
      more();
      return;
    }
    setIds(new Set(rows.slice(0, mostChosen).map(({ id }) => id)));
    setLoadingAll(false);
  });
  return {
    rows: rows.filter(({ id }) => ids.has(id)),
    has: ({ id }) => ids.has(id),
    toggle({ id }, toHere = false) {
      const [from, to] = [last.current, id].map((one) => rows.findIndex((row) => row.id === one)) as [
        number,
        number,
      ];
      const between =
        toHere && from !== -1 && to !== -1
          ? rows.slice(Math.min(from, to), Math.max(from, to) + 1).map((row) => row.id)
          : [id];
      const next = new Set(ids);
      const isOn = !ids.has(id);
      for (const one of between) {
        if (isOn) next.add(one);
        else next.delete(one);
      }
      last.current = id;
      setIds(next);
    },
    all: () => setLoadingAll(true),
    isLoadingAll,
    clear() {
      setIds(new Set());
      setLoadingAll(false);
      setSelecting(false);
    },
    isSelecting: isSelecting || ids.size > 0,
    start: rows.length > 0 ? () => setSelecting(true) : undefined,
  };
}
