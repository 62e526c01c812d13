// Checks uploads against their bucket: size, type, and re-encoded images.
import type { Client } from '../../limits/fair-queue.ts';
import type { StorageContext } from '../context.ts';
import { discard, type WorkFile } from '../files/work-file.ts';
import { formatOfType } from '../images/images.ts';
import { essence, takesOnlyImages, takesType } from '../names.ts';
import type { BucketRow, ObjectMetadata } from '../rows.ts';
import { storageErrors } from '../storage-error.ts';

export type BucketLimits = Pick<BucketRow, 'id' | 'file_size_limit' | 'allowed_mime_types'>;

/** Maximum bytes of an object in a bucket. */
export function sizeLimit({ settings }: Pick<StorageContext, 'settings'>, bucket: BucketLimits): number {
  return Math.min(bucket.file_size_limit ?? settings.fileSizeLimit, settings.fileSizeLimit);
}

/** @throws StorageError InvalidMimeType */
export function checkType(bucket: BucketLimits, type: string): void {
  if (!takesType(bucket.allowed_mime_types, type)) throw storageErrors.mimeType(type);
}

/**
 * Converts uploaded content to the content to store. A bucket for images only ignores the type that the sender declares:
 * the content is decoded and encoded again.
 * @param file a work file; deleted when this throws
 * @param client the uploader
 * @returns the file to store and its metadata
 * @throws StorageError when the bucket does not accept it
 */
export async function accept(
  context: StorageContext,
  bucket: BucketLimits,
  file: WorkFile,
  described: { type: string; cacheControl: string },
  client: Client,
): Promise<{ file: WorkFile; metadata: ObjectMetadata }> {
  let storedFile: WorkFile = file;
  let type = described.type;
  try {
    if (takesOnlyImages(bucket.allowed_mime_types)) {
      const declared = formatOfType(essence(type));
      const clean = await context.images.cleanse(file.path, context.files.workFolder, client, (format) => {
        if (takesType(bucket.allowed_mime_types, `image/${format}`)) return format;
        // A JPEG named as a PNG becomes one where only PNG is accepted.
        if (declared && takesType(bucket.allowed_mime_types, type)) return declared;
        throw storageErrors.mimeType(`image/${format}`);
      });
      storedFile = clean;
      type = clean.format === declared ? essence(type) : `image/${clean.format}`;
    }
    checkType(bucket, type);
  } catch (error) {
    await discard(storedFile);
    throw error;
  }
  return {
    file: storedFile,
    metadata: {
      eTag: `"${storedFile.md5}"`,
      size: storedFile.size,
      mimetype: type,
      cacheControl: described.cacheControl,
      lastModified: new Date().toISOString(),
      contentLength: storedFile.size,
      httpStatusCode: 200,
    },
  };
}
