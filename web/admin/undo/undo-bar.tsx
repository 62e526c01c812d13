// The region of the bar that offers to undo what was just changed, among the messages, so that dialogs neither cover nor disable it.
// Ctrl+Z undoes the last change.
import { useEffect, useState, useSyncExternalStore } from 'react';
import { createPortal } from 'react-dom';
import { usePart } from '../ui/use-part.ts';
import { onUndoableChanges, undoAll, undoableChanges } from './undoable-changes.ts';

const loadBar = () => import('./undo-bar-content.tsx');

export function UndoBar() {
  const changes = useSyncExternalStore(onUndoableChanges, undoableChanges);
  const [host, setHost] = useState<HTMLElement>();
  const bar = usePart(loadBar, changes.length > 0);
  useEffect(() => {
    let isGone = false;
    import('../../ui/toasts/toaster.tsx')
      .then((toaster) => {
        if (!isGone) setHost(toaster.ownMessages);
      })
      .catch(() => {});
    return () => {
      isGone = true;
    };
  }, []);
  useEffect(() => {
    const undoLast = (event: KeyboardEvent) => {
      const isUndo = (event.ctrlKey || event.metaKey) && !event.shiftKey && event.key.toLowerCase() === 'z';
      const [last] = undoableChanges();
      // In a field the key undoes typing.
      if (!isUndo || !last || isEditable(event.target)) return;
      event.preventDefault();
      void undoAll([last]);
    };
    window.addEventListener('keydown', undoLast);
    return () => window.removeEventListener('keydown', undoLast);
  }, []);
  // The region is in the page before its first message, or screen readers do not announce it.
  return host
    ? createPortal(
        <section aria-label="Undo" aria-live="polite" className="pointer-events-auto">
          {bar && changes[0] ? <bar.UndoBarContent changes={changes} last={changes[0]} /> : null}
        </section>,
        host,
      )
    : null;
}

const isEditable = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || target.matches('input, textarea, select'));
