// Pictures of products: which files may be one, how they are named in storage, and their address in the size shown.

/** The bucket of products' pictures, and the folder in it that staff write to (specification §7, Admin management). */
export const pictureBucket = 'product-images';
const folder = 'products/';

/** The media types the bucket takes, for a file picker. */
export const pictureTypes = ['image/jpeg', 'image/png', 'image/webp', 'image/avif', 'image/gif'] as const;
/** Most bytes of a picture the bucket takes. */
export const largestPicture = 10 * 1024 * 1024;

const extensions: Record<(typeof pictureTypes)[number], readonly string[]> = {
  'image/jpeg': ['jpg', 'jpeg'],
  'image/png': ['png'],
  'image/webp': ['webp'],
  'image/avif': ['avif'],
  'image/gif': ['gif'],
};

/** What is known of a file before it is sent: the browser's `File` is one. */
export interface PictureFile {
  name: string;
  /** The media type, as far as its owner knows. */
  type: string;
  /** Bytes. */
  size: number;
}

/**
 * What is wrong with a file as a picture, as far as it can be told without looking into it.
 * @returns null when it may be sent
 */
export function checkPictureFile({ type, size }: PictureFile): string | null {
  if (!pictureTypes.some((known) => known === type)) {
    return type.startsWith('image/')
      ? 'This kind of image is not accepted. Choose a JPEG, PNG, WebP, AVIF or GIF.'
      : 'This is not an image. Choose a JPEG, PNG, WebP, AVIF or GIF.';
  }
  if (size === 0) return 'The file is empty.';
  if (size > largestPicture) {
    // Rounded up: a file that is barely too large must not read as if it fitted.
    const megabytes = (Math.ceil((size / 1024 / 1024) * 10) / 10).toLocaleString('en-KE');
    return `The image has ${megabytes} MB. At most ${largestPicture / 1024 / 1024} MB are accepted.`;
  }
  return null;
}

/**
 * Where in the bucket a new picture goes: a random name with the extension of the file (specification §7).
 * @param random a name nobody has used, such as a UUID
 */
export function newPictureName({ name, type }: PictureFile, random: string): string {
  const own = /\.([a-z0-9]{1,5})$/i.exec(name)?.[1]?.toLowerCase();
  const known = Object.entries(extensions).find(([known]) => known === type)?.[1] ?? [];
  return `${folder}${random}.${own && known.includes(own) ? own : (known[0] ?? 'jpg')}`;
}

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

const publicPath = '/storage/v1/object/public/';

/** An address split into the services' origin and the bucket and name in storage, or null when it is no such address. */
function stored(address: string): { origin: string; object: string } | null {
  const [, origin, object] =
    /^(https?:\/\/[^/?#]+)?\/storage\/v1\/object\/public\/([^?#]+)$/.exec(address) ?? [];
  return object ? { origin: origin ?? '', object } : null;
}

/**
 * The picture's name within the bucket, to remove it by.
 * @param address a product's image_url
 * @returns null when it is none that staff have uploaded: the shop's own art, or a picture elsewhere
 */
export function uploadedPictureName(address: string | null): string | null {
  const object = address ? stored(address)?.object : undefined;
  if (!object?.startsWith(`${pictureBucket}/${folder}`)) return null;
  const name = object.slice(pictureBucket.length + 1);
  return /^products\/[a-z0-9.-]+$/i.test(name) ? name : null;
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
  const found = stored(address);
  return (
    found &&
    `${found.origin}/storage/v1/render/image/public/${found.object}?width=${side}&height=${side}&resize=cover`
  );
}

/**
 * A public address as it is kept in the database: without the origin where that is the shop's own, so that it stays
 * true when the shop is called by another name.
 */
export function keptPictureAddress(address: string, ownOrigin: string): string {
  return address.startsWith(`${ownOrigin}${publicPath}`) ? address.slice(ownOrigin.length) : address;
}
