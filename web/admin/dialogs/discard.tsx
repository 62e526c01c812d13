// Asks in the footer of a dialog before unsaved changes, or the row itself, are discarded.
import { useEffect, useId, useRef } from 'react';
import { Button } from '../../ui/button.tsx';

interface DiscardProps {
  question?: string;
  stay?: string;
  leave?: string;
  isBusy?: boolean;
  onStay(): void;
  onLeave(): void;
}

export function Discard({
  question = 'Discard unsaved changes?',
  stay = 'Keep editing',
  leave = 'Discard',
  isBusy = false,
  onStay,
  onLeave,
}: DiscardProps) {
  const first = useRef<HTMLButtonElement>(null);
  const id = useId();
  useEffect(() => first.current?.focus(), []);
  return (
    <div
      role="alertdialog"
      aria-labelledby={id}
      className="flex flex-wrap items-center justify-between gap-x-5 gap-y-3"
    >
      <p id={id} className="font-bold">
        {question}
      </p>
      <div className="flex flex-wrap gap-3">
        <Button ref={first} tone="quiet" onClick={onStay}>
          {stay}
        </Button>
        <Button tone="danger" isBusy={isBusy} onClick={onLeave}>
          {leave}
        </Button>
      </div>
    </div>
  );
}
