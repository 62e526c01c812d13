// Buckets: create, read, change, empty and delete, with the caller's rights.
import { DatabaseError } from '../database/database.ts';
import { asCaller, type Call, ownerOf, removeFiles, type StorageContext } from './context.ts';
import { type JsonBody, optionalFlagIn, optionalTextIn, readJson, textIn } from './json-body.ts';
import { checkedBucketName, checkedMimePatterns, readSize } from './names.ts';
import { type BucketRow, bucketColumns, findBucket } from './rows.ts';
import { storageErrors } from './storage-error.ts';

const sortColumns = ['id', 'name', 'created_at', 'updated_at'];

/** `GET /bucket`: the buckets the caller may see. */
export async function listBuckets(context: StorageContext, call: Call): Promise<Response> {
  const query = call.url.searchParams;
  const column = query.get('sortColumn') ?? 'name';
  const order = query.get('sortOrder') ?? 'asc';
  if (!sortColumns.includes(column)) {
    throw storageErrors.request('querystring/sortColumn must be equal to one of the allowed values');
  }
  if (order !== 'asc' && order !== 'desc') {
    throw storageErrors.request('querystring/sortOrder must be equal to one of the allowed values');
  }
  const { rows } = await asCaller(
    context,
    { ...call, claims: call.caller.claims },
    (session) =>
      session.query<BucketRow>(
        `select ${bucketColumns} from storage.buckets
        where strpos(lower(name), lower($1)) > 0
        order by buckets.${column} ${order} limit $2::bigint offset $3::bigint`,
        [query.get('search') ?? '', count(query, 'limit', 1, 1000), count(query, 'offset', 0, 0)],
      ),
    { readOnly: true },
  );
  return Response.json(rows);
}

function count(query: URLSearchParams, name: string, least: number, fallback: number): number {
  const text = query.get(name);
  if (text === null) return fallback;
  const number = Number(text);
  if (!Number.isSafeInteger(number) || text === '') {
    throw storageErrors.request(`querystring/${name} must be integer`);
  }
  if (number < least) throw storageErrors.request(`querystring/${name} must be >= ${least}`);
  return number;
}

/** `GET /bucket/{id}` */
export async function getBucket(context: StorageContext, call: Call, id: string): Promise<Response> {
  const bucket = await asCaller(
    context,
    { ...call, claims: call.caller.claims },
    (session) => findBucket(session, id),
    { readOnly: true },
  );
  if (!bucket) throw storageErrors.noSuchBucket();
  return Response.json(bucket);
}

/** `POST /bucket` */
export async function createBucket(context: StorageContext, call: Call): Promise<Response> {
  const body = await readJson(context, call);
  const name = checkedBucketName(textIn(body, 'name'));
  const id = checkedBucketName(optionalTextIn(body, 'id', name));
  const type = optionalTextIn(body, 'type', 'STANDARD');
  if (type !== 'STANDARD')
    throw storageErrors.request('body/type must be STANDARD: other bucket types are not supported');
  refuseVersioning(body);
  const { owner, ownerId } = ownerOf(call.caller.claims);
  const limits = readLimits(context, body);
  try {
    await asCaller(context, { ...call, claims: call.caller.claims }, (session) =>
      session.query(
        `insert into storage.buckets
          (id, name, owner, owner_id, public, file_size_limit, allowed_mime_types)
        values ($1, $2, $3, $4, $5, $6,
          (select array_agg(pattern) from jsonb_array_elements_text($7::jsonb) as pattern))`,
        [
          id,
          name,
          owner,
          ownerId,
          optionalFlagIn(body, 'public', false),
          limits.file_size_limit ?? null,
          limits.allowed_mime_types ? JSON.stringify(limits.allowed_mime_types) : null,
        ],
      ),
    );
  } catch (error) {
    if (error instanceof DatabaseError && error.code === '23505') throw storageErrors.bucketTaken();
    throw error;
  }
  return Response.json({ name: id });
}

/** `PUT /bucket/{id}`: changes the given properties; null removes a limit. */
export async function updateBucket(context: StorageContext, call: Call, id: string): Promise<Response> {
  const body = await readJson(context, call);
  refuseVersioning(body);
  const limits = readLimits(context, body);
  const isPublic = optionalFlagIn(body, 'public', null);
  const { rowCount } = await asCaller(context, { ...call, claims: call.caller.claims }, (session) =>
    session.query(
      `update storage.buckets set
        public = coalesce($2::boolean, public),
        file_size_limit = case when $3::boolean then $4::bigint else file_size_limit end,
        allowed_mime_types = case
          when $5::boolean then (
            select array_agg(pattern) from jsonb_array_elements_text($6::jsonb) as pattern
          )
          else allowed_mime_types
        end
      where id = $1`,
      [
        id,
        isPublic,
        limits.file_size_limit !== undefined,
        limits.file_size_limit ?? null,
        limits.allowed_mime_types !== undefined,
        limits.allowed_mime_types ? JSON.stringify(limits.allowed_mime_types) : null,
      ],
    ),
  );
  if (rowCount === 0) throw storageErrors.noSuchBucket();
  return Response.json({ message: 'Successfully updated' });
}

/** @throws StorageError for a request to store old versions of objects: the caller would believe them stored */
function refuseVersioning(body: JsonBody): void {
  if (optionalTextIn(body, 'versioning_status', 'DISABLED') !== 'DISABLED')
    throw storageErrors.notSupported('body/versioning_status');
}

interface Limits {
  /** Undefined: not named; null: none. */
  file_size_limit?: number | null;
  allowed_mime_types?: string[] | null;
}

function readLimits(context: StorageContext, body: Readonly<Record<string, unknown>>): Limits {
  const limits: Limits = {};
  const { file_size_limit: size, allowed_mime_types: types } = body;
  if (size === null) limits.file_size_limit = null;
  else if (size !== undefined) {
    limits.file_size_limit = readSize(size);
    if (limits.file_size_limit > context.settings.fileSizeLimit) throw storageErrors.tooLarge();
  }
  if (types === null) limits.allowed_mime_types = null;
  else if (types !== undefined) {
    if (!Array.isArray(types) || types.some((type) => typeof type !== 'string')) {
      throw storageErrors.request('body/allowed_mime_types must be array of strings');
    }
    checkedMimePatterns(types);
    limits.allowed_mime_types = types;
  }
  return limits;
}

/** `POST /bucket/{id}/empty`: deletes every object the caller may delete. */
export async function emptyBucket(context: StorageContext, call: Call, id: string): Promise<Response> {
  const versions = await asCaller(context, { ...call, claims: call.caller.claims }, async (session) => {
    if (!(await findBucket(session, id))) throw storageErrors.noSuchBucket();
    const { rows } = await session.query<{ version: string }>(
      'delete from storage.objects where bucket_id = $1 returning version',
      [id],
    );
    return rows.map(({ version }) => version);
  });
  await removeFiles(context, versions);
  return Response.json({
    message: 'Empty bucket has been queued. Completion may take up to an hour.',
  });
}

/** `DELETE /bucket/{id}`: an empty one. */
export async function deleteBucket(context: StorageContext, call: Call, id: string): Promise<Response> {
  try {
    await asCaller(context, { ...call, claims: call.caller.claims }, async (session) => {
      if (!(await findBucket(session, id))) throw storageErrors.noSuchBucket();
      const { rowCount } = await session.query('delete from storage.buckets where id = $1', [id]);
      if (rowCount === 0) throw storageErrors.accessDenied();
    });
  } catch (error) {
    // An object is in it, whether or not the caller may see it.
    if (error instanceof DatabaseError && error.code === '23503') throw storageErrors.bucketNotEmpty();
    throw error;
  }
  return Response.json({ message: 'Successfully deleted' });
}
