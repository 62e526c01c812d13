// Which of the shop's URLs are cached on a visitor's device for offline reading. Everything else is never cached:
// staff screens, responses of the services, payments, and pages whose URL reveals personal data.
import { listParameters } from '../../domain/products/catalogue.ts';

/** A page of the storefront that may be cached, by its path. */
const cacheablePage = /^\/(?:shop|delivery|contact|track-order|(?:shop|flavors|brands)\/[a-z0-9-]{1,200})?$/;
const orderPage = /^\/track-order\/JJ-\d{8}-\d{4,6}$/;
const builtFile =
  /^\/(?:assets|fonts)\/[\w./-]+$|^\/(?:logo-mark\.svg|logo\.svg|favicon\.svg|icon-\d+\.png)$/;
const cacheableImage =
  /^\/art\/[\w.-]+$|^\/storage\/v1\/(?:object|render\/image)\/public\/product-images\/[\w./-]+$/;

export type CacheKind = 'page' | 'order' | 'file' | 'image';

/**
 * Classifies a URL.
 * @param ownOrigin the shop's origin; nothing of other origins is cached
 * @returns null if it is neither cached nor answered from the cache
 */
export function cacheKindOf(url: URL, ownOrigin: string): CacheKind | null {
  if (url.origin !== ownOrigin) return null;
  const { pathname } = url;
  if (cacheablePage.test(pathname))
    return url.searchParams.has('tracking') || url.searchParams.has('key') ? null : 'page';
  // With its access key an order is shown in full, which must not be cached.
  if (orderPage.test(pathname)) return url.search === '' ? 'order' : null;
  if (builtFile.test(pathname)) return 'file';
  return cacheableImage.test(pathname) ? 'image' : null;
}

/**
 * Whether a page is the whole one of its path, under which it is cached. A part of the list would be read as the list; the
 * whole list shows any part itself.
 */
export function isWholePage({ searchParams }: URL): boolean {
  return !listParameters.some((name) => searchParams.has(name));
}

/**
 * The page that shows the order of a URL, as it may be cached: without its access key, and for links to its receipt or payment.
 * @returns null for a URL of another page
 */
export function orderPageOf(url: URL, ownOrigin: string): string | null {
  if (url.origin !== ownOrigin) return null;
  const short = /^\/t\/(\d{8}-\d{4,6})-/.exec(url.pathname)?.[1];
  const page = /^\/track-order\/(JJ-\d{8}-\d{4,6})(?:\/|$)/.exec(url.pathname)?.[1];
  const asked = url.pathname === '/track-order' ? url.searchParams.get('tracking') : null;
  const number = short ? `JJ-${short}` : (page ?? asked);
  const path = `/track-order/${number}`;
  return orderPage.test(path) ? path : null;
}

/** Paths of the build's files that a page needs. */
export function buildFilesIn(html: string): string[] {
  return [...new Set(html.match(/\/(?:assets|fonts)\/[\w.-]+\.(?:js|css|woff2)/g) ?? [])];
}

/** The smallest rendering of every product image on a page, at most `max`. */
export function smallImagesIn(html: string, max: number): string[] {
  const drawn = html.match(/\/art\/[a-z0-9-]+-240\.avif/g) ?? [];
  return [...new Set(drawn)].slice(0, max);
}

/** Other renderings of an image, for when the requested one is not cached. */
export function otherRenderingsOf(pathname: string): string[] {
  const stem = /^(\/art\/[a-z0-9-]+)-\d+\.(?:avif|webp)$/.exec(pathname)?.[1];
  if (!stem) return [];
  return [480, 240, 960].flatMap((width) => ['avif', 'webp'].map((format) => `${stem}-${width}.${format}`));
}
