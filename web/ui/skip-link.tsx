import type { MouseEventHandler } from 'react';

/**
 * The first link of a page: leads past the header to `#main`, and shows once it has the focus.
 * @param onClick for pages whose router must not see the step in the history
 */
export function SkipLink({ onClick }: { onClick?: MouseEventHandler }) {
  return (
    // biome-ignore lint/a11y/useValidAnchor: a link, which works before the page's scripts do
    <a
      href="#main"
      onClick={onClick}
      className="sr-only z-50 rounded-md bg-dusk-900 font-bold text-white focus:not-sr-only focus:fixed focus:top-3 focus:left-3 focus:px-5 focus:py-3"
    >
      Skip to content
    </a>
  );
}
