// Shares a page's URL with the system's share dialog, or copies it.
import { useEffect, useState } from 'react';
import { buttonStyle } from '../../ui/button.tsx';
import { copyText } from '../../ui/copy-text.ts';

interface ShareButtonProps {
  /** The full URL, without anything that reveals private data. */
  url: string;
  title: string;
  label?: string;
}

export function ShareButton({ url, title, label = 'Share' }: ShareButtonProps) {
  const [outcome, setOutcome] = useState<'copied' | 'refused' | null>(null);
  useEffect(() => {
    if (outcome !== 'copied') return;
    const timer = setTimeout(() => setOutcome(null), 4000);
    return () => clearTimeout(timer);
  }, [outcome]);

  async function share() {
    try {
      if (navigator.share) {
        await navigator.share({ url, title });
        return;
      }
    } catch (error) {
      // Cancelling the share dialog does not copy the URL.
      if (error instanceof DOMException && error.name === 'AbortError') return;
    }
    setOutcome((await copyText(url)) ? 'copied' : 'refused');
  }

  return (
    <span className="inline-flex flex-wrap items-center gap-x-3 gap-y-1">
      <button type="button" onClick={share} className={buttonStyle('quiet')}>
        <svg
          viewBox="0 0 24 24"
          width="18"
          height="18"
          aria-hidden="true"
          fill="none"
          stroke="currentColor"
          strokeWidth="2"
          strokeLinecap="round"
          strokeLinejoin="round"
          className="size-4.5"
        >
          <path d="M12 15V3.5m-4 4 4-4 4 4M5.5 12v8h13v-8" />
        </svg>
        {label}
      </button>
      <span role="status" className="text-sm text-ink-soft">
        {outcome === 'copied' ? 'Link copied' : null}
        {outcome === 'refused' ? (
          <>
            Copy this link: <span className="break-all select-all">{url}</span>
          </>
        ) : null}
      </span>
    </span>
  );
}
