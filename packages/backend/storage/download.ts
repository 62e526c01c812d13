// Sends an object's content, a range of it, 304 when it has not changed, or its metadata.
import type { Readable } from 'node:stream';
import { Readable as NodeReadable } from 'node:stream';
import type { Session } from '../database/database.ts';
import { asCaller, asService, type Call, fileName, type StorageContext } from './context.ts';
import { type ByteRange, FileMissing } from './files/file-store.ts';
import { essence } from './names.ts';
import { findBucket, findObject, type ObjectRow } from './rows.ts';
import { storageErrors } from './storage-error.ts';

/** Access to an object: with the caller's rights, through a public bucket, or with a signed URL. */
export type Access = 'caller' | 'public' | 'signed';

/**
 * Finds the row of a requested object.
 * @throws StorageError NoSuchBucket without a bucket that allows this access, NoSuchKey
 */
export async function findReadable(
  context: StorageContext,
  call: Call,
  access: Access,
  bucket: string,
  key: string,
): Promise<ObjectRow> {
  const found = await asService(context, call, (session) => findBucket(session, bucket));
  if (!found || (access === 'public' && !found.public)) throw storageErrors.noSuchBucket();
  const find = (session: Session) => findObject(session, bucket, key);
  const object =
    access === 'caller' && !found.public
      ? await asCaller(context, { ...call, claims: call.caller.claims }, find, { readOnly: true })
      : await asService(context, call, find);
  if (!object) throw storageErrors.noSuchKey();
  return object;
}

/**
 * Reads an object's file. One that is replaced between reading its row and its file is found again.
 * @param find reads the row
 * @param use gets the row and opens its file
 * @throws StorageError NoSuchKey; FileMissing when a row has no file
 */
export async function withFile<T>(
  find: () => Promise<ObjectRow>,
  use: (object: ObjectRow) => Promise<T>,
): Promise<T> {
  try {
    return await use(await find());
  } catch (error) {
    if (!(error instanceof FileMissing)) throw error;
    return use(await find());
  }
}

/** `GET` and `HEAD` of an object. `expires`: seconds since 1970, of a signed URL. */
export function sendObject(
  context: StorageContext,
  call: Call,
  find: () => Promise<ObjectRow>,
  expires?: number,
): Promise<Response> {
  return withFile(find, async (object) => {
    const size = object.metadata?.size ?? 0;
    const headers = contentHeaders(call, object, object.metadata?.mimetype ?? 'application/octet-stream');
    headers.set('accept-ranges', 'bytes');
    if (expires !== undefined) headers.set('expires', new Date(expires * 1000).toUTCString());
    if (isUnchanged(call.request, headers)) return new Response(null, { status: 304, headers });

    const range = rangeOf(call.request, headers, size);
    if (range) headers.set('content-range', `bytes ${range.first}-${range.last}/${size}`);
    headers.set('content-length', String(range ? range.last - range.first + 1 : size));
    const status = range ? 206 : 200;
    if (call.request.method === 'HEAD') return new Response(null, { status, headers });
    const content = await context.files.read(fileName(context, object.version), range ?? undefined);
    return new Response(asBody(content), { status, headers });
  });
}

function asBody(content: Readable): ReadableStream<Uint8Array> {
  return NodeReadable.toWeb(content) as ReadableStream<Uint8Array>;
}

/** Headers of an object's content. */
export function contentHeaders(call: Call, object: ObjectRow, type: string): Headers {
  const { metadata } = object;
  const headers = new Headers({
    'content-type': type,
    etag: metadata?.eTag ?? `"${object.version}"`,
    'last-modified': new Date(metadata?.lastModified ?? object.updated_at).toUTCString(),
    'cache-control': metadata?.cacheControl ?? 'no-cache',
    'x-robots-tag': 'none',
    'x-content-type-options': 'nosniff',
  });
  // Active content must not run on our origin.
  if (!isInert(type)) headers.set('content-security-policy', `default-src 'none'; sandbox`);
  const name = call.url.searchParams.get('download');
  if (name !== null) headers.set('content-disposition', dispositionOf(name));
  return headers;
}

function isInert(type: string): boolean {
  const media = essence(type);
  if (media === 'image/svg+xml') return false;
  return /^(?:image|audio|video)\//.test(media) || media === 'application/pdf' || media === 'text/plain';
}

const maxNameLength = 200;

/**
 * The `Content-Disposition` of a download (RFC 6266).
 * @param name as the request writes it; without a usable character the browser takes the name from the URL
 */
export function dispositionOf(name: string): string {
  const usable = [...name.normalize()]
    // Control and formatting characters, which hide or reverse a part of the name; slashes would name a folder.
    .filter((character) => !/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u.test(character))
    .map((character) => (/[\\/]/.test(character) ? '_' : character))
    .join('')
    .trim();
  if (usable === '') return 'attachment';
  const encoded = encodeURIComponent(shortened(usable)).replace(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename=${encoded}; filename*=UTF-8''${encoded}`;
}

/** Cuts a long name before its extension: clients refuse long headers. */
function shortened(name: string): string {
  const characters = [...name];
  if (characters.length <= maxNameLength) return name;
  const extension = [...(/\.\w{1,10}$/.exec(name)?.[0] ?? '')];
  return [...characters.slice(0, maxNameLength - extension.length), ...extension].join('');
}

/** Whether the sender of a request has this content already (RFC 9110 §13). */
export function isUnchanged(request: Request, headers: Headers): boolean {
  const ifNoneMatch = request.headers.get('if-none-match');
  const etag = headers.get('etag') ?? '';
  if (ifNoneMatch !== null) {
    return (
      ifNoneMatch.trim() === '*' ||
      ifNoneMatch.split(',').some((one) => one.trim().replace(/^W\//, '') === etag)
    );
  }
  const since = Date.parse(request.headers.get('if-modified-since') ?? '');
  return since >= Date.parse(headers.get('last-modified') ?? '');
}

/**
 * The requested range, or null for the whole. Multiple ranges and other units get the whole.
 * @throws StorageError InvalidRange when it is outside the content
 */
function rangeOf(request: Request, headers: Headers, size: number): ByteRange | null {
  const condition = request.headers.get('if-range');
  if (condition !== null && condition !== headers.get('etag') && condition !== headers.get('last-modified')) {
    return null;
  }
  const [, from, to] = /^bytes=(\d*)-(\d*)$/.exec(request.headers.get('range')?.trim() ?? '') ?? [];
  if (from === undefined || to === undefined || (from === '' && to === '')) return null;
  const first = from === '' ? Math.max(0, size - Number(to)) : Number(from);
  const last = from === '' || to === '' ? size - 1 : Math.min(Number(to), size - 1);
  if (from !== '' && to !== '' && Number(to) < Number(from)) return null;
  if (first >= size || (from === '' && Number(to) === 0)) throw storageErrors.range(size);
  return { first, last };
}

/** `GET` and `HEAD /object/info/…` */
export async function sendInfo(call: Call, find: () => Promise<ObjectRow>): Promise<Response> {
  const object = await find();
  const { metadata } = object;
  if (call.request.method === 'HEAD') {
    const headers = contentHeaders(call, object, metadata?.mimetype ?? 'application/octet-stream');
    headers.set('content-length', String(metadata?.size ?? 0));
    return new Response(null, { status: 200, headers });
  }
  return Response.json({
    id: object.id,
    name: object.name,
    version: object.version,
    bucket_id: object.bucket_id,
    size: metadata?.size ?? null,
    content_type: metadata?.mimetype ?? null,
    cache_control: metadata?.cacheControl ?? null,
    etag: metadata?.eTag ?? null,
    metadata: object.user_metadata ?? {},
    last_modified: metadata?.lastModified ?? object.updated_at,
    created_at: object.created_at,
  });
}
