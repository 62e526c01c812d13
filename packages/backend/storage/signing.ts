// Creates signed URLs: each lets its holder download or upload one object for a time.
import { asCaller, type Call, ownerOf, type StorageContext } from './context.ts';
import { renderOptionsText } from './images/render.ts';
import { type JsonBody, optionalObjectIn, readJson, refuseProperty, textsIn } from './json-body.ts';
import { findObject } from './rows.ts';
import { storageErrors } from './storage-error.ts';
import { checkTarget, ownTarget } from './uploads/upload.ts';

const maxSeconds = 10 * 365 * 24 * 60 * 60;

function secondsIn(body: JsonBody): number {
  const { expiresIn } = body;
  if (expiresIn === undefined || expiresIn === null) {
    throw storageErrors.request(`body must have required property 'expiresIn'`);
  }
  if (typeof expiresIn !== 'number' || !Number.isInteger(expiresIn)) {
    throw storageErrors.request('body/expiresIn must be integer');
  }
  if (expiresIn < 1) throw storageErrors.request('body/expiresIn must be >= 1');
  return Math.min(expiresIn, maxSeconds);
}

/** `POST /object/sign/{bucket}/{key}`: the caller must be able to read the object. */
export async function signOne(
  context: StorageContext,
  call: Call,
  bucket: string,
  key: string,
): Promise<Response> {
  const body = await readJson(context, call);
  refuseProperty(body, 'versionId');
  const seconds = secondsIn(body);
  const transform = optionalObjectIn(body, 'transform');
  const transformations =
    transform && Object.keys(transform).length > 0 ? renderOptionsText(transform) : null;
  const object = await asCaller(
    context,
    { ...call, claims: call.caller.claims },
    (session) => findObject(session, bucket, key),
    { readOnly: true },
  );
  if (!object) throw storageErrors.noSuchKey();
  const url = `${bucket}/${key}`;
  const token = await context.tokens.sign(
    { url, scope: 'download', ...(transformations ? { transformations } : {}) },
    seconds,
  );
  const route = transformations ? '/render/image/sign' : '/object/sign';
  return Response.json({ signedURL: `${route}/${url}?token=${token}` });
}

/** `POST /object/sign/{bucket}`: many in one request, with an error for each one that cannot be read. */
export async function signMany(context: StorageContext, call: Call, bucket: string): Promise<Response> {
  const body = await readJson(context, call);
  const seconds = secondsIn(body);
  const paths = textsIn(body, 'paths', 1000);
  const { rows } = await asCaller(
    context,
    { ...call, claims: call.caller.claims },
    (session) =>
      session.query<{ name: string }>(
        `select name from storage.objects
        where bucket_id = $1 and name in (select jsonb_array_elements_text($2::jsonb))`,
        [bucket, JSON.stringify(paths)],
      ),
    { readOnly: true },
  );
  const readable = new Set(rows.map(({ name }) => name));
  const answers = paths.map(async (path) => {
    if (!readable.has(path)) {
      const error = 'Either the object does not exist or you do not have access to it';
      return { error, path, signedURL: null };
    }
    const url = `${bucket}/${path}`;
    const token = await context.tokens.sign({ url, scope: 'download' }, seconds);
    return { error: null, path, signedURL: `/object/sign/${url}?token=${token}` };
  });
  return Response.json(await Promise.all(answers));
}

/** `POST /object/upload/sign/{bucket}/{key}`: the caller must be able to upload there. */
export async function signUpload(
  context: StorageContext,
  call: Call,
  bucket: string,
  key: string,
): Promise<Response> {
  const upsert = call.request.headers.get('x-upsert') === 'true';
  await checkTarget(context, call, ownTarget(call, bucket, key, upsert));
  const url = `${bucket}/${key}`;
  const { ownerId } = ownerOf(call.caller.claims);
  const token = await context.tokens.sign(
    { url, scope: 'upload', owner: ownerId, upsert },
    context.settings.uploadUrlSeconds,
  );
  return Response.json({ url: `/object/upload/sign/${url}?token=${token}`, token });
}
