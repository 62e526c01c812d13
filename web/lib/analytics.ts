// One page view per page that is opened, in the words of Plausible's event protocol. Nothing of the visitor goes along.

export interface Analytics {
  /** Origin of the service that counts; '' when it is the shop itself. */
  url: string;
  /** The site's name there. */
  domain: string;
}

/**
 * Reports a page once it has loaded, so that nobody waits for it.
 * @param pathname of the page; a tracking number in it is left out, and so is whatever follows a question mark
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
  // Whoever leaves at once is counted too, and a report that fails is nobody's business.
  const send = () => void navigator.sendBeacon?.(`${url}/api/event`, event);
  if (document.readyState === 'complete') send();
  else window.addEventListener('load', send, { once: true });
}
