// Remembers what reads were planned as: requests that differ only in the values they compare with are planned once.
import { randomUUID } from 'node:crypto';
import type { ParsedRequest, RequestParts } from './parse.ts';
import type { CallPlan, ReadPlan } from './plan-types.ts';
import { decode } from './query-string.ts';
import type { SchemaCache } from './schema-types.ts';
import { patternOf } from './sql-conditions.ts';
import type { Statement } from './sql-writer.ts';

/** A request that is ready to run, but for its values. */
export interface PlannedRequest {
  parsed: ParsedRequest;
  plan: ReadPlan | CallPlan;
  statement: Statement;
  /** As `checkSize` gives it. */
  cost: number;
}

const maxCachedPlans = 500;
const longestKey = 2000;
/** The headers a plan depends on. */
const headers = ['accept', 'prefer', 'range', 'accept-profile'];

/** Plans of one schema cache, by the shapes of requests; the least recently used are forgotten. */
export class PlanCache {
  #plans = new Map<string, PlannedRequest>();
  #schema: SchemaCache | null = null;

  /** Gives what a request was planned as, null when that is not remembered. */
  find(key: string | null, schema: SchemaCache): PlannedRequest | null {
    if (key === null || schema !== this.#schema) return null;
    const known = this.#plans.get(key);
    if (!known) return null;
    // The last of the map is the latest used.
    this.#plans.delete(key);
    this.#plans.set(key, known);
    return known;
  }

  /** Remembers a plan until the schema changes or others are used more. */
  keep(key: string | null, schema: SchemaCache, planned: PlannedRequest): void {
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

/** A read without what its plan does not depend on: the values that its filters compare with. */
export interface RequestShape {
  /** Null when it is not worth remembering. */
  key: string | null;
  /** The request with stand-ins for those values. */
  parts: RequestParts;
  /** Puts the values back into a statement that was written for the request with stand-ins. */
  fill(statement: Statement): Statement;
}

/**
 * Takes the values out of a request.
 * @returns for requests with bodies, which hardly ever come again, and for very long ones: the request as it is, no key
 */
export function shapeOf(parts: RequestParts): RequestShape {
  const { method, path, search, headers: given, body } = parts;
  const asItIs = { key: null, parts, fill: (statement: Statement) => statement };
  const isRead = (method === 'GET' || method === 'HEAD') && body === '' && search.length <= longestKey;
  if (!isRead) return asItIs;
  const values = new Map<string, string>();
  const shape = path.startsWith('/rpc/') ? search : withStandIns(search, values);
  let key = `${method} ${path}?${shape}`;
  for (const name of headers) key += `\n${given.get(name) ?? ''}`;
  if (key.length > 2 * longestKey) return asItIs;
  if (values.size === 0) return { ...asItIs, key };
  return {
    key,
    parts: { ...parts, search: shape },
    fill: ({ sql, parameters }) => ({
      sql,
      parameters: parameters.map((parameter) => values.get(parameter) ?? parameter),
    }),
  };
}

// Nobody can guess them: they mean nothing in a request.
const standIn = `value-${randomUUID()}-`;
// What follows such an operator is the value, whatever it looks like. Whether a pattern may be asked for is a matter of
// the plan, so those of match and imatch stay.
const comparison = /^([^=%+]+)=((?:not\.)?(?:eq|neq|gt|gte|lt|lte|like|ilike|isdistinct)\.)(.*)$/s;
const reserved = new Set(['select', 'columns', 'on_conflict', 'order', 'limit', 'offset', 'and', 'or']);

function withStandIns(search: string, values: Map<string, string>): string {
  if (!search.includes('.')) return search;
  const pairs = search.split('&').map((pair) => {
    const [, name, operator, raw] = comparison.exec(pair) ?? [];
    if (name === undefined || operator === undefined || raw === undefined) return pair;
    if (reserved.has(name.slice(name.lastIndexOf('.') + 1))) return pair;
    const value = decode(raw);
    // Such a value is refused, in words that repeat it.
    if (value.includes('\0')) return pair;
    const placeholder = `${standIn}${values.size}`;
    values.set(placeholder, operator.includes('like.') ? patternOf(value) : value);
    return `${name}=${operator}${placeholder}`;
  });
  return pairs.join('&');
}
