// URLs of product images: which are allowed, and in which sizes. Every page of the storefront loads this module.

/**
 * Whether a URL is allowed as an image: https, plain http on the same machine, or a path of this site. The
 * constraint on `products.image_url` has the same rule.
 */
export function isAllowedImageUrl(address: string): boolean {
  return (
    address.length <= 2000 &&
    /^(https:\/\/[^/]|http:\/\/(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?\/|\/[^/])/.test(address) &&
    !/[\\\s\p{Cc}]/u.test(address)
  );
}

/** Splits a storage URL into the services' origin and the bucket and name; null for any other URL. */
export function parseStoredImage(address: string): { origin: string; object: string } | null {
  const [, origin, object] =
    /^(https?:\/\/[^/?#]+)?\/storage\/v1\/object\/public\/([^?#]+)$/.exec(address) ?? [];
  return object ? { origin: origin ?? '', object } : null;
}

/** Sides in pixels of the square renderings on the shop's pages, the only ones that visitors may request. */
export const renderedSides: readonly number[] = [120, 240, 360, 480, 720, 960];

/**
 * The URL of a square rendering of an image in storage, in the best format that the browser accepts.
 * @param address the image's public URL, with or without an origin
 * @param side pixels; one of `renderedSides`
 * @returns null when the image is not in storage
 */
export function renderedImageUrl(address: string, side: number): string | null {
  const found = parseStoredImage(address);
  return (
    found &&
    `${found.origin}/storage/v1/render/image/public/${found.object}?width=${side}&height=${side}&resize=cover`
  );
}
