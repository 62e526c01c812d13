// Asks in the footer of a dialog before unsaved changes are discarded.
import { useEffect, useId, useRef } from 'react';
import { Button } from '../../ui/button.tsx';

export function Discard({ onStay, onLeave }: { onStay(): void; onLeave(): void }) {
  const stay = useRef<HTMLButtonElement>(null);
  const id = useId();
  useEffect(() => stay.current?.focus(), []);
  return (
    <div
      role="alertdialog"
      aria-labelledby={id}
      className="flex flex-wrap items-center justify-between gap-x-5 gap-y-3"
    >
      <p id={id} className="font-bold">
        Discard unsaved changes?
      </p>
      <div className="flex flex-wrap gap-3">
        <Button ref={stay} tone="quiet" onClick={onStay}>
          Keep editing
        </Button>
        <Button tone="danger" onClick={onLeave}>
          Discard
        </Button>
      </div>
    </div>
  );
}
