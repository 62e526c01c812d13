// Reads the body of a request within limits, checks it and finds its columns. Its text is passed on unchanged.
import { DataError } from '../respond/data-error.ts';
import { pairsOf } from './query-string.ts';

/** Rows (or one function call's arguments) a client sent. */
export interface Payload {
  /** JSON text for PostgreSQL. */
  text: string;
  /** Its rows: 1 for an object. */
  rowCount: number;
  isArray: boolean;
  /** The columns of `columns=`, else the keys of the first object. */
  keys: readonly string[];
}

/**
 * Reads a request's body.
 * @param limit maximum bytes
 * @returns the body as text, bytes in PostgreSQL's hexadecimal form; '' without one
 * @throws DataError 413 above the limit, PGRST102 for invalid UTF-8
 */
export async function readBody(request: Request, limit: number): Promise<string> {
  // GET and HEAD have none; checking would create a stream.
  if (request.method === 'GET' || request.method === 'HEAD') return '';
  const declared = Number(request.headers.get('content-length') ?? 0);
  if (declared > limit) throw tooLong(limit);
  if (!request.body) return '';
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of request.body) {
    length += chunk.byteLength;
    // Leaving the loop cancels the rest of the stream.
    if (length > limit) throw tooLong(limit);
    chunks.push(chunk);
  }
  const bytes = Buffer.concat(chunks);
  if (bytes.length > 0 && mediaTypeOf(request.headers.get('content-type')) === 'application/octet-stream') {
    return `\\x${bytes.toString('hex')}`;
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw badBody('The body is not valid UTF-8');
  }
}

/** Maximum nesting of JSON. PostgreSQL parses it recursively: deeper values cost it more, and exceed its stack. */
const deepest = 1000;

/** @throws DataError PGRST102 when JSON is nested too deeply */
export function checkNesting(body: string, contentType: string | null): void {
  if (body.length <= deepest || !mediaTypeOf(contentType).endsWith('json')) return;
  let depth = 0;
  let isInText = false;
  for (let at = 0; at < body.length; at += 1) {
    const character = body[at];
    if (isInText && character === '\\') at += 1;
    else if (character === '"') isInText = !isInText;
    else if (isInText) continue;
    else if (character === '[' || character === '{') depth += 1;
    else if (character === ']' || character === '}') depth -= 1;
    if (depth > deepest) throw badBody(`JSON is nested deeper than ${deepest} levels`);
  }
}

/**
 * Parses a body into rows.
 * @param body the body's text
 * @param contentType the Content-Type header, null for JSON
 * @param columns the names given by `columns=`; other keys are ignored then
 * @throws DataError PGRST102 when the body does not fit its type or its objects differ in their keys
 */
export function parsePayload(
  body: string,
  contentType: string | null,
  columns: readonly string[] | null,
): Payload {
  const type = mediaTypeOf(contentType);
  switch (type) {
    case 'application/json':
    case 'application/vnd.pgrst.object+json':
    case 'application/vnd.pgrst.array+json':
      return jsonPayload(body, columns);
    case 'text/csv':
      return csvPayload(body, columns);
    case 'application/x-www-form-urlencoded': {
      const row = Object.fromEntries(pairsOf(body));
      return { text: JSON.stringify(row), rowCount: 1, isArray: false, keys: columns ?? Object.keys(row) };
    }
    default:
      throw badBody(`Content-Type not acceptable: ${type}`);
  }
}

/** The media type of a Content-Type header without its parameters; JSON when there is no header. */
export function mediaTypeOf(contentType: string | null): string {
  return contentType?.split(';', 1)[0]?.trim().toLowerCase() || 'application/json';
}

function jsonPayload(text: string, columns: readonly string[] | null): Payload {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw badBody('Empty or invalid json');
  }
  if (!Array.isArray(value)) {
    if (typeof value !== 'object' || value === null) {
      return { text: '[]', rowCount: 0, isArray: true, keys: columns ?? [] };
    }
    return { text, rowCount: 1, isArray: false, keys: columns ?? Object.keys(value) };
  }
  const payload = { text, rowCount: value.length, isArray: true };
  const first: unknown = value[0];
  if (columns || first === undefined) return { ...payload, keys: columns ?? [] };
  const keys = isObject(first) ? Object.keys(first) : [];
  for (const row of value) {
    if (!isObject(row) || !hasKeys(row, keys)) throw badBody('All object keys must match');
  }
  return { ...payload, keys };
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function hasKeys(row: object, keys: readonly string[]): boolean {
  return Object.keys(row).length === keys.length && keys.every((key) => Object.hasOwn(row, key));
}

function csvPayload(text: string, columns: readonly string[] | null): Payload {
  const [header, ...lines] = csvLines(text);
  if (!header) return { text: '[]', rowCount: 0, isArray: true, keys: columns ?? [] };
  const rows = lines.map((line) => {
    if (line.length !== header.length) throw badBody('All lines must have same number of fields');
    return Object.fromEntries(header.map((name, at) => [name, line[at] === 'NULL' ? null : line[at]]));
  });
  return { text: JSON.stringify(rows), rowCount: rows.length, isArray: true, keys: columns ?? header };
}

function csvLines(text: string): string[][] {
  const lines: string[][] = [];
  let line: string[] = [];
  // A field, quoted or bare, and its delimiter.
  const field = /(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r?\n|$)/gy;
  while (field.lastIndex < text.length) {
    const found = field.exec(text);
    if (!found) throw badBody('Invalid csv');
    line.push(found[1] === undefined ? (found[2] ?? '') : found[1].replaceAll('""', '"'));
    if (found[3] === ',') {
      if (field.lastIndex === text.length) line.push('');
      else continue;
    }
    // Empty lines are no rows.
    if (line.length > 1 || line[0] !== '') lines.push(line);
    line = [];
  }
  return lines;
}

const badBody = (message: string) => new DataError(400, { code: 'PGRST102', message });

const tooLong = (limit: number) =>
  new DataError(413, {
    code: 'PGRST102',
    message: 'The body is too long',
    details: `A body of at most ${limit} bytes is accepted`,
  });
