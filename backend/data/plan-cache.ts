// Remembers what reads that come again and again were planned as.
import type { ParsedRequest, RequestParts } from './parse.ts';
import type { CallPlan, ReadPlan } from './plan.ts';
import type { SchemaCache } from './schema-cache.ts';
import type { Statement } from './sql-writer.ts';

/** A request that is ready to run. */
export interface PlannedRequest {
  parsed: ParsedRequest;
  plan: ReadPlan | CallPlan;
  statement: Statement;
}

const mostKept = 500;
const longestKey = 2000;
/** The headers a plan depends on. */
const headers = ['accept', 'prefer', 'range', 'accept-profile'];

/** Plans of one schema cache, by all that they depend on; the least recently used are forgotten. */
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
    if (this.#plans.size <= mostKept) return;
    const [oldest] = this.#plans.keys();
    if (oldest !== undefined) this.#plans.delete(oldest);
  }
}

/**
 * What a request's plan depends on, as one text.
 * @returns null for requests with bodies, which hardly ever come again, and for very long ones
 */
export function planKeyOf({ method, path, search, headers: given, body }: RequestParts): string | null {
  if ((method !== 'GET' && method !== 'HEAD') || body !== '' || search.length > longestKey) return null;
  let key = `${method} ${path}?${search}`;
  for (const name of headers) key += `\n${given.get(name) ?? ''}`;
  return key;
}
