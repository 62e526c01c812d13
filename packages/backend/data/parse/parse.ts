// First stage: parses an HTTP request to a query tree, without knowledge of the database except schema names.
import type { HeaderLookup } from '../../http/plain-request.ts';
import { DataError } from '../respond/data-error.ts';
import { type AcceptedType, parseAccept } from './media-type.ts';
import { mediaTypeOf, type Payload, parsePayload } from './payload.ts';
import { type Preferences, parsePreferences } from './preferences.ts';
import { parseQueryString } from './query-string.ts';
import type { Query } from './query-tree.ts';

type Method = 'GET' | 'HEAD' | 'POST' | 'PATCH' | 'PUT' | 'DELETE' | 'OPTIONS';

/** The parsed parts of a request, its body in memory. */
export interface RequestParts {
  method: string;
  /** The path below the service's root, still percent-encoded, such as `/books` or `/rpc/add`. */
  path: string;
  /** The query string without `?`. */
  search: string;
  headers: Pick<HeaderLookup, 'get'>;
  body: string;
}

/** Settings of the parser. */
export interface ParseContext {
  /** The exposed schemas; the first is meant when a request names none. */
  schemas: readonly string[];
  /** A function of the request's schema that answers at the root, in place of the service's description. */
  rootFunction?: string | null;
}

export interface ParsedRequest {
  method: Method;
  schema: string;
  /** Whether responses contain their schema. */
  showsSchema: boolean;
  target:
    | { kind: 'relation'; name: string }
    /** `isRoot`: in place of the service's description. */
    | { kind: 'function'; name: string; isRoot: boolean }
    | { kind: 'root' };
  query: Query;
  preferences: Preferences;
  /** The media types that are accepted, most wanted first. */
  accepted: readonly AcceptedType[];
  /** Rows requested with the Range header: `offset`, and `limit` unless open. */
  range: { offset: number; limit: number | null } | null;
  payload: Payload | null;
  /** The unparsed body, for a function that receives it whole. */
  body: string;
  contentType: string | null;
}

const relationMethods = new Set(['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE', 'OPTIONS']);
const rootMethods = new Set(['GET', 'HEAD', 'OPTIONS']);
const functionMethods = new Set(['GET', 'HEAD', 'POST', 'OPTIONS']);

/**
 * Parses a request.
 * @throws DataError for anything that is wrong without looking at the database: path, method, schema, query, preferences,
 * Accept, range or body
 */
export function parseRequest(parts: RequestParts, context: ParseContext): ParsedRequest {
  const target = parseTarget(parts, context.rootFunction ?? null);
  const method = parts.method as Method;
  const { schema, showsSchema } = parseSchema(parts, context.schemas);
  const isCall = target.kind === 'function';
  const isRead = method === 'GET' || method === 'HEAD';
  const preferences = parsePreferences(parts.headers.get('prefer'));
  const query = parseQueryString(parts.search, isCall && isRead);
  const contentType = parts.headers.get('content-type');
  return {
    method,
    schema,
    showsSchema,
    target,
    query,
    preferences,
    accepted: parseAccept(parts.headers.get('accept')),
    range: method === 'GET' ? parseRange(parts.headers.get('range')) : null,
    payload: parseRows(parts, method, isCall, query.columns, contentType),
    body: parts.body,
    contentType,
  };
}

function parseTarget({ path, method }: RequestParts, rootFunction: string | null): ParsedRequest['target'] {
  const [first = '', second, ...others] = path.split('/').slice(1).map(decodeSegment);
  const isRoot = first === '' && second === undefined;
  const called = isRoot ? rootFunction : first === 'rpc' && others.length === 0 ? second : null;
  if (called !== null && called !== undefined) {
    if (!functionMethods.has(method)) {
      throw new DataError(405, { code: 'PGRST101', message: `Cannot use the ${method} method on RPC` });
    }
    return { kind: 'function', name: called, isRoot };
  }
  if (isRoot) {
    if (!rootMethods.has(method)) throw unsupported(method);
    return { kind: 'root' };
  }
  if (second !== undefined) throw invalidPath();
  if (!relationMethods.has(method)) throw unsupported(method);
  return { kind: 'relation', name: first };
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw invalidPath();
  }
}

const unsupported = (method: string) =>
  new DataError(405, { code: 'PGRST117', message: `Unsupported HTTP method: ${method}` });

const invalidPath = () =>
  new DataError(404, { code: 'PGRST125', message: 'Invalid path specified in request URL' });

function parseSchema({ method, headers }: RequestParts, schemas: readonly string[]) {
  const isWrite = method !== 'GET' && method !== 'HEAD' && method !== 'OPTIONS';
  const profile = headers.get(isWrite ? 'content-profile' : 'accept-profile');
  const schema = profile ?? schemas[0] ?? 'public';
  if (!schemas.includes(schema)) {
    throw new DataError(406, {
      code: 'PGRST106',
      message: `Invalid schema: ${schema}`,
      hint: `Only the following schemas are exposed: ${schemas.join(', ')}`,
    });
  }
  return { schema, showsSchema: profile !== null || schemas.length > 1 };
}

function parseRange(header: string | null): ParsedRequest['range'] {
  const found = header?.match(/^\s*(?:items=)?(\d{1,15})-(\d{1,15})?\s*$/);
  if (!found) return null;
  const first = Number(found[1]);
  if (found[2] === undefined) return { offset: first, limit: null };
  const last = Number(found[2]);
  if (last < first) {
    throw new DataError(416, {
      code: 'PGRST103',
      message: 'Requested range not satisfiable',
      details: 'The lower boundary must be lower than or equal to the upper boundary in the Range header.',
    });
  }
  return { offset: first, limit: last - first + 1 };
}

function parseRows(
  { body }: RequestParts,
  method: Method,
  isCall: boolean,
  columns: readonly string[] | null,
  contentType: string | null,
): Payload | null {
  if (method !== 'POST' && method !== 'PATCH' && method !== 'PUT') return null;
  if (isCall) {
    const type = mediaTypeOf(contentType);
    // A function may receive such a body whole; it has no keys then.
    if (type === 'text/plain' || type === 'text/xml' || type === 'application/octet-stream') return null;
    if (body === '') return parsePayload('{}', null, columns);
    return parseCallArguments(body, contentType, columns);
  }
  return parsePayload(body, contentType, columns);
}

function parseCallArguments(
  body: string,
  contentType: string | null,
  columns: readonly string[] | null,
): Payload {
  try {
    return parsePayload(body, contentType, columns);
  } catch (error) {
    // A function with one unnamed argument accepts any array.
    if (error instanceof DataError && error.message === 'All object keys must match') {
      return { text: body, rowCount: 1, isArray: true, keys: [] };
    }
    throw error;
  }
}
