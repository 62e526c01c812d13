// Uploads: checks the caller's rights, writes the content to a work file, stores the file, then writes the row. A process
// killed anywhere between leaves a file without a row, which the sweep removes, never a row without a file.
import type { Readable } from 'node:stream';
import { Busboy, type BusboyInstance } from '@fastify/busboy';
import type { Claims } from '../../database/as-role.ts';
import { isUnavailable } from '../../database/database.ts';
import { clientOf } from '../../limits/fair-share.ts';
import { isStorable } from '../../storable.ts';
import {
  asCaller,
  asService,
  type Call,
  fileName,
  ownerOf,
  removeFiles,
  type StorageContext,
} from '../context.ts';
import { discard, type WorkFile, writeWorkFile } from '../files/work-file.ts';
import { checkedBucketName, checkedKey, essence, storableCacheControl, storableType } from '../names.ts';
import { findBucket, type NewObject, type ObjectMetadata, tryWriteObject, writeObject } from '../rows.ts';
import { StorageError, storageErrors } from '../storage-error.ts';
import { accept, type BucketLimits, checkType, sizeLimit } from './content.ts';
import { openBody, type RequestBody } from './request-body.ts';

/** Target and owner of an upload. */
export interface Target {
  bucket: string;
  key: string;
  upsert: boolean;
  claims: Claims;
  owner: string | null;
  ownerId: string | null;
}

/** A target in the caller's own name. */
export function ownTarget(call: Call, bucket: string, key: string, upsert: boolean): Target {
  const { claims } = call.caller;
  return { bucket, key, upsert, claims, ...ownerOf(claims) };
}

/** The target of a signed URL, owned by its creator, whose rights were checked then. */
export function signedTarget(bucket: string, key: string, upsert: boolean, owner: string | null): Target {
  return {
    bucket,
    key,
    upsert,
    claims: { role: 'service_role' },
    ...ownerOf(owner === null ? { role: '' } : { role: '', sub: owner }),
  };
}

/**
 * Checks names, the bucket, and the caller's right to write the row, before any content is read.
 * @returns the accepted content
 * @throws StorageError, DatabaseError as writing the row would
 */
export async function checkTarget(
  context: StorageContext,
  call: Call,
  target: Target,
): Promise<BucketLimits> {
  checkedBucketName(target.bucket);
  checkedKey(target.key);
  // A bucket's restrictions apply to everyone, also to callers who may not see the bucket.
  const bucket = await asService(context, call, (session) => findBucket(session, target.bucket));
  if (!bucket) throw storageErrors.noSuchBucket();
  await tryWriteObject(
    (work) => asCaller(context, { ...call, claims: target.claims }, work),
    rowOf(target, crypto.randomUUID(), null, null),
    target.upsert,
  );
  return bucket;
}

function rowOf(
  { bucket, key, owner, ownerId }: Target,
  version: string,
  metadata: ObjectMetadata | null,
  userMetadata: Record<string, unknown> | null,
): NewObject {
  return { bucket, key, owner, ownerId, version, metadata, userMetadata };
}

export interface Described {
  type: string;
  cacheControl: string;
  userMetadata: Record<string, unknown> | null;
}

/**
 * Creates an object from uploaded content.
 * @param file a work file; deleted afterwards in any case
 * @throws StorageError, DatabaseError
 */
export async function storeObject(
  context: StorageContext,
  call: Call,
  target: Target,
  bucket: BucketLimits,
  file: WorkFile,
  described: Described,
): Promise<{ Id: string; Key: string }> {
  const accepted = await accept(context, bucket, file, described, clientOf(call.caller));
  const version = crypto.randomUUID();
  try {
    await context.files.put(fileName(context, version), accepted.file.path);
  } catch (error) {
    await discard(accepted.file);
    throw error;
  }
  let written: { id: string; replaced: string | null };
  try {
    written = await asCaller(context, { ...call, claims: target.claims }, (session) =>
      writeObject(session, rowOf(target, version, accepted.metadata, described.userMetadata), target.upsert),
    );
  } catch (error) {
    // After a lost connection it is unknown whether the row exists: the cleanup of orphans decides.
    if (!isUnavailable(error)) await removeFiles(context, [version]);
    throw error;
  }
  if (written.replaced) await removeFiles(context, [written.replaced]);
  return { Id: written.id, Key: `${target.bucket}/${target.key}` };
}

/**
 * `POST` and `PUT /object/{bucket}/{key}` and uploads to a signed URL.
 * @throws StorageError, DatabaseError; the client receives it even in the middle of a large body
 */
export async function upload(context: StorageContext, call: Call, target: Target): Promise<Response> {
  const body = openBody(call.request);
  try {
    const bucket = await checkTarget(context, call, target);
    const { file, described } = await receive(context, call.request, body, bucket);
    return Response.json(await storeObject(context, call, target, bucket, file, described));
  } catch (error) {
    await body.drain();
    throw error;
  }
}

async function receive(
  context: StorageContext,
  request: Request,
  body: RequestBody,
  bucket: BucketLimits,
): Promise<{ file: WorkFile; described: Described }> {
  const limit = sizeLimit(context, bucket);
  const sentType = request.headers.get('content-type');
  if (essence(sentType ?? '') === 'multipart/form-data') {
    return receiveForm(context.files.workFolder, sentType ?? '', body, bucket, limit);
  }
  const type = storableType(sentType);
  refuseContentEncoding(request.headers.get('content-encoding'));
  checkType(bucket, type);
  if (Number(request.headers.get('content-length') ?? 0) > limit) throw storageErrors.tooLarge();
  const described = {
    type,
    cacheControl: storableCacheControl(request.headers.get('cache-control')),
    userMetadata: readUserMetadata(request.headers.get('x-metadata'), 'base64'),
  };
  return { file: await writeWorkFile(context.files.workFolder, body.chunks(), limit), described };
}

/**
 * Refuses encoded content: it would be served without its `Content-Encoding`, and readers would get compressed bytes as text.
 * @throws StorageError
 */
export function refuseContentEncoding(encoding: string | null): void {
  if (encoding && encoding.trim().toLowerCase() !== 'identity')
    throw storageErrors.notSupported('contentEncoding');
}

/**
 * Reads metadata of the sender's own.
 * @throws StorageError when it is not a JSON object
 */
export function readUserMetadata(
  text: string | null,
  encoding: 'base64' | 'plain',
): Record<string, unknown> | null {
  if (!text) return null;
  try {
    const value: unknown = JSON.parse(encoding === 'base64' ? Buffer.from(text, 'base64').toString() : text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value) && isStorable(value)) {
      return value as Record<string, unknown>;
    }
  } catch {
    // Reported below.
  }
  throw storageErrors.request('metadata must be a JSON object that PostgreSQL can store');
}

async function receiveForm(
  workFolder: string,
  contentType: string,
  body: RequestBody,
  bucket: BucketLimits,
  limit: number,
): Promise<{ file: WorkFile; described: Described }> {
  const fields = new Map<string, string>();
  let fileType: string | null = null;
  let writing: Promise<WorkFile> | null = null;
  let part: Readable | null = null;
  const unreadable = (error: unknown) =>
    error instanceof StorageError
      ? error
      : storageErrors.request(`The form cannot be read: ${(error as Error)?.message ?? 'it is broken'}`);

  let form: BusboyInstance;
  try {
    form = new Busboy({
      headers: { 'content-type': contentType },
      limits: { files: 1, fields: 20, fieldSize: 64 * 1024, parts: 40, headerPairs: 100 },
    });
  } catch (error) {
    throw unreadable(error);
  }
  // Form and part may emit errors repeatedly and at any time: without a listener they end the process.
  const broken = new Promise<never>((_, fail) => {
    form.on('error', (error) => fail(unreadable(error)));
    form.on('file', (_field, content, _fileName, _encoding, type) => {
      fileType = type;
      part = content;
      content.on('error', () => {});
      writing = (async () => {
        checkType(bucket, storableType(fields.get('contentType') ?? type));
        return writeWorkFile(workFolder, content, limit);
      })();
      writing.catch((error) => fail(unreadable(error)));
    });
  });
  broken.catch(() => {});
  const finished = new Promise<void>((done) => form.once('finish', () => done()));
  form.on('field', (name: string, value: string) => fields.set(name, value));
  try {
    for await (const chunk of body.chunks()) {
      if (form.write(chunk)) await Promise.race([broken, Promise.resolve()]);
      else await Promise.race([broken, new Promise<void>((go) => form.once('drain', () => go()))]);
    }
    form.end();
    await Promise.race([broken, finished]);
    if (!writing) throw storageErrors.request('The form has no file');
    const file = await (writing as Promise<WorkFile>);
    const type = storableType(fields.get('contentType') ?? fileType);
    checkType(bucket, type);
    refuseContentEncoding(fields.get('contentEncoding') ?? null);
    const seconds = fields.get('cacheControl');
    const described = {
      type,
      cacheControl: storableCacheControl(seconds ? `max-age=${seconds}` : null),
      userMetadata: readUserMetadata(fields.get('metadata') ?? null, 'plain'),
    };
    return { file, described };
  } catch (error) {
    // A truncated form does not end the part it was truncated in.
    (part as Readable | null)?.destroy(error as Error);
    const written = await (writing as Promise<WorkFile> | null)?.catch(() => null);
    if (written) await discard(written);
    throw error;
  }
}
