// Orders that arrived while the queue was on the screen.

export interface Arrivals {
  /** Every order that was ever in the queue: one that comes back by an undo is not new. Null before the first answer. */
  known: ReadonlySet<string> | null;
  /** The new ones that are not looked at yet. */
  fresh: readonly string[];
}

export const noArrivals: Arrivals = { known: null, fresh: [] };

export interface QueuedOrder {
  id: string;
  /** Whether no one has begun with it. */
  isUntouched: boolean;
}

/** @param queue now; undefined before it is loaded */
export function updateArrivals(before: Arrivals, queue: readonly QueuedOrder[] | undefined): Arrivals {
  if (!queue) return before;
  const { known } = before;
  const ids = queue.map(({ id }) => id);
  if (!known) return { known: new Set(ids), fresh: [] };
  const came = ids.filter((id) => !known.has(id));
  // The member who begins with an order has seen it.
  const untouched = queue.filter(({ isUntouched }) => isUntouched).map(({ id }) => id);
  const fresh = untouched.filter((id) => came.includes(id) || before.fresh.includes(id));
  const isSame = came.length === 0 && fresh.length === before.fresh.length;
  return isSame ? before : { known: new Set([...known, ...ids]), fresh };
}

export const markSeen = (before: Arrivals, id: string): Arrivals =>
  before.fresh.includes(id) ? { ...before, fresh: before.fresh.filter((one) => one !== id) } : before;
