// Removal in two presses; the second button names the removed item.
import { useLayoutEffect, useRef, useState } from 'react';
import { Button } from '../../ui/button.tsx';
import { useReturnFocus } from './use-return-focus.ts';

interface ConfirmRemovalProps {
  /** Name of the removed item. */
  what: string;
  isBusy: boolean;
  onConfirm(): void;
}

export function ConfirmRemoval({ what, isBusy, onConfirm }: ConfirmRemovalProps) {
  const [isConfirming, setConfirming] = useState(false);
  const frame = useRef<HTMLSpanElement>(null);

  // Focus returns to the first button, or to the page if that is removed, too.
  useReturnFocus(isConfirming || null, () => frame.current?.querySelector('button')?.focus());
  useLayoutEffect(() => {
    const element = frame.current;
    return () => {
      if (element?.contains(document.activeElement)) {
        document.querySelector('main')?.focus({ preventScroll: true });
      }
    };
  }, []);

  return (
    <span ref={frame} className="flex min-w-0 flex-wrap gap-2">
      {isConfirming ? (
        <>
          <Button
            tone="danger"
            isBusy={isBusy}
            autoFocus
            onClick={() => {
              setConfirming(false);
              onConfirm();
            }}
            className="min-w-0 wrap-anywhere"
          >
            Remove {what}
          </Button>
          <Button tone="quiet" onClick={() => setConfirming(false)}>
            Keep
          </Button>
        </>
      ) : (
        <Button
          tone="quiet"
          isBusy={isBusy}
          aria-label={`Remove ${what}...`}
          onClick={() => setConfirming(true)}
        >
          Remove
        </Button>
      )}
    </span>
  );
}
