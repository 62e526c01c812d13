// Changes of a status that can still be undone, each for its own time, shared by all screens.

import type { RowChange } from '../live/use-live-changes.ts';

export interface UndoableChange {
  /** Id of the undo record in the database. */
  id: string;
  /** What was changed: 'ORD-1001: Shipped'. */
  title: string;
  /** Whether the customer gets a message unless it is undone. */
  notifiesCustomer: boolean;
  /** In the time of `performance.now()`. */
  endsAt: number;
  /** The order that it changed, itself or through its delivery. */
  orderId: string;
  /** Whether a row has changed since, so that the database would not undo it any more. */
  isOvertakenBy(change: RowChange): boolean;
  /** Undoes it on the server; reports a refusal itself. */
  undo(): Promise<void>;
}

let changes: readonly UndoableChange[] = [];
const listeners = new Set<() => void>();
const timers = new Map<string, ReturnType<typeof setTimeout>>();

function set(next: readonly UndoableChange[]): void {
  changes = next;
  for (const listener of listeners) listener();
}

/** Adds a change, the newest first, until its time is over. It replaces older ones of its order, which it has overtaken. */
export function addUndoableChange(change: UndoableChange): void {
  const isReplaced = ({ orderId }: UndoableChange) => orderId === change.orderId;
  for (const { id } of changes.filter(isReplaced)) clearTimeout(timers.get(id));
  // At once: without any change the toast would close.
  set([change, ...changes.filter((older) => !isReplaced(older))]);
  timers.set(
    change.id,
    setTimeout(() => removeUndoableChange(change.id), Math.max(0, change.endsAt - performance.now())),
  );
}

export function removeUndoableChange(id: string): void {
  clearTimeout(timers.get(id));
  timers.delete(id);
  if (changes.some((change) => change.id === id)) set(changes.filter((change) => change.id !== id));
}

/** Removes the changes that another change of a row has overtaken. */
export function removeOvertakenChanges(change: RowChange): void {
  for (const older of changes) if (older.isOvertakenBy(change)) removeUndoableChange(older.id);
}

export function removeAllUndoableChanges(): void {
  for (const { id } of changes) removeUndoableChange(id);
}

export const undoableChanges = (): readonly UndoableChange[] => changes;

/** @returns ends the subscription */
export function onUndoableChanges(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
