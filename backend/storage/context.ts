// What every part of the service works with, and the one way it takes to the database.
import type { Caller } from '../caller.ts';
import { asRole, type Claims } from '../database/as-role.ts';
import type { Database, Session } from '../database/database.ts';
import { networkOf } from '../network.ts';
import type { FileStore } from './file-store.ts';
import type { ImageWork } from './images.ts';
import type { RenderedImages } from './rendered-images.ts';
import type { UrlTokens } from './url-tokens.ts';

export interface StorageSettings {
  /** Most bytes of an object in a bucket without a limit of its own, and the most any bucket may allow. */
  fileSizeLimit: number;
  /** Most pixels of an image that is taken or made smaller, all frames together. */
  pixelLimit: number;
  /** Seconds that an address to upload to is good for. */
  uploadUrlSeconds: number;
  /** Seconds that a resumable upload may take. */
  resumableSeconds: number;
  /** Most bytes of rendered images that are kept. */
  renderedBytes: number;
  /** How many images are worked on at once. */
  imagesAtOnce: number;
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
  onFault: (error: unknown) => void;
}

/** A request with what the router has found out about it. */
export interface Call {
  request: Request;
  url: URL;
  caller: Caller;
  /** What is being done, as `storage.operation()` says it in policies. */
  operation: string;
}

/**
 * Runs work on the storage schema as a role, in one transaction.
 * @throws DatabaseError from the work
 */
export function asCaller<T>(
  { database }: Pick<StorageContext, 'database'>,
  call: Pick<Call, 'request' | 'url' | 'operation'> & { claims: Claims },
  work: (session: Session) => Promise<T>,
  options: { readOnly?: boolean } = {},
): Promise<T> {
  const forwarded = call.request.headers.get('x-forwarded-for');
  return asRole(
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
}

/** Whose turn heavy work takes: the network the request came from, and whoever of it is signed in. */
export function askerOf({ caller }: Pick<Call, 'caller'>): string {
  const { address, claims } = caller;
  return `${address === null ? '' : networkOf(address)} ${claims.sub ?? ''}`;
}

/** Who a row belongs to: the sub claim, as it is and, where it is one, as a UUID. */
export function ownerOf(claims: Claims): { owner: string | null; ownerId: string | null } {
  const ownerId = claims.sub ?? null;
  const isUuid = ownerId !== null && /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(ownerId);
  return { owner: isUuid ? ownerId : null, ownerId };
}

/** The name of a version's file in the file store. */
export function fileName({ installation }: Pick<StorageContext, 'installation'>, version: string): string {
  return `${installation}/${version}`;
}

/** Removes files nobody needs any more. A failure costs disk until the next sweep, and nobody's request. */
export async function removeFiles(context: StorageContext, versions: readonly string[]): Promise<void> {
  try {
    await context.files.remove(versions.map((version) => fileName(context, version)));
  } catch (error) {
    context.onFault(error);
  }
}
