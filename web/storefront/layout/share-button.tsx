// Shares a page's URL with the system's share dialog. Browsers without one copy it, and offer WhatsApp.
import { useState } from 'react';
import { whatsappLink } from '../../../domain/messages/whatsapp-link.ts';
import { buttonStyle } from '../../ui/button.tsx';

interface ShareButtonProps {
  /** The full URL, without anything that reveals private data. */
  url: string;
  title: string;
  label?: string;
}

export function ShareButton({ url, title, label = 'Share' }: ShareButtonProps) {
  const [outcome, setOutcome] = useState<'shared' | 'copied' | 'refused' | null>(null);

  async function share() {
    // Few visitors share: the code is loaded then.
    const { shareLink } = await import('./share-link.ts').catch(() => ({
      shareLink: () => 'refused' as const,
    }));
    setOutcome(await shareLink(url, title));
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
      {outcome && outcome !== 'shared' ? (
        <a
          href={whatsappLink(null, `${title} ${url}`)}
          target="_blank"
          rel="noreferrer"
          className="py-2.5 text-sm font-semibold text-dusk-600 underline underline-offset-2"
        >
          Send by WhatsApp
        </a>
      ) : null}
    </span>
  );
}
