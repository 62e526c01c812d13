// Parses subscriptions to table changes, with the error texts of a hosted project.
import { createHash } from 'node:crypto';
import { isRecord } from '../connections/protocol.ts';

/** Operators of filters. */
const filterOperators = [
  'eq',
  'neq',
  'lt',
  'lte',
  'gt',
  'gte',
  'in',
  'like',
  'ilike',
  'is',
  'match',
  'imatch',
  'isdistinct',
] as const;

/** Maximum characters of a filter: a hundred UUIDs fit in one list. */
const maxFilterLength = 4_000;
const maxConditions = 10;

/** One condition on a column. */
export interface ChangeFilter {
  column: string;
  operator: (typeof filterOperators)[number];
  /** As text; for `in`, PostgreSQL's text form of an array. */
  value: string;
  isNegated: boolean;
}

export type ChangeType = 'INSERT' | 'UPDATE' | 'DELETE';

/** One parsed subscription. */
export interface ChangeInterest {
  event: ChangeType | '*';
  /** `*` stands for all, also as table. */
  schema: string;
  table: string;
  /** Joined with AND. */
  filters: readonly ChangeFilter[];
  /** Columns to send besides the primary key; null for all. */
  select: readonly string[] | null;
}

/** An accepted subscription: the client's parameters and a number. */
export type AcceptedBinding = Record<string, unknown> & { id: number };

/** Invalid parameters; the message is sent to the client. */
export class UnusableParams extends Error {
  override readonly name = 'UnusableParams';
}

/**
 * Numbers subscriptions: positive, and equal for equal parameters.
 * @param bindings as requested; the result has the same order and keys, which the client compares
 */
export function acceptBindings(bindings: readonly Record<string, unknown>[]): AcceptedBinding[] {
  return bindings.map((binding) => ({ ...binding, id: numberOf(binding) }));
}

/**
 * Reads one subscription.
 * @param params `{ event?, schema?, table?, filter?, select? }` as the client sent it
 * @throws UnusableParams
 */
export function readInterest(params: Readonly<Record<string, unknown>>): ChangeInterest {
  const { schema, table, filter } = params;
  const select = readSelect(params.select);
  const isString = (value: unknown): value is string => typeof value === 'string';
  const isAbsent = (value: unknown) => value === undefined || value === null;
  const event = readEvent(params.event);
  const hasTable = isString(table) && (isString(schema) || isAbsent(schema));
  const hasSchemaOnly = isString(schema) && isAbsent(table);
  const mayHaveFilter = isString(schema) && isString(table) && isString(filter);
  if (!(hasTable || hasSchemaOnly) || !(isAbsent(filter) || mayHaveFilter)) {
    throw new UnusableParams(
      'No subscription params provided. Please provide at least a `schema` or `table` to subscribe to: ' +
        inspected(params),
    );
  }
  const interest: ChangeInterest = {
    event,
    schema: isString(schema) ? schema : 'public',
    table: isString(table) ? table : '*',
    filters: isString(filter) ? readFilters(filter) : [],
    select,
  };
  if (select && (interest.schema === '*' || interest.table === '*')) {
    throw new UnusableParams(
      'Column selection is not supported for wildcard subscriptions. Provide an explicit schema and table name.',
    );
  }
  return interest;
}

/** Describes an interest as a hosted project lists it in messages. */
export function listedInterest({ event, schema, table, filters, select }: ChangeInterest): string {
  const listed = filters.map(
    ({ column, operator, value, isNegated }) =>
      `{${[column, operator, value].map((part) => inspected(part)).join(', ')}, ${isNegated}}`,
  );
  return `event: ${event}, schema: ${schema}, table: ${table}, filters: [${listed.join(', ')}], select: ${inspected(select)}`;
}

function readEvent(event: unknown): ChangeInterest['event'] {
  const upper = typeof event === 'string' ? event.toUpperCase() : '*';
  return upper === 'INSERT' || upper === 'UPDATE' || upper === 'DELETE' ? upper : '*';
}

function readSelect(select: unknown): string[] | null {
  if (typeof select === 'string') {
    throw new UnusableParams(
      'Error parsing `select` params: expected a list of column name strings, e.g. select: ["col1", "col2"]',
    );
  }
  if (!Array.isArray(select)) return null;
  const columns = select.filter((column) => typeof column === 'string');
  return columns.length > 0 ? [...new Set(columns)].sort() : null;
}

function readFilters(text: string): ChangeFilter[] {
  if (text.length > maxFilterLength) throw unreadable(`filter is longer than ${maxFilterLength} characters`);
  if (text.trim() === '') return [];
  const segments = segmentsOf(text.trim());
  if (segments.length > maxConditions) throw unreadable(`filter has more than ${maxConditions} conditions`);
  return segments.map(readFilter);
}

/**
 * Splits at commas outside parentheses and quotes; quotes count at the beginning of a value only.
 * @param isList whether the segments themselves are values
 */
function segmentsOf(text: string, isList = false): string[] {
  const segments: string[] = [];
  let current = '';
  let depth = 0;
  let isQuoted = false;
  for (let index = 0; index < text.length; index += 1) {
    const char = text[index] ?? '';
    if (isQuoted) {
      if (char === '\\') {
        current += char;
        index += 1;
      } else if (char === '"') isQuoted = false;
    } else if (char === '"')
      isQuoted = '.(,'.includes(current.at(-1) ?? ' ') || (isList && current.trim() === '');
    else if (char === '(') depth += 1;
    else if (char === ')') depth = Math.max(0, depth - 1);
    else if (char === ',' && depth === 0) {
      segments.push(current);
      current = '';
      continue;
    }
    current += text[index] ?? '';
  }
  return [...segments, current];
}

function readFilter(segment: string): ChangeFilter {
  const text = segment.trim();
  if (text === '') throw unreadable('filter must not contain empty segments (check for extra commas)');
  const [, column, prefix, rest] = /^([^=]*)=(not\.)?(.*)$/s.exec(text) ?? [];
  if (column === undefined || rest === undefined) throw unreadable(inspected([text]));
  const [, operator, value] = /^([^.]*)\.(.*)$/s.exec(rest) ?? [];
  if (operator === undefined || value === undefined) throw unreadable(inspected([rest]));
  const filterOperator = filterOperators.find((name) => name === operator);
  if (!filterOperator) throw unreadable(inspected([operator, value]));
  const isNegated = prefix !== undefined;
  if (filterOperator !== 'in') return { column, operator: filterOperator, value: unquoted(value), isNegated };
  if (!/^\(.*\)$/s.test(value)) throw unreadable('`in` filter value must be wrapped by parentheses');
  // The list's quoting is that of PostgreSQL's arrays; braces in a value are not.
  return { column, operator: filterOperator, value: arrayTextOf(value.slice(1, -1)), isNegated };
}

function unreadable(what: string): UnusableParams {
  return new UnusableParams(`Error parsing \`filter\` params: ${what}`);
}

function unquoted(value: string): string {
  return /^"(?:[^"\\]|\\.)*"$/s.test(value) ? value.slice(1, -1).replace(/\\(.)/gs, '$1') : value;
}

function arrayTextOf(list: string): string {
  const items = list.trim() === '' ? [] : segmentsOf(list, true);
  const quoted = items.map((item) => `"${unquoted(item.trim()).replace(/["\\]/g, '\\$&')}"`);
  return `{${quoted.join(',')}}`;
}

/** Formats values as Elixir prints them, which clients of a hosted project read. */
function inspected(value: unknown): string {
  if (value === null || value === undefined) return 'nil';
  if (typeof value === 'string') return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(inspected).join(', ')}]`;
  if (!isRecord(value)) return String(value);
  const entries = Object.entries(value).map(([key, entry]) => `${inspected(key)} => ${inspected(entry)}`);
  return `%{${entries.join(', ')}}`;
}

function numberOf(binding: Record<string, unknown>): number {
  const sorted = Object.entries(binding).sort(([a], [b]) => (a < b ? -1 : 1));
  const hash = createHash('sha256').update(JSON.stringify(sorted)).digest();
  return (hash.readUInt32BE(0) >>> 5) + 1;
}
