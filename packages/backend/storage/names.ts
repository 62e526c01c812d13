// Valid names of buckets, objects and media types, and the format of sizes.
import { storageErrors } from './storage-error.ts';

const keyCharacters = /^[A-Za-z0-9_/!.*'() &$=@;:+,?-]+$/;
const bucketCharacters = /^[A-Za-z0-9_!.*'() &$=@;:+,?-]+$/;
const reservedSuffix = /--(?:iceberg|vectors?|table-s3|analytics)$/;

/**
 * Checks the name of an object.
 * @returns the name
 * @throws StorageError InvalidKey
 */
export function checkedKey(key: string): string {
  const hasDots = key.split('/').some((part) => part === '.' || part === '..');
  if (!keyCharacters.test(key) || key.length > 1024 || hasDots) throw storageErrors.key(key.slice(0, 1024));
  return key;
}

/**
 * Checks the name of a bucket.
 * @returns the name
 * @throws StorageError InvalidBucketName
 */
export function checkedBucketName(name: string): string {
  const isFine =
    bucketCharacters.test(name) && name.length <= 100 && name.trim() === name && !reservedSuffix.test(name);
  if (!isFine) throw storageErrors.bucketName();
  return name;
}

const mimePattern = /^(?:\*|[a-z0-9][\w.+-]*)\/(?:\*|[\w.+-]+)$/i;

/**
 * Checks which content a bucket accepts.
 * @param patterns media types, `image/*` or `*` + `/*` included
 * @throws StorageError InvalidMimeType naming the first that is none
 */
export function checkedMimePatterns(patterns: readonly string[]): void {
  const wrong = patterns.find((pattern) => !mimePattern.test(pattern));
  if (wrong !== undefined) throw storageErrors.mimeType(wrong);
}

/** The media type alone, lower-case: without parameters. */
export function essence(type: string): string {
  return (type.split(';', 1)[0] ?? '').trim().toLowerCase();
}

/** Whether a bucket with this list accepts a media type. No list accepts all. */
export function takesType(patterns: readonly string[] | null, type: string): boolean {
  if (!patterns || patterns.length === 0) return true;
  const mediaType = essence(type);
  return patterns.some((pattern) => {
    const allowed = pattern.toLowerCase();
    if (allowed === '*/*' || allowed === mediaType) return true;
    return (
      allowed.endsWith('/*') && mediaType.startsWith(allowed.slice(0, -1)) && mimePattern.test(mediaType)
    );
  });
}

/** Whether a bucket with this list accepts only images. */
export function takesOnlyImages(patterns: readonly string[] | null): boolean {
  return (
    patterns !== null &&
    patterns.length > 0 &&
    patterns.every((pattern) => pattern.toLowerCase().startsWith('image/'))
  );
}

/** A media type valid in a header, or the type of unknown bytes. */
export function storableType(type: string | null): string {
  return type && /^[\w.+-]+\/[\w.+-]+(?:\s*;[\x20-\x7e]*)?$/.test(type) && type.length <= 255
    ? type
    : 'application/octet-stream';
}

/** A cache-control value valid in a header. */
export function storableCacheControl(value: string | null): string {
  return value && /^[\x20-\x7e]{1,200}$/.test(value) ? value : 'no-cache';
}

const units: Record<string, number> = { '': 1, B: 1, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 };

/**
 * Reads a size: bytes, or a number with B, KB, MB, GB or TB (powers of 1000).
 * @throws StorageError InvalidRequest
 */
export function readSize(value: unknown): number {
  const match = /^(\d+(?:\.\d+)?)\s*([KMGT]?B)?$/i.exec(String(value).trim());
  const bytes = match ? Math.round(Number(match[1]) * (units[(match[2] ?? '').toUpperCase()] ?? 1)) : -1;
  if (!Number.isSafeInteger(bytes) || bytes < 0) {
    throw storageErrors.request('body/file_size_limit must be a number of bytes or a size such as "20MB"');
  }
  return bytes;
}
