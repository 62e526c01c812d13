// Copies a short text and confirms it.
import { useEffect, useState } from 'react';
import { whatsappLink } from '../../domain/messages/whatsapp-link.ts';
import { copyText } from './copy-text.ts';
import { Icon } from './icons.tsx';

interface CopyButtonProps {
  text: string;
  /** What is copied, for screen readers: "tracking number". */
  what: string;
  /** Offered on WhatsApp where the browser cannot copy it. Default: false, because some texts are secret. */
  isSendable?: boolean;
}

export function CopyButton({ text, what, isSendable = false }: CopyButtonProps) {
  const [outcome, setOutcome] = useState<'copied' | 'refused' | null>(null);

  useEffect(() => {
    if (outcome !== 'copied') return;
    const timer = setTimeout(() => setOutcome(null), 2500);
    return () => clearTimeout(timer);
  }, [outcome]);

  async function copy() {
    setOutcome((await copyText(text)) ? 'copied' : 'refused');
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
      <span role="status" className={outcome === 'refused' ? 'text-sm' : 'sr-only'}>
        {outcome === 'copied' ? `Copied ${what}` : null}
        {outcome === 'refused' ? (
          <>
            Please copy it by hand: <span className="break-all select-all">{text}</span>
            {isSendable ? (
              <a
                href={whatsappLink(null, text)}
                target="_blank"
                rel="noreferrer"
                className="block py-2.5 font-semibold text-dusk-600 underline underline-offset-2"
              >
                Send by WhatsApp
              </a>
            ) : null}
          </>
        ) : null}
      </span>
    </>
  );
}

function CopyIcon() {
  return (
    <svg
      viewBox="0 0 24 24"
      width="16"
      height="16"
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
