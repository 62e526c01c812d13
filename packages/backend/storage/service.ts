// The storage service: routes requests to operations, and checks access.
import { mkdir } from 'node:fs/promises';
import type { Caller, Service } from '../caller.ts';
import { type Database, isUnavailable } from '../database/database.ts';
import { type FairQueue, isQueueRejection } from '../limits/fair-queue.ts';
import { createFairShare } from '../limits/fair-share.ts';
import { isStorableText } from '../storable.ts';
import { createBucket, deleteBucket, emptyBucket, getBucket, listBuckets, updateBucket } from './buckets.ts';
import type { Call, StorageContext, StorageSettings } from './context.ts';
import { type Access, findReadable, sendInfo, sendObject } from './download.ts';
import { removeOlderThan } from './files/disk-files.ts';
import { FileMissing, type FileStore } from './files/file-store.ts';
import { readInstallation, renderedFolder, resumableFolder, sweepOrphans } from './files/orphans.ts';
import { createImageProcess, type ImageProcess } from './images/image-process.ts';
import { createImageWork } from './images/images.ts';
import {
  checkAnonymousRendering,
  parseRenderOptions,
  readRenderOptions,
  sendRendered,
} from './images/render.ts';
import { createRenderedImages } from './images/rendered-images.ts';
import { listObjects, listObjectsV2 } from './listing.ts';
import { copyObject, moveObject, removeObject, removeObjects } from './objects.ts';
import { signMany, signOne, signUpload } from './signing.ts';
import {
  answerError,
  answerUnknownRoute,
  asStorageError,
  StorageError,
  storageErrors,
} from './storage-error.ts';
import type { ResumableUploads } from './uploads/resumable.ts';
import { ownTarget, signedTarget, upload } from './uploads/upload.ts';
import { createUrlTokens } from './url-tokens.ts';

export interface StorageOptions {
  database: Database;
  files: FileStore;
  /** Secret of signed URLs; a new secret invalidates them. */
  signingSecret: string | Uint8Array;
  settings?: Partial<StorageSettings>;
  /** The queue for image processing. Default: a new queue. */
  imageQueue?: FairQueue;
  /** The process for it, which the caller closes. Default: one of its own. */
  imageProcess?: ImageProcess;
  /** Receives errors whose details no caller sees. */
  onError?: (error: unknown, request?: Request) => void;
}

export interface StorageService extends Service {
  close(): Promise<void>;
}

const usual: StorageSettings = {
  fileSizeLimit: 50 * 1024 * 1024,
  pixelLimit: 50_000_000,
  uploadUrlSeconds: 2 * 60 * 60,
  resumableSeconds: 24 * 60 * 60,
  anonymousJsonBytes: 1024 * 1024,
  anonymousSides: null,
  renderedBytes: 512 * 1024 * 1024,
};

const sweepEveryMs = 60 * 60 * 1000;
// No upload is that long between its file and its row.
const orphanAgeMs = 6 * 60 * 60 * 1000;

/**
 * Creates the service; orphaned files are deleted now and every hour.
 * @throws DatabaseError when the storage schema cannot be read; a disk error when the work folder cannot be created
 */
export async function createStorageService(options: StorageOptions): Promise<StorageService> {
  const { database, files, signingSecret, onError = () => {} } = options;
  const { imageQueue = createFairShare(database.kind).images } = options;
  const imageProcess = options.imageProcess ?? createImageProcess();
  const settings: StorageSettings = { ...usual, ...options.settings };
  await mkdir(files.workFolder, { recursive: true, mode: 0o700 });
  const context: StorageContext = {
    database,
    files,
    installation: await readInstallation(database),
    settings,
    tokens: createUrlTokens(signingSecret),
    images: createImageWork({
      pixelLimit: settings.pixelLimit,
      queue: imageQueue,
      process: imageProcess,
      onError,
    }),
    rendered: createRenderedImages(renderedFolder(files), settings.renderedBytes),
    onError,
  };
  // The library is loaded by the first resumable upload.
  let uploads: Promise<ResumableUploads> | null = null;
  const openUploads = async () => (await import('./uploads/resumable.ts')).createResumableUploads(context);
  const resumable = async (call: Call, isSigned: boolean) => {
    uploads ??= openUploads().catch((error) => {
      uploads = null;
      throw error;
    });
    return (await uploads).fetch(call, isSigned);
  };

  let sweeping: Promise<unknown> = Promise.resolve();
  const sweep = () => {
    sweeping = (async () => {
      await sweepOrphans(database, files, context.installation, new Date(Date.now() - orphanAgeMs));
      await removeOlderThan(resumableFolder(files), new Date(Date.now() - settings.resumableSeconds * 1000));
    })().catch((error) => onError(error));
  };
  sweep();
  const timer = setInterval(sweep, sweepEveryMs);
  timer.unref();

  const route = createRouter(context, resumable);
  return {
    policy: { badToken: 'reported' },
    async fetch(request, caller) {
      try {
        return await route(request, caller);
      } catch (error) {
        if (isQueueRejection(error)) throw error;
        const answered = asStorageError(error) ?? unexpected(error, request, onError);
        const answer = answerError(answered);
        return request.method === 'HEAD' ? new Response(null, answer) : answer;
      }
    },
    async close() {
      clearInterval(timer);
      if (!options.imageProcess) await imageProcess.close();
      await sweeping;
    },
  };
}

function unexpected(
  error: unknown,
  request: Request,
  onError: (error: unknown, request: Request) => void,
): StorageError {
  if (!request.signal.aborted) onError(error, request);
  if (isUnavailable(error)) return storageErrors.unavailable();
  // A row that SQL has written, or a file that was lost.
  if (error instanceof FileMissing) return storageErrors.noSuchKey();
  return new StorageError({
    statusCode: 500,
    error: 'Internal',
    message: 'Something went wrong on our side',
    code: 'InternalError',
    status: 500,
  });
}

type Handler = (call: Call, bucket: string, key: string) => Promise<Response> | Response;

/** @param isOpen whether callers without an acceptable token may pass */
const routeKind =
  (isOpen: boolean) =>
  /** @param path in which `{bucket}` is one part, `{key}` all that is left */
  (methods: string, path: string, operation: string, handle: Handler) => {
    const source = path.replace('{bucket}', '(?<bucket>[^/]+)').replace('{key}', '(?<key>.+)');
    return { methods, pattern: new RegExp(`^${source}/?$`), operation, isOpen, handle };
  };
const open = routeKind(true);
const checked = routeKind(false);

function createRouter(
  context: StorageContext,
  resumable: (call: Call, isSigned: boolean) => Promise<Response>,
): (request: Request, caller: Caller) => Promise<Response> {
  const to =
    (operation: (context: StorageContext, ...call: Parameters<Handler>) => ReturnType<Handler>): Handler =>
    (...call) =>
      operation(context, ...call);
  const object = (access: Access) => (call: Call, bucket: string, key: string) =>
    sendObject(context, call, () => findReadable(context, call, access, bucket, key));
  const info = (access: Access) => (call: Call, bucket: string, key: string) =>
    sendInfo(call, () => findReadable(context, call, access, bucket, key));
  const rendered = (access: Access) => async (call: Call, bucket: string, key: string) => {
    const requested = readRenderOptions((name) => call.url.searchParams.get(name), 'querystring');
    if (call.caller.claims.role === 'anon') checkAnonymousRendering(requested, context.settings);
    return sendRendered(context, call, () => findReadable(context, call, access, bucket, key), requested);
  };
  // Without an acceptable token it is handled like the public URL.
  const ownOrPublic = (call: Call): Access => (call.caller.tokenError ? 'public' : 'caller');
  const tokenOf = (call: Call): string => {
    const token = call.url.searchParams.get('token');
    if (!token) throw storageErrors.request(`querystring must have required property 'token'`);
    return token;
  };
  const signedObject: Handler = async (call, bucket, key) => {
    const token = await context.tokens.verifyDownload(tokenOf(call), `${bucket}/${key}`);
    // A URL of a small rendering must not give access to the original.
    if (token.transformations !== undefined) throw storageErrors.wrongSignature();
    const find = () => findReadable(context, call, 'signed', bucket, key);
    return sendObject(context, call, find, token.exp);
  };
  const signedRendering: Handler = async (call, bucket, key) => {
    const token = await context.tokens.verifyDownload(tokenOf(call), `${bucket}/${key}`);
    const find = () => findReadable(context, call, 'signed', bucket, key);
    return sendRendered(context, call, find, parseRenderOptions(token.transformations ?? ''), token.exp);
  };
  const signedUpload: Handler = async (call, bucket, key) => {
    const token = await context.tokens.verifyUpload(tokenOf(call), `${bucket}/${key}`);
    return upload(context, call, signedTarget(bucket, key, token.upsert, token.owner));
  };
  const ownUpload: Handler = (call, bucket, key) => {
    const isUpsert = call.request.method === 'PUT' || call.request.headers.get('x-upsert') === 'true';
    return upload(context, call, ownTarget(call, bucket, key, isUpsert));
  };
  const ownPart: Handler = (call) => resumable(call, false);
  const signedPart: Handler = (call) => resumable(call, true);

  const routes = [
    open('GET', '/status', 'status', () => new Response(null, { status: 200 })),
    open('GET', '/version', 'version', () => new Response('1.0.0')),

    checked('POST', '/bucket', 'storage.bucket.create', to(createBucket)),
    checked('GET', '/bucket', 'storage.bucket.list', to(listBuckets)),
    checked('GET', '/bucket/{bucket}', 'storage.bucket.get', to(getBucket)),
    checked('PUT', '/bucket/{bucket}', 'storage.bucket.update', to(updateBucket)),
    checked('DELETE', '/bucket/{bucket}', 'storage.bucket.delete', to(deleteBucket)),
    checked('POST', '/bucket/{bucket}/empty', 'storage.bucket.empty', to(emptyBucket)),

    checked('POST', '/object/move', 'storage.object.move', to(moveObject)),
    checked('POST', '/object/copy', 'storage.object.copy', to(copyObject)),
    checked('POST', '/object/list/{bucket}', 'storage.object.list', to(listObjects)),
    checked('POST', '/object/list-v2/{bucket}', 'storage.object.list_v2', to(listObjectsV2)),
    checked('POST', '/object/sign/{bucket}', 'storage.object.sign_many', to(signMany)),
    checked('POST', '/object/sign/{bucket}/{key}', 'storage.object.sign', to(signOne)),
    open('GET HEAD', '/object/sign/{bucket}/{key}', 'storage.object.get_signed', signedObject),
    checked('POST', '/object/upload/sign/{bucket}/{key}', 'storage.object.sign_upload_url', to(signUpload)),
    open('PUT', '/object/upload/sign/{bucket}/{key}', 'storage.object.upload_signed', signedUpload),
    open('GET HEAD', '/object/info/public/{bucket}/{key}', 'storage.object.info_public', info('public')),
    checked(
      'GET HEAD',
      '/object/info/authenticated/{bucket}/{key}',
      'storage.object.info_authenticated',
      info('caller'),
    ),
    checked('GET HEAD', '/object/info/{bucket}/{key}', 'storage.object.info_authenticated', info('caller')),
    open('GET HEAD', '/object/public/{bucket}/{key}', 'storage.object.get_public', object('public')),
    checked(
      'GET HEAD',
      '/object/authenticated/{bucket}/{key}',
      'storage.object.get_authenticated',
      object('caller'),
    ),
    open('GET HEAD', '/object/{bucket}/{key}', 'storage.object.get_authenticated', (call, bucket, key) =>
      object(ownOrPublic(call))(call, bucket, key),
    ),
    checked('POST', '/object/{bucket}/{key}', 'storage.object.upload', ownUpload),
    checked('PUT', '/object/{bucket}/{key}', 'storage.object.upload_update', ownUpload),
    checked('DELETE', '/object/{bucket}', 'storage.object.delete_many', to(removeObjects)),
    checked('DELETE', '/object/{bucket}/{key}', 'storage.object.delete', to(removeObject)),

    open(
      'GET HEAD',
      '/render/image/public/{bucket}/{key}',
      'storage.render.image_public',
      rendered('public'),
    ),
    checked(
      'GET HEAD',
      '/render/image/authenticated/{bucket}/{key}',
      'storage.render.image_authenticated',
      rendered('caller'),
    ),
    open('GET HEAD', '/render/image/sign/{bucket}/{key}', 'storage.render.image_sign', signedRendering),

    open('OPTIONS', '/upload/resumable', 'storage.tus.options', ownPart),
    open('OPTIONS', '/upload/resumable/{key}', 'storage.tus.options', ownPart),
    open('POST', '/upload/resumable/sign', 'storage.tus.upload.create_signed', signedPart),
    open('HEAD PATCH DELETE', '/upload/resumable/sign/{key}', 'storage.tus.upload.part_signed', signedPart),
    checked('POST', '/upload/resumable', 'storage.tus.upload.create', ownPart),
    checked('HEAD PATCH DELETE', '/upload/resumable/{key}', 'storage.tus.upload.part', ownPart),

    checked('DELETE', '/cdn/{bucket}/{key}', 'storage.object.purge_cache', () => {
      throw new StorageError({
        statusCode: 400,
        error: 'MissingParameter',
        message: 'Missing Required Parameter CDN_PURGE_ENDPOINT_URL is not set',
        code: 'MissingParameter',
      });
    }),
  ];

  return async (request, caller) => {
    const url = new URL(request.url);
    const path = url.pathname.slice('/storage/v1'.length);
    for (const { methods, pattern, operation, isOpen, handle } of routes) {
      const match = pattern.exec(path);
      if (!match || !methods.split(' ').includes(request.method)) continue;
      if (!isOpen && caller.tokenError) throw faultOf(caller.tokenError);
      if (url.searchParams.has('versionId')) throw storageErrors.notSupported('querystring/versionId');
      const { bucket = '', key = '' } = match.groups ?? {};
      const call: Call = { request, url, caller, operation };
      return handle(call, decoded(bucket), decoded(key));
    }
    return answerUnknownRoute(request);
  };
}

function decoded(part: string): string {
  try {
    const plain = decodeURIComponent(part);
    if (isStorableText(plain)) return plain;
  } catch {
    // Reported below.
  }
  throw storageErrors.key(part);
}

/** The storage API's response to a missing or invalid token, with its texts. */
function faultOf({ token, message }: NonNullable<Caller['tokenError']>): StorageError {
  // Without a token a gateway passes an empty one on.
  if (token?.split('.', 4).length !== 3) return storageErrors.accessDenied('Invalid Compact JWS');
  if (message === 'JWT expired') return storageErrors.accessDenied('"exp" claim timestamp check failed');
  try {
    JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString());
    return storageErrors.accessDenied('signature verification failed');
  } catch {
    return storageErrors.accessDenied('JWS Protected Header is invalid');
  }
}
