/** The first link of a page: leads past the header to `#main`, and shows once it has the focus. */
export function SkipLink() {
  return (
    // biome-ignore lint/a11y/useValidAnchor: a link, which works before the page's scripts do
    <a
      href="#main"
      // Without a step in the history: the panel's router knows only its own, and Back leads to the page before.
      onClick={(event) => {
        event.preventDefault();
        const main = document.getElementById('main');
        main?.focus();
        main?.scrollIntoView();
      }}
      className="sr-only z-50 rounded-md bg-dusk-900 font-bold text-white focus:not-sr-only focus:fixed focus:top-3 focus:left-3 focus:px-5 focus:py-3"
    >
      Skip to content
    </a>
  );
}
