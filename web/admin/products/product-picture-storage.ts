// Pictures of products on their way to storage, and out of it once no product shows them any more.
import { isPictureAddress } from '../../../domain/product-picture.ts';
import {
  keptPictureAddress,
  newPictureName,
  pictureBucket,
  uploadedPictureName,
} from '../../../domain/uploaded-picture.ts';
import { ShownError } from '../../lib/shown-error.ts';
import type { Staff } from '../../lib/staff.ts';
import { withUploadProgress } from '../../lib/upload-progress.ts';

/** A name is never used twice, so whoever has the picture need not ask for it again. */
const oneYear = 365 * 24 * 60 * 60;

/** A picture that was not accepted; the message says why. */
export class PictureRefused extends ShownError {
  override readonly name = 'PictureRefused';
}

/** The member ended the upload on its way. */
export class UploadStopped extends ShownError {
  override readonly name = 'UploadStopped';
  constructor() {
    super('The upload was stopped. Nothing was saved.');
  }
}

/**
 * Puts a picture into storage.
 * @param onProgress is told how much of it has gone, from 0 to 1
 * @param stop ends it on the way
 * @returns the address to keep as image_url
 * @throws PictureRefused, UploadStopped
 */
export async function uploadPicture(
  staff: Staff,
  file: File,
  onProgress: (part: number) => void,
  stop: AbortSignal,
): Promise<string> {
  const bucket = (await staff.storage(withUploadProgress(onProgress, stop))).from(pictureBucket);
  const name = newPictureName(file, crypto.randomUUID());
  const { error } = await bucket.upload(name, file, {
    contentType: file.type,
    cacheControl: String(oneYear),
  });
  const address = keptPictureAddress(bucket.getPublicUrl(name).data.publicUrl, window.location.origin);
  if (stop.aborted) {
    // It may have arrived all the same.
    void removeUnusedPicture(staff, address);
    throw new UploadStopped();
  }
  if (error) throw new PictureRefused(describeRefusal(error));
  if (!isPictureAddress(address)) {
    throw new PictureRefused('The storage service is not reached by https, so the image cannot be shown.');
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
 * Removes a picture that a product has shown until now, unless another one shows it. To be called after the product's
 * row was written, never before. A picture that cannot be removed harms nobody: that is only logged.
 */
export async function removeUnusedPicture(staff: Staff, address: string | null): Promise<void> {
  const name = uploadedPictureName(address);
  if (!name || !address) return;
  try {
    const { data: users, error } = await staff.tables
      .from('products')
      .select('id')
      .eq('image_url', address)
      .limit(1);
    if (error) throw new Error(error.message);
    if (users.length > 0) return;
    const { error: refusal } = await (await staff.storage()).from(pictureBucket).remove([name]);
    if (refusal) throw refusal;
  } catch (error) {
    console.warn('A picture that no product shows any more could not be removed', name, error);
  }
}
