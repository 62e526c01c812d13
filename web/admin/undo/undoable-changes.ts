// Changes that can still be undone, each for its own time, shared by all screens.
import { showToast } from '../../ui/toasts/toasts.tsx';
import type { RowChange } from '../live/use-live-changes.ts';
import type { Outcome } from './outcome.ts';

/** How long a change can be undone, in ms (`private.undo_window`). */
export const undoMs = 15_000;

export interface UndoableChange {
  /** Id of the undo record in the database. */
  id: string;
  /** What was changed: 'ORD-1001: Shipped'. */
  title: string;
  /** Whether the customer gets a message unless it is undone. */
  notifiesCustomer: boolean;
  /** In the time of `performance.now()`. */
  endsAt: number;
  /** The order that it changed, itself or through its delivery, or the inquiry that it answered. */
  orderId: string;
  /** Whether a row has changed since, so that the database would not undo it any more. */
  isOvertakenBy(change: RowChange): boolean;
  /** Undoes it on the server. Does not throw. */
  undo(): Promise<Outcome>;
}

/** A change with the message that it was saved. */
export type OfferedChange = UndoableChange & { success: string };

let changes: readonly OfferedChange[] = [];
const listeners = new Set<() => void>();
const timers = new Map<string, ReturnType<typeof setTimeout>>();

function set(next: readonly OfferedChange[]): void {
  changes = next;
  for (const listener of listeners) listener();
}

/**
 * Offers to undo a change until its time is over, the newest first. It replaces older ones of its order, which it has overtaken.
 * @param success says that it was saved
 */
export function offerUndo(change: UndoableChange, success: string): void {
  const isReplaced = ({ orderId }: UndoableChange) => orderId === change.orderId;
  for (const { id } of changes.filter(isReplaced)) clearTimeout(timers.get(id));
  set([{ ...change, success }, ...changes.filter((older) => !isReplaced(older))]);
  timers.set(
    change.id,
    setTimeout(() => withdraw(change.id), Math.max(0, change.endsAt - performance.now())),
  );
}

function withdraw(id: string): void {
  clearTimeout(timers.get(id));
  timers.delete(id);
  if (changes.some((change) => change.id === id)) set(changes.filter((change) => change.id !== id));
}

/** Withdraws the offers that another change of a row has overtaken. */
export function withdrawOvertaken(change: RowChange): void {
  for (const older of changes) if (older.isOvertakenBy(change)) withdraw(older.id);
}

export function withdrawAll(): void {
  for (const { id } of changes) withdraw(id);
}

/** Ids of orders whose changes were undone with others. */
const undoneTogether = new Set<string>();

/** @returns tells whether changes of these orders were undone together since then */
export function watchUndoAll(orderIds: readonly string[]): () => boolean {
  for (const id of orderIds) undoneTogether.delete(id);
  return () => orderIds.some((id) => undoneTogether.has(id));
}

/** Undoes changes, the newest first, and says in one message what came of it. */
export async function undoAll(chosen: readonly UndoableChange[]): Promise<void> {
  if (chosen.length === 0) return;
  if (chosen.length > 1) for (const { orderId } of chosen) undoneTogether.add(orderId);
  for (const { id } of chosen) withdraw(id);
  const outcomes: Outcome[] = [];
  for (const change of chosen) outcomes.push(await change.undo());
  const [undone, failed] = [true, false].map((isUndone) =>
    outcomes.filter(({ title }) => (title === 'Undone') === isUndone),
  ) as [Outcome[], Outcome[]];
  if (undone[0]) {
    const text = undone.length === 1 ? undone[0].text : `${undone.length} changes are undone.`;
    showToast({ kind: 'info', title: 'Undone', text });
  }
  if (failed[0]) {
    const { title, text } = failed[0];
    const more = failed.length > 1 ? ` And ${failed.length - 1} more.` : '';
    showToast({ kind: 'error', title, text: text + more });
  }
}

export const undoableChanges = (): readonly OfferedChange[] => changes;

/** @returns ends the subscription */
export function onUndoableChanges(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
