// Addresses of product pictures: which may be shown, and in which sizes. Every page of the storefront loads this.

/**
 * Whether an address may be shown as a picture: https, plain http on the same machine, or a path of this site. The
 * constraint on `products.image_url` holds the same rule.
 */
export function isPictureAddress(address: string): boolean {
  return (
    address.length <= 2000 &&
    /^(https:\/\/[^/]|http:\/\/(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?\/|\/[^/])/.test(address) &&
    !/[\\\s\p{Cc}]/u.test(address)
  );
}

/** An address split into the services' origin and the bucket and name in storage, or null when it is no such address. */
export function storedPicture(address: string): { origin: string; object: string } | null {
  const [, origin, object] =
    /^(https?:\/\/[^/?#]+)?\/storage\/v1\/object\/public\/([^?#]+)$/.exec(address) ?? [];
  return object ? { origin: origin ?? '', object } : null;
}

/** Sides in pixels of the square renderings that the shop's pages show, and the only ones that visitors may ask for. */
export const renderedSides: readonly number[] = [120, 240, 360, 480, 720, 960];

/**
 * The address of a square rendering of a picture in storage; the format is the best the browser takes.
 * @param address the picture's public address, with or without an origin
 * @param side pixels; one of `renderedSides`
 * @returns null when the picture is not in storage
 */
export function renderedPicture(address: string, side: number): string | null {
  const found = storedPicture(address);
  return (
    found &&
    `${found.origin}/storage/v1/render/image/public/${found.object}?width=${side}&height=${side}&resize=cover`
  );
}
