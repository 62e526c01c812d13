// Uploaded product images: accepted files, their conversion, and their names in storage.
import { parseStoredImage } from './product-image.ts';

/** The bucket of product images, and its folder that staff write to (docs/product.md#products-screen). */
export const imageBucket = 'product-images';
const folder = 'products/';

/** The media types that the bucket accepts, for a file picker. */
export const imageTypes = ['image/jpeg', 'image/png', 'image/webp', 'image/avif', 'image/gif'] as const;
/** Images that a product may have beside its first, as the constraint on `products.more_images`. */
export const maxMoreImages = 4;
/** Maximum bytes of an image in the bucket. */
export const maxImageBytes = 10 * 1024 * 1024;

const extensions: Record<(typeof imageTypes)[number], readonly string[]> = {
  'image/jpeg': ['jpg', 'jpeg'],
  'image/png': ['png'],
  'image/webp': ['webp'],
  'image/avif': ['avif'],
  'image/gif': ['gif'],
};

/** A file before its upload, such as the browser's `File`. */
export interface ImageFile {
  name: string;
  /** The media type as the browser reports it. */
  type: string;
  /** Bytes. */
  size: number;
}

/** Maximum bytes of a picked file, such as a phone's photo, which the browser then resizes. */
export const maxPhotoBytes = 25 * 1024 * 1024;

/** Whether a file is an HEIC photo. Not every system reports its media type. */
export const isHeic = ({ name, type }: Pick<ImageFile, 'name' | 'type'>): boolean =>
  /^image\/hei[cf]/.test(type) || (type === '' && /\.hei[cf]$/i.test(name));

/**
 * Returns the problem of a file by its type and size.
 * @returns null when it may be prepared for the upload
 */
export function checkImageFile(file: ImageFile): string | null {
  const { type, size } = file;
  if (!isHeic(file) && !imageTypes.some((known) => known === type)) {
    return type.startsWith('image/')
      ? 'This kind of image is not accepted. Choose a JPEG, PNG, WebP, AVIF or GIF.'
      : 'This is not an image. Choose a JPEG, PNG, WebP, AVIF or GIF.';
  }
  if (size === 0) return 'The file is empty.';
  // An animation would lose all frames but the first.
  return tooLarge(size, type === 'image/gif' ? maxImageBytes : maxPhotoBytes);
}

/** @returns null when the size is within the limit */
function tooLarge(size: number, limit: number): string | null {
  if (size <= limit) return null;
  // Rounded up, so that a file barely above the limit is not shown as within it.
  const megabytes = (Math.ceil((size / 1024 / 1024) * 10) / 10).toLocaleString('en-KE');
  return `The image has ${megabytes} MB. At most ${limit / 1024 / 1024} MB are accepted.`;
}

/** Longer side of an uploaded image in pixels: twice the shop's largest rendering. */
export const uploadedSide = 2000;
/** A file up to this many bytes is uploaded unchanged, unless it must be rotated or resized. */
const largeFile = 2 * 1024 * 1024;

/**
 * Whether an image must be re-encoded before its upload.
 * @param size of the displayed image, in pixels
 * @param start the first bytes of the file
 */
export function needsDrawing(
  file: ImageFile,
  { width, height }: { width: number; height: number },
  start: Uint8Array,
): boolean {
  if (file.type === 'image/gif') return false;
  return (
    isHeic(file) ||
    file.size > largeFile ||
    Math.max(width, height) > uploadedSide ||
    exifOrientation(start) > 1
  );
}

/**
 * Reads the EXIF tag Orientation of a JPEG, from 1 (not rotated) to 8.
 * @param start the first bytes of a file of any kind
 */
export function exifOrientation(start: Uint8Array): number {
  const view = new DataView(start.buffer, start.byteOffset, start.byteLength);
  const word = (at: number, isLittle = false) =>
    at + 2 <= view.byteLength ? view.getUint16(at, isLittle) : 0;
  const long = (at: number, isLittle: boolean) =>
    at + 4 <= view.byteLength ? view.getUint32(at, isLittle) : 0;
  if (word(0) !== 0xffd8) return 1;
  // The segments before the image: marker, length, content.
  for (let at = 2; word(at) >= 0xffc0 && word(at) !== 0xffda; at += 2 + word(at + 2)) {
    if (word(at) !== 0xffe1 || word(at + 4) !== 0x4578 || word(at + 6) !== 0x6966) continue;
    const tiff = at + 10;
    const isLittle = word(tiff) === 0x4949;
    const directory = tiff + long(tiff + 4, isLittle);
    const entries = Math.min(word(directory, isLittle), 100);
    for (let entry = directory + 2; entry < directory + 2 + 12 * entries; entry += 12) {
      if (word(entry, isLittle) !== 0x0112) continue;
      const orientation = word(entry + 8, isLittle);
      return orientation >= 1 && orientation <= 8 ? orientation : 1;
    }
    return 1;
  }
  return 1;
}

/**
 * Returns the path of a new image in the bucket: a random name with the extension of the file.
 * @param random a unique name, such as a UUID
 */
export function newImageName({ name, type }: ImageFile, random: string): string {
  const extension = /\.([a-z0-9]{1,5})$/i.exec(name)?.[1]?.toLowerCase();
  const typeExtensions = Object.entries(extensions).find(([known]) => known === type)?.[1] ?? [];
  return `${folder}${random}.${extension && typeExtensions.includes(extension) ? extension : (typeExtensions[0] ?? 'jpg')}`;
}

/**
 * The image's name within the bucket, to remove it.
 * @param address a product's image_url
 * @returns null for images that staff have not uploaded: the shop's own, or external ones
 */
export function uploadedImageName(address: string | null): string | null {
  const object = address ? parseStoredImage(address)?.object : undefined;
  if (!object?.startsWith(`${imageBucket}/${folder}`)) return null;
  const name = object.slice(imageBucket.length + 1);
  return /^products\/[a-z0-9.-]+$/i.test(name) ? name : null;
}

const publicPath = '/storage/v1/object/public/';

/**
 * A public URL as stored in the database: without the shop's own origin, so that it stays
 * valid when the shop's host name changes.
 */
export function storedImageUrl(address: string, ownOrigin: string): string {
  return address.startsWith(`${ownOrigin}${publicPath}`) ? address.slice(ownOrigin.length) : address;
}
