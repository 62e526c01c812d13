// Errors of the storage service, with the texts and codes of the storage API.
import { DatabaseError, retryAfterSeconds } from '../database/database.ts';

interface ErrorFields {
  statusCode: number;
  error: string;
  message: string;
  code: string;
  /** HTTP status other than 400, the default for any `statusCode`. */
  status?: number;
  headers?: Record<string, string>;
}

/** An error of a request, with its response. */
export class StorageError extends Error {
  override readonly name = 'StorageError';
  readonly statusCode: number;
  readonly error: string;
  readonly code: string;
  readonly status: number;
  readonly headers: Record<string, string>;

  constructor(fields: ErrorFields) {
    super(fields.message);
    this.statusCode = fields.statusCode;
    this.error = fields.error;
    this.code = fields.code;
    this.status = fields.status ?? 400;
    this.headers = fields.headers ?? {};
  }
}

const storageError =
  (statusCode: number, error: string, code: string, usual = '', status = 400) =>
  (message = usual): StorageError =>
    new StorageError({ statusCode, error, message, code, status });

/** Errors by meaning; each accepts a message in place of the usual one. */
export const storageErrors = {
  noSuchBucket: storageError(404, 'Bucket not found', 'NoSuchBucket', 'Bucket not found'),
  noSuchKey: storageError(404, 'not_found', 'NoSuchKey', 'Object not found'),
  bucketTaken: storageError(409, 'Duplicate', 'BucketAlreadyExists', 'The resource already exists'),
  keyTaken: storageError(409, 'Duplicate', 'KeyAlreadyExists', 'The resource already exists'),
  bucketNotEmpty: storageError(
    409,
    'ResourceNotEmpty',
    'ResourceNotEmpty',
    'The bucket you tried to delete is not empty',
  ),
  accessDenied: storageError(
    403,
    'Unauthorized',
    'AccessDenied',
    'new row violates row-level security policy',
  ),
  invalidToken: storageError(400, 'InvalidJWT', 'InvalidJWT'),
  wrongSignature: storageError(400, 'InvalidSignature', 'InvalidSignature', 'The URL/path does not match'),
  mimeType: (type: string) =>
    storageError(415, 'invalid_mime_type', 'InvalidMimeType')(`mime type ${type} is not supported`),
  notAnImage: storageError(415, 'invalid_mime_type', 'InvalidMimeType'),
  tooLarge: storageError(
    413,
    'Payload too large',
    'EntityTooLarge',
    'The object exceeded the maximum allowed size',
  ),
  bucketName: storageError(400, 'Invalid Input', 'InvalidBucketName', 'Bucket name invalid'),
  key: (key: string) => storageError(400, 'InvalidKey', 'InvalidKey')(`Invalid key: ${key}`),
  request: storageError(400, 'Error', 'InvalidRequest'),
  /** A feature of the storage API that this service does not have: ignoring it would store or serve something else. */
  notSupported: (property: string) =>
    storageError(400, 'Error', 'InvalidRequest')(`${property} is not supported`),
  range: (size: number) =>
    new StorageError({
      statusCode: 416,
      error: 'invalid_range',
      message: 'invalid range provided',
      code: 'InvalidRange',
      status: 416,
      headers: { 'content-range': `bytes */${size}` },
    }),
  cannotRender: storageError(
    400,
    'InvalidRequest',
    'InvalidRequest',
    'The source image is invalid or unsupported for rendering',
  ),
  busy: storageError(
    429,
    'too_many_requests',
    'SlowDown',
    'Too many images are being worked on. Try again.',
    429,
  ),
  imageWorkerEnded: storageError(
    503,
    'image_worker_ended',
    'ImageWorkerEnded',
    'The image could not be processed. Try again, or send a smaller one.',
    503,
  ),
  lockTimeout: storageError(503, 'acquiring_lock_timeout', 'LockTimeout', 'acquiring lock timeout'),
  unavailable: () =>
    new StorageError({
      statusCode: 503,
      error: 'DatabaseError',
      message: 'The database is not available right now. Try again.',
      code: 'DatabaseError',
      status: 503,
      headers: { 'retry-after': retryAfterSeconds },
    }),
  timeout: storageError(544, 'DatabaseTimeout', 'DatabaseTimeout', 'The database took too long to answer'),
};

/**
 * Converts a thrown value to the response's error.
 * @returns the error, or null for an internal error
 */
export function asStorageError(thrown: unknown): StorageError | null {
  if (thrown instanceof StorageError) return thrown;
  if (!(thrown instanceof DatabaseError)) return null;
  switch (thrown.code) {
    case '42501':
      return storageErrors.accessDenied();
    case '23505':
      return storageErrors.keyTaken();
    case '23503':
      return storageErrors.noSuchBucket();
    case '55P03':
      return storageErrors.lockTimeout();
    case '57014':
      return storageErrors.timeout();
    default:
      // Errors raised by triggers or policies are meant for the caller.
      return thrown.code.startsWith('P0') || thrown.code.startsWith('PT')
        ? storageErrors.request(thrown.message)
        : null;
  }
}

/** Answers with an error. */
export function answerError({ statusCode, error, message, code, status, headers }: StorageError): Response {
  return Response.json({ statusCode: String(statusCode), error, message, code }, { status, headers });
}

/** Answers a request that fits no route. */
export function answerUnknownRoute(request: Request): Response {
  const { pathname, search } = new URL(request.url);
  const route = `${request.method}:${pathname.replace(/^\/storage\/v1/, '')}${search}`;
  return Response.json(
    { message: `Route ${route} not found`, error: 'Not Found', statusCode: 404 },
    { status: 404 },
  );
}
