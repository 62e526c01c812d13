// Copies a short text and confirms it.
import { useEffect, useState } from 'react';
import { Icon } from './icons.tsx';

interface CopyButtonProps {
  text: string;
  /** What is copied, for screen readers: "tracking number". */
  what: string;
}

export function CopyButton({ text, what }: CopyButtonProps) {
  const [outcome, setOutcome] = useState<'copied' | 'refused' | null>(null);

  useEffect(() => {
    if (!outcome) return;
    const timer = setTimeout(() => setOutcome(null), 2500);
    return () => clearTimeout(timer);
  }, [outcome]);

  async function copy() {
    try {
      await navigator.clipboard.writeText(text);
      setOutcome('copied');
    } catch {
      setOutcome('refused');
    }
  }

  return (
    <>
      <button
        type="button"
        onClick={copy}
        aria-label={`Copy ${what}`}
        className="inline-flex min-h-11 items-center gap-1.5 rounded-pill px-3 text-sm font-semibold text-dusk-600 transition-colors hover:bg-paper-deep"
      >
        {outcome === 'copied' ? <Icon name="check" className="size-4 text-success" /> : <CopyIcon />}
        <span aria-hidden="true">{outcome === 'copied' ? 'Copied' : 'Copy'}</span>
      </button>
      <span role="status" className="sr-only">
        {outcome === 'copied' ? `Copied ${what}` : null}
        {outcome === 'refused' ? `Could not copy the ${what}. Please select and copy it by hand.` : null}
      </span>
    </>
  );
}

function CopyIcon() {
  return (
    <svg
      viewBox="0 0 24 24"
      aria-hidden="true"
      fill="none"
      stroke="currentColor"
      strokeWidth="2"
      strokeLinejoin="round"
      className="size-4 shrink-0"
    >
      <path d="M9 9h11v11H9zM15 9V4H4v11h5" />
    </svg>
  );
}
