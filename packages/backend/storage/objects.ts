// Moves, copies and deletes objects with the caller's rights. The file is reused unless the destination bucket
// has its own restrictions.
import type { Client } from '../limits/fair-queue.ts';
import { clientOf } from '../limits/fair-share.ts';
import {
  asCaller,
  asService,
  type Call,
  fileName,
  ownerOf,
  removeFiles,
  type StorageContext,
} from './context.ts';
import { withFile } from './download.ts';
import { discard, writeWorkFile } from './files/work-file.ts';
import {
  type JsonBody,
  optionalFlagIn,
  optionalObjectIn,
  optionalTextIn,
  readJson,
  refuseProperty,
  textIn,
  textsIn,
} from './json-body.ts';
import { checkedKey, storableCacheControl, storableType, takesOnlyImages } from './names.ts';
import {
  findBucket,
  findObject,
  type NewObject,
  type ObjectMetadata,
  type ObjectRow,
  objectColumns,
  tryWriteObject,
  writeObject,
} from './rows.ts';
import { storageErrors } from './storage-error.ts';
import { accept, type BucketLimits, checkType, sizeLimit } from './uploads/content.ts';
import { readUserMetadata, refuseContentEncoding } from './uploads/upload.ts';

interface Journey {
  from: { bucket: string; key: string };
  to: { bucket: string; key: string };
  destination: BucketLimits;
  /** Whether the content must be converted to the destination's types. */
  isInspected: boolean;
}

async function readJourney(context: StorageContext, call: Call, body: JsonBody): Promise<Journey> {
  refuseProperty(body, 'sourceVersionId');
  const from = { bucket: textIn(body, 'bucketId'), key: textIn(body, 'sourceKey') };
  const key = checkedKey(textIn(body, 'destinationKey'));
  const to = { bucket: optionalTextIn(body, 'destinationBucket', from.bucket), key };
  const source = await asService(context, call, (session) => findBucket(session, from.bucket));
  const destination = await asService(context, call, (session) => findBucket(session, to.bucket));
  if (!source || !destination) throw storageErrors.noSuchBucket();
  const isInspected =
    takesOnlyImages(destination.allowed_mime_types) && !takesOnlyImages(source.allowed_mime_types);
  return { from, to, destination, isInspected };
}

function checkFits(context: StorageContext, { destination, from, to }: Journey, object: ObjectRow): void {
  if (from.bucket === to.bucket) return;
  if ((object.metadata?.size ?? 0) > sizeLimit(context, destination)) throw storageErrors.tooLarge();
  checkType(destination, storableType(object.metadata?.mimetype ?? null));
}

/** Creates a copy of the file for another object. */
async function duplicate(
  context: StorageContext,
  journey: Journey,
  object: ObjectRow,
  client: Client,
): Promise<{ version: string; metadata: ObjectMetadata | null }> {
  const version = crypto.randomUUID();
  const source = fileName(context, object.version);
  if (!journey.isInspected) {
    await context.files.copy(source, fileName(context, version));
    return { version, metadata: object.metadata as ObjectMetadata | null };
  }
  const content = await context.files.read(source);
  const raw = await writeWorkFile(context.files.workFolder, content, sizeLimit(context, journey.destination));
  const { file, metadata } = await accept(
    context,
    journey.destination,
    raw,
    {
      type: storableType(object.metadata?.mimetype ?? null),
      cacheControl: storableCacheControl(object.metadata?.cacheControl ?? null),
    },
    client,
  );
  try {
    await context.files.put(fileName(context, version), file.path);
  } catch (error) {
    await discard(file);
    throw error;
  }
  return { version, metadata };
}

/** `POST /object/move`: needs SELECT and UPDATE. */
export async function moveObject(context: StorageContext, call: Call): Promise<Response> {
  const journey = await readJourney(context, call, await readJson(context, call));
  const { from, to, isInspected } = journey;
  const transaction = { ...call, claims: call.caller.claims };
  const find = () => asCaller(context, transaction, (session) => foundObject(session, from));
  const rename = (fresh: { version: string; metadata: ObjectMetadata | null } | null) =>
    asCaller(context, transaction, async (session) => {
      const object = await foundObject(session, from);
      checkFits(context, journey, object);
      const { rowCount } = await session.query(
        `update storage.objects set bucket_id = $2, name = $3,
          version = coalesce($4, version), metadata = coalesce($5::jsonb, metadata)
        where id = $1 and version = $6`,
        [object.id, to.bucket, to.key, fresh?.version ?? null, fresh?.metadata ?? null, object.version],
      );
      if (rowCount === 0) throw storageErrors.accessDenied();
      return object.version;
    });
  if (!isInspected) {
    await rename(null);
    return Response.json({ message: 'Successfully moved' });
  }
  const fresh = await withFile(find, (object) => {
    checkFits(context, journey, object);
    return duplicate(context, journey, object, clientOf(call.caller));
  });
  try {
    await removeFiles(context, [await rename(fresh)]);
  } catch (error) {
    await removeFiles(context, [fresh.version]);
    throw error;
  }
  return Response.json({ message: 'Successfully moved' });
}

async function foundObject(
  session: Parameters<typeof findObject>[0],
  { bucket, key }: { bucket: string; key: string },
): Promise<ObjectRow> {
  const object = await findObject(session, bucket, key);
  if (!object) throw storageErrors.noSuchKey();
  return object;
}

/** `POST /object/copy`: needs SELECT on the source and INSERT on the destination. */
export async function copyObject(context: StorageContext, call: Call): Promise<Response> {
  const body = await readJson(context, call);
  const journey = await readJourney(context, call, body);
  const { from, to } = journey;
  const upsert = call.request.headers.get('x-upsert') === 'true';
  const copiesMetadata = optionalFlagIn(body, 'copyMetadata', true);
  const givenMetadata = copiesMetadata ? null : optionalObjectIn(body, 'metadata');
  refuseContentEncoding(givenMetadata && optionalTextIn(givenMetadata, 'contentEncoding', null));
  const ownMetadata = readUserMetadata(call.request.headers.get('x-metadata'), 'base64');
  const transaction = { ...call, claims: call.caller.claims };
  const { owner, ownerId } = ownerOf(call.caller.claims);
  const find = () =>
    asCaller(context, transaction, (session) => foundObject(session, from), { readOnly: true });

  const { object, fresh } = await withFile(find, async (object) => {
    checkFits(context, journey, object);
    const row: NewObject = {
      bucket: to.bucket,
      key: to.key,
      owner,
      ownerId,
      version: crypto.randomUUID(),
      metadata: null,
      userMetadata: null,
    };
    await tryWriteObject((work) => asCaller(context, transaction, work), row, upsert);
    return { object, fresh: await duplicate(context, journey, object, clientOf(call.caller)) };
  });
  const metadata: ObjectMetadata | null = fresh.metadata && {
    ...fresh.metadata,
    ...(copiesMetadata ? {} : readCopiedHeaders(givenMetadata, fresh.metadata, journey.destination)),
    lastModified: new Date().toISOString(),
  };
  const row: NewObject = {
    bucket: to.bucket,
    key: to.key,
    owner,
    ownerId,
    version: fresh.version,
    metadata,
    userMetadata: copiesMetadata ? object.user_metadata : ownMetadata,
  };
  try {
    const written = await asCaller(context, transaction, (session) => writeObject(session, row, upsert));
    if (written.replaced) await removeFiles(context, [written.replaced]);
    const { rows } = await asService(context, call, (session) =>
      session.query<ObjectRow>(`select ${objectColumns} from storage.objects where id = $1`, [written.id]),
    );
    return Response.json({ Id: written.id, Key: `${to.bucket}/${to.key}`, ...rows[0] });
  } catch (error) {
    await removeFiles(context, [fresh.version]);
    throw error;
  }
}

/**
 * The caller's metadata of the copy. In a bucket for images the media type stays that of the content.
 * @throws StorageError when the bucket does not accept the media type
 */
function readCopiedHeaders(
  given: JsonBody | null,
  metadata: ObjectMetadata,
  destination: BucketLimits,
): Partial<ObjectMetadata> {
  if (!given) return {};
  const mimetype = storableType(optionalTextIn(given, 'mimetype', metadata.mimetype));
  checkType(destination, mimetype);
  return {
    cacheControl: storableCacheControl(optionalTextIn(given, 'cacheControl', metadata.cacheControl)),
    ...(takesOnlyImages(destination.allowed_mime_types) ? {} : { mimetype }),
  };
}

/** `DELETE /object/{bucket}/{key}`: needs SELECT and DELETE. */
export async function removeObject(
  context: StorageContext,
  call: Call,
  bucket: string,
  key: string,
): Promise<Response> {
  const version = await asCaller(context, { ...call, claims: call.caller.claims }, async (session) => {
    const object = await foundObject(session, { bucket, key });
    const { rows } = await session.query<{ version: string }>(
      'delete from storage.objects where id = $1 returning version',
      [object.id],
    );
    if (!rows[0]) throw storageErrors.accessDenied('Access denied');
    return rows[0].version;
  });
  await removeFiles(context, [version]);
  return Response.json({ message: 'Successfully deleted' });
}

/** `DELETE /object/{bucket}`: several objects; missing or protected ones are left out of the answer. */
export async function removeObjects(context: StorageContext, call: Call, bucket: string): Promise<Response> {
  const keys = textsIn(await readJson(context, call), 'prefixes', 1000);
  const { rows } = await asCaller(context, { ...call, claims: call.caller.claims }, (session) =>
    session.query<ObjectRow>(
      `delete from storage.objects
      where bucket_id = $1 and name in (select jsonb_array_elements_text($2::jsonb))
      returning ${objectColumns}`,
      [bucket, JSON.stringify(keys)],
    ),
  );
  await removeFiles(
    context,
    rows.map(({ version }) => version),
  );
  return Response.json(rows);
}
