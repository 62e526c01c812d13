// Dependencies of the storage service, and its access to the database.
import { type Caller, inShareOf } from '../caller.ts';
import { asRole, type Claims } from '../database/as-role.ts';
import type { Database, Session } from '../database/database.ts';
import type { FileStore } from './files/file-store.ts';
import type { ImageWork } from './images/images.ts';
import type { RenderedImages } from './images/rendered-images.ts';
import type { UrlTokens } from './url-tokens.ts';

export interface StorageSettings {
  /** Maximum bytes of an object in a bucket without its own limit, and the maximum limit of a bucket. */
  fileSizeLimit: number;
  /** Maximum pixels of an image to accept or resize, all frames together. */
  pixelLimit: number;
  /** Lifetime of a signed upload URL, in seconds. */
  uploadUrlSeconds: number;
  /** Maximum duration of a resumable upload, in seconds. */
  resumableSeconds: number;
  /** Bytes of JSON that an anonymous caller may send. */
  anonymousJsonBytes: number;
  /**
   * Sides in pixels of the square renderings (`resize=cover`, default quality) that an anonymous caller may request; null
   * for any rendering. With arbitrary sizes, a caller could cause work that no cache avoids.
   */
  anonymousSides: readonly number[] | null;
  /** Maximum bytes of cached rendered images. */
  renderedBytes: number;
}

export interface StorageContext {
  database: Database;
  files: FileStore;
  /** The folder of this database's files. */
  installation: string;
  settings: StorageSettings;
  tokens: UrlTokens;
  images: ImageWork;
  rendered: RenderedImages;
  onError: (error: unknown) => void;
}

/** A request as routed. */
export interface Call {
  request: Request;
  url: URL;
  caller: Caller;
  /** The operation, as `storage.operation()` returns it to policies. */
  operation: string;
}

/**
 * Runs work on the storage schema as a role, in one transaction.
 * @throws DatabaseError from the work
 */
export function asCaller<T>(
  { database }: Pick<StorageContext, 'database'>,
  call: Call & { claims: Claims },
  work: (session: Session) => Promise<T>,
  options: { readOnly?: boolean } = {},
): Promise<T> {
  const forwarded = call.request.headers.get('x-forwarded-for');
  const transaction = () =>
    asRole(
      database,
      call.claims,
      async (session) => {
        await session.query(
          `select set_config('storage.operation', $1, true), set_config('storage.allow_delete_query', $2, true)`,
          [call.operation, options.readOnly ? '' : 'true'],
        );
        return work(session);
      },
      {
        readOnly: options.readOnly ?? false,
        request: {
          method: call.request.method,
          path: call.url.pathname,
          headers: forwarded ? { 'x-forwarded-for': forwarded } : {},
          statementTimeout: 30_000,
        },
      },
    );
  return inShareOf(call.caller, 'work', 2, transaction);
}

/**
 * Reads rows that do not depend on the caller's rights, as the service.
 * @throws DatabaseError
 */
export function asService<T>(
  { database }: Pick<StorageContext, 'database'>,
  { caller }: Pick<Call, 'caller'>,
  read: (session: Session) => Promise<T>,
): Promise<T> {
  return inShareOf(caller, 'work', 1, () => read(database));
}

/** Owner of a row: the sub claim, as is and, if it is one, as a UUID. */
export function ownerOf(claims: Claims): { owner: string | null; ownerId: string | null } {
  const ownerId = claims.sub ?? null;
  const isUuid = ownerId !== null && /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(ownerId);
  return { owner: isUuid ? ownerId : null, ownerId };
}

/** The name of a version's file in the file store. */
export function fileName({ installation }: Pick<StorageContext, 'installation'>, version: string): string {
  return `${installation}/${version}`;
}

/** Removes files that are no longer needed. A failure costs disk until the next sweep, and fails no request. */
export async function removeFiles(context: StorageContext, versions: readonly string[]): Promise<void> {
  try {
    await context.files.remove(versions.map((version) => fileName(context, version)));
  } catch (error) {
    context.onError(error);
  }
}
