// Resumable uploads (TUS 1.0.0): the library implements the protocol; rights and storage are ours.
// Parts are gathered in a folder, which processes may share: each request of an upload may reach another one.
import { access, copyFile, link, mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { FileStore as TusFiles } from '@tus/file-store';
import { ERRORS, Server, type Upload } from '@tus/server';
import { isUnavailable } from '../../database/database.ts';
import { writeDurably } from '../../durable-file.ts';
import { isQueueRejection, queueRejectionStatus } from '../../limits/fair-queue.ts';
import { type Call, ownerOf, type StorageContext } from '../context.ts';
import { resumableFolder } from '../files/orphans.ts';
import { discard, measureWorkFile, newWorkPath } from '../files/work-file.ts';
import { storableCacheControl, storableType } from '../names.ts';
import { findBucket } from '../rows.ts';
import { asStorageError, storageErrors } from '../storage-error.ts';
import { type BucketLimits, checkType, sizeLimit } from './content.ts';
import {
  checkTarget,
  type Described,
  ownTarget,
  readUserMetadata,
  refuseContentEncoding,
  signedTarget,
  storeObject,
  type Target,
} from './upload.ts';
import { createUploadLocks } from './upload-locks.ts';

export interface ResumableUploads {
  /** Handles a request below `/upload/resumable`. `isSigned`: authorised by `x-signature`. */
  fetch(call: Call, isSigned: boolean): Promise<Response>;
}

interface Incoming {
  call: Call;
  isSigned: boolean;
  bucket?: BucketLimits;
}

type Metadata = Record<string, string | null>;
const path = '/storage/v1/upload/resumable';

/** Puts the protocol's server together. */
export async function createResumableUploads(context: StorageContext): Promise<ResumableUploads> {
  const folder = resumableFolder(context.files);
  await mkdir(folder, { recursive: true });
  const parts = new TusFiles({
    directory: folder,
    expirationPeriodInMilliseconds: context.settings.resumableSeconds * 1000,
  });
  const locker = createUploadLocks(folder);
  // The library passes only the request object to its hooks; this map has the other data of the request.
  const incoming = new WeakMap<object, Incoming>();
  const finishing = new Map<string, Promise<void>>();
  const incomingOf = (request: object): Incoming => {
    const found = incoming.get(request);
    if (!found) throw new Error('the request is unknown');
    return found;
  };
  const donePath = (id: string) => join(folder, `${id}.done`);

  const targetOf = async (
    { call, isSigned }: Incoming,
    bucket: string,
    key: string,
    upsert: boolean,
  ): Promise<Target> => {
    if (!isSigned) return ownTarget(call, bucket, key, upsert);
    const signature = call.request.headers.get('x-signature');
    if (!signature) throw storageErrors.invalidToken('The header x-signature is missing');
    const token = await context.tokens.verifyUpload(signature, `${bucket}/${key}`);
    return signedTarget(bucket, key, token.upsert, token.owner);
  };

  const finish = (incomingRequest: Incoming, upload: Upload): Promise<void> => {
    const running = finishing.get(upload.id);
    if (running) return running;
    const job = finishOnce(incomingRequest, upload).finally(() => finishing.delete(upload.id));
    finishing.set(upload.id, job);
    return job;
  };
  // Another process may be finishing it, or have done so. A complete upload is stored even if its client has disconnected.
  const finishOnce = async (request: Incoming, upload: Upload): Promise<void> => {
    const lock = locker.newLock(upload.id);
    await lock.lock(new AbortController().signal, () => {});
    try {
      const isDone = await readFile(donePath(upload.id)).catch(() => null);
      if (isDone === null) await storeParts(request, upload);
    } finally {
      await lock.unlock();
    }
  };
  const storeParts = async (request: Incoming, upload: Upload): Promise<void> => {
    const metadata: Metadata = upload.metadata ?? {};
    const { bucketName, objectName } = namesIn(metadata);
    const target = await targetOf(request, bucketName, objectName, metadata.upsert === 'true');
    const bucket = await findBucket(context.database, bucketName);
    if (!bucket) throw storageErrors.noSuchBucket();
    const source = join(folder, upload.id);
    const copy = newWorkPath(context.files.workFolder);
    // The parts stay until the row exists: after a kill the client can finish the upload again.
    await link(source, copy).catch(() => copyFile(source, copy));
    try {
      const file = await measureWorkFile(copy);
      await storeObject(context, request.call, target, bucket, file, describedIn(metadata));
    } catch (error) {
      await discard({ path: copy });
      // A rejected upload would be rejected again, except by a busy database.
      if ((asStorageError(error)?.statusCode ?? 500) < 500) await parts.remove(upload.id).catch(() => {});
      throw error;
    }
    await writeDurably(donePath(upload.id), String(upload.size ?? 0));
  };
  // Once the response exists: the library still reads the parts of an upload that its creation completes.
  const removeStoredParts = async (id: string | undefined): Promise<void> => {
    if (id === undefined) return;
    await access(donePath(id)).then(
      () => parts.remove(id).catch(() => {}),
      () => {},
    );
  };

  const server = new Server({
    path,
    datastore: parts,
    locker,
    allowedOrigins: () => false,
    maxSize: async (request, id) => {
      const { bucket } = incoming.get(request) ?? {};
      if (bucket) return sizeLimit(context, bucket);
      const upload = id ? await parts.getUpload(id).catch(() => null) : null;
      const found = upload
        ? await findBucket(context.database, namesIn(upload.metadata ?? {}).bucketName)
        : null;
      return found ? sizeLimit(context, found) : context.settings.fileSizeLimit;
    },
    namingFunction: async (request, metadata = {}) => {
      const from = incomingOf(request);
      const { bucketName, objectName } = namesIn(metadata);
      const upsert = request.headers.get('x-upsert') === 'true';
      const target = await targetOf(from, bucketName, objectName, upsert);
      refuseContentEncoding(metadata.contentEncoding ?? null);
      const bucket = await checkTarget(context, from.call, target);
      checkType(bucket, describedIn(metadata).type);
      from.bucket = bucket;
      return crypto.randomUUID();
    },
    onUploadCreate: async (request, upload) => {
      const { call } = incomingOf(request);
      return {
        metadata: {
          ...upload.metadata,
          upsert: String(request.headers.get('x-upsert') === 'true'),
          owner: senderOf(call),
        },
      };
    },
    onIncomingRequest: async (request, id) => {
      const from = incomingOf(request);
      if (request.method === 'POST') return;
      const { metadata } = await parts.getUpload(id);
      const { bucketName, objectName } = namesIn(metadata ?? {});
      // Signed: the signature must be for this very object.
      await targetOf(from, bucketName, objectName, false);
      const { claims } = from.call.caller;
      const isOwner = senderOf(from.call) === metadata?.owner;
      if (!from.isSigned && !isOwner && claims.role !== 'service_role') throw storageErrors.accessDenied();
    },
    onUploadFinish: async (request, upload) => {
      await finish(incomingOf(request), upload);
      return {};
    },
    generateUrl: (request, { id }) => {
      const { call, isSigned } = incomingOf(request);
      const { bucketName, objectName } = namesIn(metadataOf(request));
      const name = Buffer.from(`${bucketName}/${objectName}/${id}`).toString('base64url');
      return `${originOf(call.request)}${path}${isSigned ? '/sign' : ''}/${name}`;
    },
    getFileIdFromRequest: (_request, last) => idIn(last),
    onResponseError: (_request, error) => {
      if (error === ERRORS.ERR_LOCK_TIMEOUT) {
        return { status_code: 423, body: 'The upload is locked by another request' };
      }
      if (isQueueRejection(error)) return { status_code: queueRejectionStatus(error), body: error.message };
      const found = asStorageError(error);
      if (found) return { status_code: found.statusCode, body: found.message };
      if (!(error instanceof Error)) return undefined;
      context.onError(error);
      if (isUnavailable(error)) return { status_code: 503, body: storageErrors.unavailable().message };
      return { status_code: 500, body: 'Something went wrong on our side' };
    },
  });

  return {
    async fetch(call, isSigned) {
      const from: Incoming = { call, isSigned };
      incoming.set(call.request, from);
      if (call.request.method !== 'HEAD') {
        const response = await server.handleWeb(call.request);
        await removeStoredParts(
          idIn((response.headers.get('location') ?? call.url.pathname).split('/').at(-1)),
        );
        return response;
      }

      // The last response may have been lost, or its process killed: the next request receives the result.
      const id = idIn(call.url.pathname.split('/').at(-1));
      const readDone = async () => (id ? readFile(donePath(id), 'utf8').catch(() => null) : null);
      const done = await readDone();
      if (done !== null) return answerDone(done);
      const response = await server.handleWeb(call.request);
      // It may have been finished in the meantime, which removes its parts.
      const doneSince = response.status === 200 ? null : await readDone();
      if (doneSince !== null) return answerDone(doneSince);
      const length = response.headers.get('upload-length');
      if (!id || response.status !== 200 || length !== response.headers.get('upload-offset')) return response;
      try {
        await finish(from, await parts.getUpload(id));
      } catch (error) {
        const found = asStorageError(error);
        if (!found) throw error;
        return new Response(null, { status: found.statusCode, headers: { 'tus-resumable': '1.0.0' } });
      }
      await removeStoredParts(id);
      return response;
    },
  };
}

/** The sender that may continue an upload. Without an account, the sender is the role. */
function senderOf({ caller: { claims } }: Call): string {
  return ownerOf(claims).ownerId ?? `role ${claims.role}`;
}

function metadataOf(request: Pick<Request, 'headers'>): Metadata {
  const pairs = (request.headers.get('upload-metadata') ?? '').split(',').map((pair): [string, string] => {
    const [name = '', value = ''] = pair.trim().split(' ');
    return [name, Buffer.from(value, 'base64').toString()];
  });
  return Object.fromEntries(pairs);
}

function namesIn({ bucketName, objectName }: Metadata): { bucketName: string; objectName: string } {
  if (!bucketName) throw storageErrors.request(`upload-metadata must have required property 'bucketName'`);
  if (!objectName) throw storageErrors.request(`upload-metadata must have required property 'objectName'`);
  return { bucketName, objectName };
}

function describedIn({ contentType = null, cacheControl, metadata = null }: Metadata): Described {
  return {
    type: storableType(contentType),
    cacheControl: storableCacheControl(cacheControl ? `max-age=${cacheControl}` : null),
    userMetadata: readUserMetadata(metadata, 'plain'),
  };
}

/** The upload id in the URL's last segment, base64url of `{bucket}/{key}/{id}`. */
function idIn(last: string | undefined): string | undefined {
  const id = Buffer.from(last ?? '', 'base64url')
    .toString()
    .split('/')
    .at(-1);
  return id && /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id) ? id : undefined;
}

function originOf(request: Request): string {
  const url = new URL(request.url);
  const forwarded = request.headers.get('x-forwarded-proto');
  const protocol = forwarded === 'https' || forwarded === 'http' ? `${forwarded}:` : url.protocol;
  return `${protocol}//${request.headers.get('host') ?? url.host}`;
}

function answerDone(size: string): Response {
  return new Response(null, {
    headers: {
      'tus-resumable': '1.0.0',
      'upload-offset': size,
      'upload-length': size,
      'cache-control': 'no-store',
    },
  });
}
