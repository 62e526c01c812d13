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

interface Route {
  methods: string;
  /** `{bucket}` is one part, `{key}` all that is left. */
  path: string;
  operation: string;
  /** Whether callers without an acceptable token may pass. */
  isOpen?: boolean;
  handle: Handler;
}

function createRouter(
  context: StorageContext,
  resumable: (call: Call, isSigned: boolean) => Promise<Response>,
): (request: Request, caller: Caller) => Promise<Response> {
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
  const isUpsert = (call: Call) => call.request.headers.get('x-upsert') === 'true';

  const routes = compile([
    {
      methods: 'GET',
      path: '/status',
      operation: 'status',
      isOpen: true,
      handle: () => new Response(null, { status: 200 }),
    },
    {
      methods: 'GET',
      path: '/version',
      operation: 'version',
      isOpen: true,
      handle: () => new Response('1.0.0'),
    },

    {
      methods: 'POST',
      path: '/bucket',
      operation: 'storage.bucket.create',
      handle: (call) => createBucket(context, call),
    },
    {
      methods: 'GET',
      path: '/bucket',
      operation: 'storage.bucket.list',
      handle: (call) => listBuckets(context, call),
    },
    {
      methods: 'GET',
      path: '/bucket/{bucket}',
      operation: 'storage.bucket.get',
      handle: (call, id) => getBucket(context, call, id),
    },
    {
      methods: 'PUT',
      path: '/bucket/{bucket}',
      operation: 'storage.bucket.update',
      handle: (call, id) => updateBucket(context, call, id),
    },
    {
      methods: 'DELETE',
      path: '/bucket/{bucket}',
      operation: 'storage.bucket.delete',
      handle: (call, id) => deleteBucket(context, call, id),
    },
    {
      methods: 'POST',
      path: '/bucket/{bucket}/empty',
      operation: 'storage.bucket.empty',
      handle: (call, id) => emptyBucket(context, call, id),
    },

    {
      methods: 'POST',
      path: '/object/move',
      operation: 'storage.object.move',
      handle: (call) => moveObject(context, call),
    },
    {
      methods: 'POST',
      path: '/object/copy',
      operation: 'storage.object.copy',
      handle: (call) => copyObject(context, call),
    },
    {
      methods: 'POST',
      path: '/object/list/{bucket}',
      operation: 'storage.object.list',
      handle: (call, bucket) => listObjects(context, call, bucket),
    },
    {
      methods: 'POST',
      path: '/object/list-v2/{bucket}',
      operation: 'storage.object.list_v2',
      handle: (call, bucket) => listObjectsV2(context, call, bucket),
    },
    {
      methods: 'POST',
      path: '/object/sign/{bucket}',
      operation: 'storage.object.sign_many',
      handle: (call, bucket) => signMany(context, call, bucket),
    },
    {
      methods: 'POST',
      path: '/object/sign/{bucket}/{key}',
      operation: 'storage.object.sign',
      handle: (call, bucket, key) => signOne(context, call, bucket, key),
    },
    {
      methods: 'GET HEAD',
      path: '/object/sign/{bucket}/{key}',
      operation: 'storage.object.get_signed',
      isOpen: true,
      handle: signedObject,
    },
    {
      methods: 'POST',
      path: '/object/upload/sign/{bucket}/{key}',
      operation: 'storage.object.sign_upload_url',
      handle: (call, bucket, key) => signUpload(context, call, bucket, key),
    },
    {
      methods: 'PUT',
      path: '/object/upload/sign/{bucket}/{key}',
      operation: 'storage.object.upload_signed',
      isOpen: true,
      handle: async (call, bucket, key) => {
        const token = await context.tokens.verifyUpload(tokenOf(call), `${bucket}/${key}`);
        return upload(context, call, signedTarget(bucket, key, token.upsert, token.owner));
      },
    },
    {
      methods: 'GET HEAD',
      path: '/object/info/public/{bucket}/{key}',
      operation: 'storage.object.info_public',
      isOpen: true,
      handle: info('public'),
    },
    {
      methods: 'GET HEAD',
      path: '/object/info/authenticated/{bucket}/{key}',
      operation: 'storage.object.info_authenticated',
      handle: info('caller'),
    },
    {
      methods: 'GET HEAD',
      path: '/object/info/{bucket}/{key}',
      operation: 'storage.object.info_authenticated',
      handle: info('caller'),
    },
    {
      methods: 'GET HEAD',
      path: '/object/public/{bucket}/{key}',
      operation: 'storage.object.get_public',
      isOpen: true,
      handle: object('public'),
    },
    {
      methods: 'GET HEAD',
      path: '/object/authenticated/{bucket}/{key}',
      operation: 'storage.object.get_authenticated',
      handle: object('caller'),
    },
    {
      methods: 'GET HEAD',
      path: '/object/{bucket}/{key}',
      operation: 'storage.object.get_authenticated',
      isOpen: true,
      handle: (call, bucket, key) => object(ownOrPublic(call))(call, bucket, key),
    },
    {
      methods: 'POST',
      path: '/object/{bucket}/{key}',
      operation: 'storage.object.upload',
      handle: (call, bucket, key) => upload(context, call, ownTarget(call, bucket, key, isUpsert(call))),
    },
    {
      methods: 'PUT',
      path: '/object/{bucket}/{key}',
      operation: 'storage.object.upload_update',
      handle: (call, bucket, key) => upload(context, call, ownTarget(call, bucket, key, true)),
    },
    {
      methods: 'DELETE',
      path: '/object/{bucket}',
      operation: 'storage.object.delete_many',
      handle: (call, bucket) => removeObjects(context, call, bucket),
    },
    {
      methods: 'DELETE',
      path: '/object/{bucket}/{key}',
      operation: 'storage.object.delete',
      handle: (call, bucket, key) => removeObject(context, call, bucket, key),
    },

    {
      methods: 'GET HEAD',
      path: '/render/image/public/{bucket}/{key}',
      operation: 'storage.render.image_public',
      isOpen: true,
      handle: rendered('public'),
    },
    {
      methods: 'GET HEAD',
      path: '/render/image/authenticated/{bucket}/{key}',
      operation: 'storage.render.image_authenticated',
      handle: rendered('caller'),
    },
    {
      methods: 'GET HEAD',
      path: '/render/image/sign/{bucket}/{key}',
      operation: 'storage.render.image_sign',
      isOpen: true,
      handle: signedRendering,
    },

    {
      methods: 'OPTIONS',
      path: '/upload/resumable',
      operation: 'storage.tus.options',
      isOpen: true,
      handle: (call) => resumable(call, false),
    },
    {
      methods: 'OPTIONS',
      path: '/upload/resumable/{key}',
      operation: 'storage.tus.options',
      isOpen: true,
      handle: (call) => resumable(call, false),
    },
    {
      methods: 'POST',
      path: '/upload/resumable/sign',
      operation: 'storage.tus.upload.create_signed',
      isOpen: true,
      handle: (call) => resumable(call, true),
    },
    {
      methods: 'HEAD PATCH DELETE',
      path: '/upload/resumable/sign/{key}',
      operation: 'storage.tus.upload.part_signed',
      isOpen: true,
      handle: (call) => resumable(call, true),
    },
    {
      methods: 'POST',
      path: '/upload/resumable',
      operation: 'storage.tus.upload.create',
      handle: (call) => resumable(call, false),
    },
    {
      methods: 'HEAD PATCH DELETE',
      path: '/upload/resumable/{key}',
      operation: 'storage.tus.upload.part',
      handle: (call) => resumable(call, false),
    },

    {
      methods: 'DELETE',
      path: '/cdn/{bucket}/{key}',
      operation: 'storage.object.purge_cache',
      handle: () => {
        throw new StorageError({
          statusCode: 400,
          error: 'MissingParameter',
          message: 'Missing Required Parameter CDN_PURGE_ENDPOINT_URL is not set',
          code: 'MissingParameter',
        });
      },
    },
  ]);

  return async (request, caller) => {
    const url = new URL(request.url);
    const path = url.pathname.slice('/storage/v1'.length);
    for (const { route, pattern } of routes) {
      const match = pattern.exec(path);
      if (!match || !route.methods.split(' ').includes(request.method)) continue;
      if (!route.isOpen && caller.tokenError) throw faultOf(caller.tokenError);
      if (url.searchParams.has('versionId')) throw storageErrors.notSupported('querystring/versionId');
      const { bucket = '', key = '' } = match.groups ?? {};
      const call: Call = { request, url, caller, operation: route.operation };
      return route.handle(call, decoded(bucket), decoded(key));
    }
    return answerUnknownRoute(request);
  };
}

function compile(routes: readonly Route[]): { route: Route; pattern: RegExp }[] {
  return routes.map((route) => {
    const source = route.path.replace('{bucket}', '(?<bucket>[^/]+)').replace('{key}', '(?<key>.+)');
    return { route, pattern: new RegExp(`^${source}/?$`) };
  });
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
