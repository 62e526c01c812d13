// Uploads product images, and removes those that no product uses any more.
import { isAllowedImageUrl } from '../../../../domain/products/product-image.ts';
import {
  imageBucket,
  newImageName,
  storedImageUrl,
  uploadedImageName,
} from '../../../../domain/products/uploaded-image.ts';
import { withUploadProgress } from '../../../lib/browser/upload-progress.ts';
import { ShownError } from '../../../lib/shown-error.ts';
import type { Staff } from '../../../lib/staff.ts';

/** Cacheable for a year, because names are never reused. */
const oneYear = 365 * 24 * 60 * 60;

/** An image that was rejected; the message is for the member. */
export class ImageRejected extends ShownError {
  override readonly name = 'ImageRejected';
}

/** The member cancelled the upload. */
export class UploadStopped extends ShownError {
  override readonly name = 'UploadStopped';
  constructor() {
    super('The upload was stopped. Nothing was saved.');
  }
}

/**
 * Uploads an image.
 * @param onProgress called with the uploaded share, from 0 to 1
 * @param stop aborts the upload
 * @returns the URL for `image_url`
 * @throws ImageRejected, UploadStopped
 */
export async function uploadImage(
  staff: Staff,
  file: File,
  onProgress: (part: number) => void,
  stop: AbortSignal,
): Promise<string> {
  const bucket = (await staff.storage(withUploadProgress(onProgress, stop))).from(imageBucket);
  const name = newImageName(file, crypto.randomUUID());
  const { error } = await bucket.upload(name, file, {
    contentType: file.type,
    cacheControl: String(oneYear),
  });
  const address = storedImageUrl(bucket.getPublicUrl(name).data.publicUrl, window.location.origin);
  if (stop.aborted) {
    // The upload may have succeeded before it was aborted.
    void removeUnusedImage(staff, address);
    throw new UploadStopped();
  }
  if (error) throw new ImageRejected(describeRefusal(error));
  if (!isAllowedImageUrl(address)) {
    throw new ImageRejected('The storage service is not reached by https, so the image cannot be shown.');
  }
  return address;
}

function describeRefusal(error: { statusCode?: string | undefined }): string {
  if (error.statusCode === '413') return 'The image is too large for the shop. Choose a smaller one.';
  if (error.statusCode === '415')
    return 'This kind of image is not accepted. Choose a JPEG, PNG, WebP, AVIF or GIF.';
  return 'The image could not be uploaded. Please try again.';
}

/**
 * Removes images of a product that no other product uses. Call it after the product's row is written. A failure is only
 * logged.
 */
export async function removeUnusedImages(staff: Staff, addresses: readonly (string | null)[]): Promise<void> {
  await Promise.all(addresses.map((address) => removeUnusedImage(staff, address)));
}

async function removeUnusedImage(staff: Staff, address: string | null): Promise<void> {
  const name = uploadedImageName(address);
  if (!name || !address) return;
  try {
    const { data: users, error } = await staff.tables
      .from('products')
      .select('id')
      .or(`image_url.eq."${address}",more_images.cs.{"${address}"}`)
      .limit(1);
    if (error) throw new Error(error.message);
    if (users.length > 0) return;
    const { error: refusal } = await (await staff.storage()).from(imageBucket).remove([name]);
    if (refusal) throw refusal;
  } catch (error) {
    console.warn('An unused product image could not be removed', name, error);
  }
}
