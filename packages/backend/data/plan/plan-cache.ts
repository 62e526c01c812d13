// Caches plans of reads and calls: requests that differ only in the values of filters or arguments are planned once.
import { randomUUID } from 'node:crypto';
import type { ParsedRequest, RequestParts } from '../parse/parse.ts';
import { mediaTypeOf } from '../parse/payload.ts';
import { decode } from '../parse/query-string.ts';
import type { SchemaCache } from '../schema/schema-types.ts';
import { patternOf } from '../sql/sql-conditions.ts';
import type { Statement } from '../sql/sql-writer.ts';
import type { CallPlan, ReadPlan } from './plan-types.ts';

/** A request that is ready to run, except for its values. */
export interface PlannedRequest {
  parsed: ParsedRequest;
  plan: ReadPlan | CallPlan;
  statement: Statement;
  /** As `checkSize` returns it. */
  cost: number;
}

const maxCachedPlans = 500;
const maxKeyLength = 2000;
/** The headers a plan depends on. */
const headers = ['accept', 'prefer', 'range', 'accept-profile', 'content-profile', 'content-type'];

/** Plans of one schema cache, by the shapes of requests; the least recently used are forgotten. */
export class PlanCache {
  #plans = new Map<string, PlannedRequest>();
  #schema: SchemaCache | null = null;

  /** Returns a cached plan, or null. */
  find(key: string | null, schema: SchemaCache): PlannedRequest | null {
    if (key === null || schema !== this.#schema) return null;
    const cached = this.#plans.get(key);
    if (!cached) return null;
    // The last of the map is the latest used.
    this.#plans.delete(key);
    this.#plans.set(key, cached);
    return cached;
  }

  /** Stores a plan until the schema changes or the plan is evicted. */
  store(key: string | null, schema: SchemaCache, planned: PlannedRequest): void {
    if (key === null) return;
    if (schema !== this.#schema) {
      this.#plans = new Map();
      this.#schema = schema;
    }
    this.#plans.set(key, planned);
    if (this.#plans.size <= maxCachedPlans) return;
    const [oldest] = this.#plans.keys();
    if (oldest !== undefined) this.#plans.delete(oldest);
  }
}

/** A request without the parts that its plan does not depend on: the values of its filters or arguments. */
export interface RequestShape {
  /** Null when it is not worth caching. */
  key: string | null;
  /** The request with placeholders for those values. */
  parts: RequestParts;
  /** Replaces the placeholders in a statement with the values. */
  fill(statement: Statement): Statement;
}

/**
 * Takes the values out of a request.
 * @returns for changes of tables and for very long requests: the request as is, without a key
 */
export function shapeOf(parts: RequestParts): RequestShape {
  const { method, path, search, headers: given, body } = parts;
  const unshaped = { key: null, parts, fill: (statement: Statement) => statement };
  const isCall = path.startsWith('/rpc/');
  const isRead = (method === 'GET' || method === 'HEAD') && body === '';
  if (!(isRead || (isCall && method === 'POST')) || search.length > maxKeyLength) return unshaped;
  const values = new Map<string, string>();
  const shape = isCall ? search : withPlaceholders(search, values);
  let shapedBody = body;
  if (body !== '') {
    const names = argumentNames(body, given.get('content-type'));
    if (!names) return unshaped;
    shapedBody = JSON.stringify(Object.fromEntries(names.map((name) => [name, placeholderPrefix])));
    values.set(shapedBody, body);
    // As the statement of a call wraps its arguments.
    values.set(`[${shapedBody}]`, `[${body}]`);
  }
  let key = `${method} ${path}?${shape}\n${shapedBody}`;
  for (const name of headers) key += `\n${given.get(name) ?? ''}`;
  if (key.length > 2 * maxKeyLength) return unshaped;
  if (values.size === 0) return { ...unshaped, key };
  return {
    key,
    parts: { ...parts, search: shape, body: shapedBody },
    fill: ({ sql, parameters }) => ({
      sql,
      parameters: parameters.map((parameter) => values.get(parameter) ?? parameter),
    }),
  };
}

// Random, so that no request contains them.
const placeholderPrefix = `value-${randomUUID()}-`;
// The text after such an operator is the value. Whether a pattern is allowed is decided by
// the plan, so those of match and imatch stay.
const comparison = /^([^=%+]+)=((?:not\.)?(?:eq|neq|gt|gte|lt|lte|like|ilike|isdistinct)\.)(.*)$/s;
const reserved = new Set(['select', 'columns', 'on_conflict', 'order', 'limit', 'offset', 'and', 'or']);

/** The names of the arguments in a body that is one JSON object, else null. */
function argumentNames(body: string, contentType: string | null): string[] | null {
  if (mediaTypeOf(contentType) !== 'application/json' || !body.trimStart().startsWith('{')) return null;
  try {
    return Object.keys(JSON.parse(body));
  } catch {
    // Refused with an error that the parser knows.
    return null;
  }
}

function withPlaceholders(search: string, values: Map<string, string>): string {
  if (!search.includes('.')) return search;
  const pairs = search.split('&').map((pair) => {
    const [, name, operator, raw] = comparison.exec(pair) ?? [];
    if (name === undefined || operator === undefined || raw === undefined) return pair;
    if (reserved.has(name.slice(name.lastIndexOf('.') + 1))) return pair;
    const value = decode(raw);
    // Such a value is refused with an error that contains it.
    if (value.includes('\0')) return pair;
    const placeholder = `${placeholderPrefix}${values.size}`;
    values.set(placeholder, operator.includes('like.') ? patternOf(value) : value);
    return `${name}=${operator}${placeholder}`;
  });
  return pairs.join('&');
}
