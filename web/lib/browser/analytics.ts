// Sends one page view per opened page in Plausible's event format, without data about the visitor.

export interface Analytics {
  /** Origin of the analytics service; '' for the shop itself. */
  url: string;
  /** The site's name there. */
  domain: string;
}

/**
 * Reports a page view after the page has loaded, so that it delays nothing.
 * @param pathname of the page; a tracking number in it and the query string are left out
 */
export function reportPageView(url: string, domain: string, pathname: string): void {
  const { origin } = window.location;
  const { referrer } = document;
  const event = JSON.stringify({
    name: 'pageview',
    url: origin + pathname.replace(/^\/track-order\/.*/, '/track-order'),
    domain,
    referrer: referrer.startsWith(origin) ? null : referrer || null,
  });
  // A beacon also counts visitors who leave at once. A failed report is ignored.
  const send = () => void navigator.sendBeacon?.(`${url}/api/event`, event);
  if (document.readyState === 'complete') send();
  else window.addEventListener('load', send, { once: true });
}
