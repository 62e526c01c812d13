// Lists the objects of a bucket that the caller may see.
import { asCaller, type Call, type StorageContext } from './context.ts';
import {
  optionalFlagIn,
  optionalIntegerIn,
  optionalObjectIn,
  optionalTextIn,
  readJson,
} from './json-body.ts';
import { isoTime, type ObjectRow } from './rows.ts';
import { storageErrors } from './storage-error.ts';

type ListedRow = Pick<ObjectRow, 'name' | 'metadata'> & {
  id: string | null;
  updated_at: string | null;
  created_at: string | null;
  last_accessed_at: string | null;
};

/** PostgreSQL's largest integer. */
const maxOffset = 2_147_483_647;

const listedColumns = `name, id, ${isoTime('updated_at')}, ${isoTime('created_at')},
  ${isoTime('last_accessed_at')}, metadata`;

function readOrder(sortBy: Readonly<Record<string, unknown>> | null, columns: readonly string[]) {
  const column = optionalTextIn(sortBy ?? {}, 'column', 'name');
  const order = optionalTextIn(sortBy ?? {}, 'order', 'asc');
  if (!columns.includes(column)) {
    throw storageErrors.request('body/sortBy/column must be equal to one of the allowed values');
  }
  if (order !== 'asc' && order !== 'desc') {
    throw storageErrors.request('body/sortBy/order must be equal to one of the allowed values');
  }
  return { column, order };
}

/** `POST /object/list/{bucket}`: one folder. */
export async function listObjects(context: StorageContext, call: Call, bucket: string): Promise<Response> {
  const body = await readJson(context, call);
  if (body.prefix === undefined) throw storageErrors.request(`body must have required property 'prefix'`);
  const typedPrefix = optionalTextIn(body, 'prefix', '');
  const prefix = typedPrefix === '' || typedPrefix.endsWith('/') ? typedPrefix : `${typedPrefix}/`;
  const limit = optionalIntegerIn(body, 'limit', 100, { least: 1, most: 100_000 });
  const offset = optionalIntegerIn(body, 'offset', 0, { least: 0, most: maxOffset });
  const search = optionalTextIn(body, 'search', '');
  const { column, order } = readOrder(optionalObjectIn(body, 'sortBy'), [
    'name',
    'updated_at',
    'created_at',
    'last_accessed_at',
  ]);
  const { rows } = await asCaller(
    context,
    { ...call, claims: call.caller.claims },
    (session) =>
      session.query<ListedRow>(
        `select ${listedColumns}
        from storage.search($1, $2, $3::integer, $4::integer, $5::integer, $6, $7, $8)`,
        [prefix, bucket, limit, prefix.split('/').length, offset, search, column, order],
      ),
    { readOnly: true },
  );
  return Response.json(rows);
}

interface Cursor {
  name: string;
  moment: string;
  column: string;
  order: string;
}

/** `POST /object/list-v2/{bucket}`: everything below a prefix, or its folders, page by page. */
export async function listObjectsV2(context: StorageContext, call: Call, bucket: string): Promise<Response> {
  const body = await readJson(context, call);
  const prefix = optionalTextIn(body, 'prefix', '');
  const limit = optionalIntegerIn(body, 'limit', 1000, { least: 1, most: 1000 });
  const withDelimiter = optionalFlagIn(body, 'with_delimiter', false);
  const cursor = readCursor(optionalTextIn(body, 'cursor', null));
  const { column, order } =
    cursor ?? readOrder(optionalObjectIn(body, 'sortBy'), ['name', 'updated_at', 'created_at']);
  const { rows } = await asCaller(
    context,
    { ...call, claims: call.caller.claims },
    (session) =>
      session.query<ListedRow & { key: string }>(
        `select key, ${listedColumns}
        from storage.search_v2($1, $2, $3::integer, $4::integer, $5, $6, $7, $8)`,
        [
          prefix,
          bucket,
          limit + 1,
          withDelimiter ? prefix.split('/').length : 0,
          cursor?.name ?? '',
          order,
          column,
          cursor?.moment ?? '',
        ],
      ),
    { readOnly: true },
  );
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  const hasNext = rows.length > limit && last !== undefined;
  const moment = (column === 'updated_at' ? last?.updated_at : last?.created_at) ?? '-infinity';
  return Response.json({
    hasNext,
    ...(hasNext ? { nextCursor: cursorText({ name: last.name, moment, column, order }) } : {}),
    folders: page.filter(({ id }) => id === null),
    objects: page.filter(({ id }) => id !== null).map(({ key, ...object }) => object),
  });
}

function cursorText(cursor: Cursor): string {
  return Buffer.from(JSON.stringify(cursor)).toString('base64url');
}

function readCursor(text: string | null): Cursor | null {
  if (!text) return null;
  try {
    const { name, moment, column, order } = JSON.parse(Buffer.from(text, 'base64url').toString());
    const isMoment = moment === '-infinity' || /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(moment);
    if (typeof name === 'string' && isMoment)
      return { name, moment, ...readOrder({ column, order }, ['name', 'updated_at', 'created_at']) };
  } catch {
    // Reported below.
  }
  throw storageErrors.request('body/cursor is not one that was given out');
}
