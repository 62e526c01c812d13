// Which of the shop's addresses are kept on a visitor's device for reading without a network. Everything else is never kept:
// staff's screens, what the services answer, payments, and pages whose address opens personal data.

/** A page of the storefront that may be kept, by its path. */
const pages = /^\/(?:shop|delivery|contact|track-order|shop\/[a-z0-9-]{1,200})?$/;
const orderPage = /^\/track-order\/JJ-\d{8}-\d{4,6}$/;
const builtFile =
  /^\/(?:assets|fonts)\/[\w./-]+$|^\/(?:logo-mark\.svg|logo\.svg|favicon\.svg|icon-\d+\.png)$/;
const picture =
  /^\/art\/[\w.-]+$|^\/storage\/v1\/(?:object|render\/image)\/public\/product-images\/[\w./-]+$/;

export type Kept = 'page' | 'order' | 'file' | 'picture';

/**
 * What an address is to the device.
 * @param ownOrigin the shop's own; nothing of another one is kept
 * @returns null when it is not kept, nor answered from what is kept
 */
export function keptAs(url: URL, ownOrigin: string): Kept | null {
  if (url.origin !== ownOrigin) return null;
  const { pathname } = url;
  if (pages.test(pathname))
    return url.searchParams.has('tracking') || url.searchParams.has('key') ? null : 'page';
  // With its key an order is told in full: that is for its owner's eyes, not for a store of pages.
  if (orderPage.test(pathname)) return url.search === '' ? 'order' : null;
  if (builtFile.test(pathname)) return 'file';
  return picture.test(pathname) ? 'picture' : null;
}

/** The files of the build that a page needs, by their paths. */
export function filesOf(html: string): string[] {
  return [...new Set(html.match(/\/(?:assets|fonts)\/[\w.-]+\.(?:js|css|woff2)/g) ?? [])];
}

/** The smallest drawn size of every product picture on a page, as many as `most`. */
export function smallPicturesOf(html: string, most: number): string[] {
  const drawn = html.match(/\/art\/[a-z0-9-]+-240\.avif/g) ?? [];
  return [...new Set(drawn)].slice(0, most);
}

/** Other sizes and formats of a drawn picture, for when the one that is asked for is not there. */
export function otherSizesOf(pathname: string): string[] {
  const stem = /^(\/art\/[a-z0-9-]+)-\d+\.(?:avif|webp)$/.exec(pathname)?.[1];
  if (!stem) return [];
  return [480, 240, 960].flatMap((width) => ['avif', 'webp'].map((format) => `${stem}-${width}.${format}`));
}
