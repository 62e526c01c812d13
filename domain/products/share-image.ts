// The URL of a product's share image, which changes with its contents.

export interface SharedProduct {
  slug: string;
  name: string;
  /** Cents. */
  price: number;
  image_url: string | null;
}

/** Size in pixels that social networks expect. */
export const shareImageSize = { width: 1200, height: 630 } as const;
/** Chats that show a small square take this one, instead of cutting the wide one. */
export const squareShareImageSize = { width: 1200, height: 1200 } as const;

/**
 * A short version string that changes with the content of the image.
 * @param storeName shown on the image
 */
export function shareImageVersion({ name, price, image_url }: SharedProduct, storeName: string): string {
  // FNV-1a, because the version is short and not secret.
  let hash = 0x811c9dc5;
  for (const character of JSON.stringify([name, price, image_url, storeName])) {
    hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193);
  }
  return (hash >>> 0).toString(36);
}

/**
 * Path and query of a product's square share image.
 * @returns null for a product without an image
 */
export const squareShareImagePath = (product: SharedProduct, storeName: string): string | null =>
  product.image_url ? `${shareImagePath(product, storeName)}&shape=square` : null;

/**
 * Path and query of a product's share image.
 * @returns the shop's own image for a product without one
 */
export function shareImagePath(product: SharedProduct, storeName: string): string {
  if (!product.image_url) return '/art/share.jpg';
  return `/share/${encodeURIComponent(product.slug)}.jpg?v=${shareImageVersion(product, storeName)}`;
}
