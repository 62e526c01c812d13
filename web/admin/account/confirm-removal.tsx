// Removing takes two presses, the second one on words that say what is removed.
import { useState } from 'react';
import { Button } from '../../ui/button.tsx';

interface ConfirmRemovalProps {
  /** What is removed, in words. */
  what: string;
  isBusy: boolean;
  onConfirm(): void;
}

export function ConfirmRemoval({ what, isBusy, onConfirm }: ConfirmRemovalProps) {
  const [isAsking, setAsking] = useState(false);
  return isAsking ? (
    <span className="flex flex-wrap gap-2">
      <Button
        tone="outline"
        disabled={isBusy}
        autoFocus
        onClick={() => {
          setAsking(false);
          onConfirm();
        }}
      >
        Remove {what}
      </Button>
      <Button tone="quiet" onClick={() => setAsking(false)}>
        Keep
      </Button>
    </span>
  ) : (
    <Button tone="quiet" disabled={isBusy} aria-label={`Remove ${what}...`} onClick={() => setAsking(true)}>
      Remove
    </Button>
  );
}
