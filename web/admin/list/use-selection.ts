// Rows of a list that are chosen to change several at once.
import { useRef, useState } from 'react';

export interface Selection<Row> {
  /** The chosen rows that are in the list, in its order. */
  rows: readonly Row[];
  has(row: Row): boolean;
  /** @param toHere also chooses all rows between this one and the one chosen before */
  toggle(row: Row, toHere?: boolean): void;
  /** Chooses all rows that are loaded. */
  all(): void;
  clear(): void;
  /** Whether compact rows show their boxes; a table always does. */
  isSelecting: boolean;
  setSelecting(isSelecting: boolean): void;
}

export function useSelection<Row extends { id: string }>(rows: readonly Row[]): Selection<Row> {
  const [ids, setIds] = useState<ReadonlySet<string>>(new Set());
  const [isSelecting, setSelecting] = useState(false);
  const last = useRef<string>(undefined);
  return {
    rows: rows.filter(({ id }) => ids.has(id)),
    has: ({ id }) => ids.has(id),
    toggle({ id }, toHere = false) {
      const next = new Set(ids);
      const isOn = !ids.has(id);
      const [from, to] = [last.current, id].map((one) => rows.findIndex((row) => row.id === one)) as [
        number,
        number,
      ];
      const between =
        toHere && from !== -1 && to !== -1
          ? rows.slice(Math.min(from, to), Math.max(from, to) + 1).map((row) => row.id)
          : [id];
      for (const one of between) {
        if (isOn) next.add(one);
        else next.delete(one);
      }
      last.current = id;
      setIds(next);
    },
    all: () => setIds(new Set(rows.map(({ id }) => id))),
    clear() {
      setIds(new Set());
      setSelecting(false);
    },
    isSelecting: isSelecting || ids.size > 0,
    setSelecting,
  };
}
