// The oldest browsers that run the shop's scripts. Older ones get the forms that need none. See docs/decisions/old-browsers.md.

/** First supported versions. Android's WebView has Chrome's number, Safari's is also that of iOS. */
export const browserFloor = { chrome: 88, firefox: 113, safari: 14.1 } as const;

/** The floor as the build tools write it: they lower newer syntax of scripts and style sheets. */
export const buildTarget: string[] = Object.entries(browserFloor).map(([name, version]) => name + version);

/** The floor for people, such as "Chrome 88, Firefox 113 or Safari 14.1". */
export const floorText = `Chrome ${browserFloor.chrome}, Firefox ${browserFloor.firefox} or Safari ${browserFloor.safari}`;

/**
 * Whether a browser can run the scripts: what separates the floor from older versions, and what pages cannot do without. An expression of
 * the oldest syntax, for inline scripts.
 */
export const canRunScripts =
  "!!(window.CSS&&CSS.supports&&CSS.supports('selector(:is(a))')&&CSS.supports('inset','0')&&window.TextEncoderStream&&window.WeakRef&&window.Promise&&Promise.any&&''.replaceAll" +
  '&&window.fetch&&window.URLSearchParams&&window.AbortController&&window.FormData&&window.IntersectionObserver&&window.ResizeObserver' +
  '&&window.MutationObserver&&window.matchMedia&&window.TextDecoderStream&&window.crypto&&crypto.getRandomValues&&window.queueMicrotask&&Object.fromEntries)';
