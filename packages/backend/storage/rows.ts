// The rows of the storage schema as the API shows them, and the statements that read and write objects.
import type { Session } from '../database/database.ts';

export interface BucketRow {
  id: string;
  name: string;
  owner: string;
  public: boolean;
  file_size_limit: number | null;
  allowed_mime_types: string[] | null;
  created_at: string;
  updated_at: string;
}

/** The service's metadata of an object's content. */
export interface ObjectMetadata {
  /** The MD5 of the content, in double quotes. */
  eTag: string;
  size: number;
  mimetype: string;
  cacheControl: string;
  lastModified: string;
  contentLength: number;
  httpStatusCode: number;
}

export interface ObjectRow {
  id: string;
  bucket_id: string;
  name: string;
  owner: string | null;
  owner_id: string | null;
  version: string;
  /** Null in rows that SQL has written. */
  metadata: Partial<ObjectMetadata> | null;
  user_metadata: Record<string, unknown> | null;
  created_at: string;
  updated_at: string;
  last_accessed_at: string;
}

/** A time as the API writes it: ISO, UTC, milliseconds. */
export const isoTime = (column: string): string =>
  `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ${column.replace(/^.*\./, '')}`;

export const bucketColumns = `id, name, coalesce(owner_id, owner::text, '') as owner, public, file_size_limit,
  to_jsonb(allowed_mime_types) as allowed_mime_types, ${isoTime('created_at')}, ${isoTime('updated_at')}`;

export const objectColumns = `id, bucket_id, name, owner, owner_id, version, metadata, user_metadata,
  ${isoTime('created_at')}, ${isoTime('updated_at')}, ${isoTime('last_accessed_at')}`;

/** Reads a bucket, or null when there is none or the role may not see it. */
export async function findBucket(session: Session, id: string): Promise<BucketRow | null> {
  const { rows } = await session.query<BucketRow>(
    `select ${bucketColumns} from storage.buckets where id = $1`,
    [id],
  );
  return rows[0] ?? null;
}

/** Reads an object, or null when there is none or the role may not see it. */
export async function findObject(
  session: Session,
  bucket: string,
  key: string,
  lock: '' | 'for update' = '',
): Promise<ObjectRow | null> {
  const { rows } = await session.query<ObjectRow>(
    `select ${objectColumns} from storage.objects where bucket_id = $1 and name = $2 ${lock}`,
    [bucket, key],
  );
  return rows[0] ?? null;
}

export interface NewObject {
  bucket: string;
  key: string;
  owner: string | null;
  ownerId: string | null;
  version: string;
  metadata: ObjectMetadata | null;
  userMetadata: Record<string, unknown> | null;
}

/**
 * Writes an object's row. A new one needs INSERT alone; replacing needs SELECT and UPDATE too.
 * @returns the row's id, and the version that nothing points to any more
 * @throws DatabaseError 23505 when the key is taken and `upsert` is false, 42501 when a policy refuses
 */
export async function writeObject(
  session: Session,
  object: NewObject,
  upsert: boolean,
): Promise<{ id: string; replaced: string | null }> {
  const id = crypto.randomUUID();
  const values = [
    id,
    object.bucket,
    object.key,
    object.owner,
    object.ownerId,
    object.version,
    object.metadata,
    object.userMetadata,
  ];
  const insert = `insert into storage.objects
    (id, bucket_id, name, owner, owner_id, version, metadata, user_metadata)
    values ($1, $2, $3, $4, $5, $6, $7, $8)`;
  if (!upsert) {
    await session.query(insert, values);
    return { id, replaced: null };
  }
  const before = await findObject(session, object.bucket, object.key, 'for update');
  const { rows } = await session.query<{ id: string }>(
    `${insert}
    on conflict (bucket_id, name) do update set
      owner = excluded.owner, owner_id = excluded.owner_id, version = excluded.version,
      metadata = excluded.metadata, user_metadata = excluded.user_metadata
    returning id`,
    values,
  );
  return { id: rows[0]?.id ?? id, replaced: before?.version ?? null };
}

class TriedOut extends Error {}

/**
 * Finds out whether a row could be written, and leaves nothing behind.
 * @param transaction runs work in a transaction of the caller's
 * @throws errors of writing it
 */
export async function tryWriteObject(
  transaction: (work: (session: Session) => Promise<never>) => Promise<never>,
  object: NewObject,
  upsert: boolean,
): Promise<void> {
  try {
    await transaction(async (session) => {
      await writeObject(session, object, upsert);
      throw new TriedOut();
    });
  } catch (error) {
    if (!(error instanceof TriedOut)) throw error;
  }
}
