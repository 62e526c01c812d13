// Offers to undo changes of a status: one toast with a line, remaining seconds and a button per change. Ctrl+Z undoes
// the last one.
import { useEffect, useState, useSyncExternalStore } from 'react';
import { dismissToast, showToast } from '../../ui/toasts/toasts.tsx';
import {
  addUndoableChange,
  onUndoableChanges,
  removeAllUndoableChanges,
  removeUndoableChange,
  type UndoableChange,
  undoableChanges,
} from './undoable-changes.ts';

const topic = 'undo';

/** @param text of the toast */
export function offerUndo(change: UndoableChange, text: string): void {
  addUndoableChange(change);
  showToast({
    title: 'Success',
    text,
    topic,
    content: <UndoList />,
    // Dismissed by its button: the change stays.
    onDismiss: removeAllUndoableChanges,
  });
}

function undo(change: UndoableChange): void {
  // The button disappears with its line. The toast returns the focus to where it came from.
  const focused = document.activeElement;
  if (focused instanceof HTMLElement && focused.closest('[data-sonner-toaster]')) focused.blur();
  removeUndoableChange(change.id);
  void change.undo();
}

function UndoList() {
  const changes = useSyncExternalStore(onUndoableChanges, undoableChanges);
  const hasSome = changes.length > 0;
  useEffect(() => {
    if (!hasSome) void dismissToast(topic);
  }, [hasSome]);
  useEffect(() => {
    const undoLast = (event: KeyboardEvent) => {
      const isUndo = (event.ctrlKey || event.metaKey) && !event.shiftKey && event.key.toLowerCase() === 'z';
      const [last] = undoableChanges();
      // In a field the key undoes typing.
      if (!isUndo || !last || isEditable(event.target)) return;
      event.preventDefault();
      undo(last);
    };
    window.addEventListener('keydown', undoLast);
    return () => window.removeEventListener('keydown', undoLast);
  }, []);
  return (
    // As wide as the toast, not only as its text column.
    <ul className="mt-2 -mr-11 -ml-10 grid max-h-[40vh] gap-1.5 overflow-y-auto">
      {changes.map((change) => (
        <li key={change.id} className="flex items-center justify-between gap-3">
          <span className="min-w-0">
            <span className="block font-semibold wrap-anywhere text-ink">{change.title}</span>
            {change.notifiesCustomer ? (
              <span className="block text-xs">Then the customer is notified</span>
            ) : null}
          </span>
          <button
            type="button"
            onClick={() => undo(change)}
            aria-keyshortcuts="Control+Z"
            className="min-h-11 shrink-0 rounded-pill bg-paper-deep px-3.5 text-sm font-bold text-ink tabular-nums hover:bg-line"
          >
            Undo<span className="sr-only"> {change.title}</span> <SecondsLeft until={change.endsAt} />
          </button>
        </li>
      ))}
    </ul>
  );
}

/** Hidden from screen readers, which would repeat it every second. */
function SecondsLeft({ until }: { until: number }) {
  const secondsLeft = () => Math.max(0, Math.ceil((until - performance.now()) / 1000));
  const [seconds, setSeconds] = useState(secondsLeft);
  useEffect(() => {
    const timer = setInterval(() => setSeconds(secondsLeft), 250);
    return () => clearInterval(timer);
  });
  return (
    <span aria-hidden="true" className="inline-block min-w-7 text-right font-semibold text-ink-soft">
      {seconds} s
    </span>
  );
}

const isEditable = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || target.matches('input, textarea, select'));
