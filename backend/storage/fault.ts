// Errors of the storage service, with the texts and codes of the storage API.
import { DatabaseError } from '../database/database.ts';

interface FaultFields {
  statusCode: number;
  error: string;
  message: string;
  code: string;
  /** HTTP status other than 400, the default for any `statusCode`. */
  status?: number;
  headers?: Record<string, string>;
}

/** An error of a request, with its response. */
export class StorageFault extends Error {
  override readonly name = 'StorageFault';
  readonly statusCode: number;
  readonly error: string;
  readonly code: string;
  readonly status: number;
  readonly headers: Record<string, string>;

  constructor(fields: FaultFields) {
    super(fields.message);
    this.statusCode = fields.statusCode;
    this.error = fields.error;
    this.code = fields.code;
    this.status = fields.status ?? 400;
    this.headers = fields.headers ?? {};
  }
}

const fault =
  (statusCode: number, error: string, code: string, usual = '', status = 400) =>
  (message = usual): StorageFault =>
    new StorageFault({ statusCode, error, message, code, status });

/** Faults by meaning; each accepts a message in place of the usual one. */
export const faults = {
  noSuchBucket: fault(404, 'Bucket not found', 'NoSuchBucket', 'Bucket not found'),
  noSuchKey: fault(404, 'not_found', 'NoSuchKey', 'Object not found'),
  bucketTaken: fault(409, 'Duplicate', 'BucketAlreadyExists', 'The resource already exists'),
  keyTaken: fault(409, 'Duplicate', 'KeyAlreadyExists', 'The resource already exists'),
  bucketNotEmpty: fault(
    409,
    'ResourceNotEmpty',
    'ResourceNotEmpty',
    'The bucket you tried to delete is not empty',
  ),
  accessDenied: fault(403, 'Unauthorized', 'AccessDenied', 'new row violates row-level security policy'),
  invalidToken: fault(400, 'InvalidJWT', 'InvalidJWT'),
  wrongSignature: fault(400, 'InvalidSignature', 'InvalidSignature', 'The URL/path does not match'),
  mimeType: (type: string) =>
    fault(415, 'invalid_mime_type', 'InvalidMimeType')(`mime type ${type} is not supported`),
  notAnImage: fault(415, 'invalid_mime_type', 'InvalidMimeType'),
  tooLarge: fault(413, 'Payload too large', 'EntityTooLarge', 'The object exceeded the maximum allowed size'),
  bucketName: fault(400, 'Invalid Input', 'InvalidBucketName', 'Bucket name invalid'),
  key: (key: string) => fault(400, 'InvalidKey', 'InvalidKey')(`Invalid key: ${key}`),
  request: fault(400, 'Error', 'InvalidRequest'),
  range: (size: number) =>
    new StorageFault({
      statusCode: 416,
      error: 'invalid_range',
      message: 'invalid range provided',
      code: 'InvalidRange',
      status: 416,
      headers: { 'content-range': `bytes */${size}` },
    }),
  cannotRender: fault(
    400,
    'InvalidRequest',
    'InvalidRequest',
    'The source image is invalid or unsupported for rendering',
  ),
  busy: fault(429, 'too_many_requests', 'SlowDown', 'Too many images are being worked on. Try again.', 429),
  lockTimeout: fault(503, 'acquiring_lock_timeout', 'LockTimeout', 'acquiring lock timeout'),
  timeout: fault(544, 'DatabaseTimeout', 'DatabaseTimeout', 'The database took too long to answer'),
};

/**
 * Converts a thrown value to the response's fault.
 * @returns the fault, or null for an internal error
 */
export function asFault(thrown: unknown): StorageFault | null {
  if (thrown instanceof StorageFault) return thrown;
  if (!(thrown instanceof DatabaseError)) return null;
  switch (thrown.code) {
    case '42501':
      return faults.accessDenied();
    case '23505':
      return faults.keyTaken();
    case '23503':
      return faults.noSuchBucket();
    case '55P03':
      return faults.lockTimeout();
    case '57014':
      return faults.timeout();
    default:
      // Errors raised by triggers or policies are meant for the caller.
      return thrown.code.startsWith('P0') || thrown.code.startsWith('PT')
        ? faults.request(thrown.message)
        : null;
  }
}

/** Answers with a fault. */
export function answerFault({ statusCode, error, message, code, status, headers }: StorageFault): Response {
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
