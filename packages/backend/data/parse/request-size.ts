// Limits of a request's size and of its answer's, by the parts that make PostgreSQL's work grow. The embedded database cannot
// interrupt a statement, so expensive ones are rejected before they run.
import { patternCost } from '../../limits/pattern-cost.ts';
import { DataError } from '../respond/data-error.ts';
import type { ParsedRequest } from './parse.ts';
import type { Condition, Operation, Query, SelectItem } from './query-tree.ts';

/** Bounds of one request. */
export interface SizeLimits {
  /** Characters of path and query string. */
  maxUrlLength: number;
  /** Bytes of the body. */
  maxBodyBytes: number;
  /** Keys of the first row, or arguments of a function. */
  maxKeys: number;
  /** Rows of an insert. */
  maxInsertedRows: number;
  /** Columns and aggregates that are selected, at all depths together. */
  maxSelected: number;
  /** Embeds, at all depths together. */
  maxEmbeds: number;
  /** Comparisons, at all depths together; each member of an `any` or `all` list is one. */
  maxFilters: number;
  /** Members of all `in` lists together. */
  maxListMembers: number;
  /** Terms to order by, at all depths together. */
  maxOrders: number;
  /** Rows to skip. */
  maxOffset: number;
  /** Characters of one text search. */
  maxSearchLength: number;
  /** Maximum words of all text searches together. */
  maxSearchWords: number;
  /** States of the automata of all regular expressions together. */
  maxPatternStates: number;
  /** Rows of a read or a function, and rows embedded in any one row. */
  maxRows: number;
  /** Bytes of the answer's body. */
  maxAnswerBytes: number;
  /** Whether a level may select a column, or embed by a relationship, several times under different names. */
  allowsRepeats: boolean;
}

/** Measured size of a request. */
interface RequestSize {
  selected: number;
  embeds: number;
  filters: number;
  listMembers: number;
  orders: number;
  offset: number;
  searchLength: number;
  searchWords: number;
  patternStates: number;
  rows: number;
  keys: number;
}

/**
 * Checks a request against its bounds.
 * @returns its cost, where 1 is a plain read of a few rows
 * @throws DataError 400 naming the bound
 */
export function checkSize(request: ParsedRequest, limits: SizeLimits): number {
  const size = sizeOf(request, limits);
  const refuseAbove = (count: number, most: number, what: string) => {
    if (count > most) throw tooMany(what, most);
  };
  refuseAbove(size.embeds, limits.maxEmbeds, 'embedded resources');
  // PostgreSQL's own error texts.
  if (size.searchLength > limits.maxSearchLength || size.searchWords > limits.maxSearchWords) {
    throw new DataError(400, { code: '54000', message: 'tsquery is too large' });
  }
  if (size.patternStates > limits.maxPatternStates) {
    throw new DataError(400, {
      code: '2201B',
      message: 'invalid regular expression: regular expression is too complex',
    });
  }
  refuseAbove(size.filters, limits.maxFilters, 'filters');
  refuseAbove(size.listMembers, limits.maxListMembers, 'values in lists');
  refuseAbove(size.selected, limits.maxSelected, 'selected columns');
  refuseAbove(size.orders, limits.maxOrders, 'columns to order by');
  refuseAbove(size.keys, limits.maxKeys, 'columns or arguments');
  refuseAbove(size.rows, limits.maxInsertedRows, 'rows');
  if (size.offset > limits.maxOffset) {
    throw new DataError(416, {
      code: 'PGRST103',
      message: 'Requested range not satisfiable',
      details: `An offset of at most ${limits.maxOffset} is accepted`,
    });
  }
  return costOf(request, size);
}

/** @throws DataError 414 when path and query string are longer than accepted */
export function checkUrlLength(length: number, { maxUrlLength }: SizeLimits): void {
  if (length > maxUrlLength) {
    throw new DataError(414, {
      code: 'PGRST100',
      message: 'The URL is too long',
      details: `At most ${maxUrlLength} characters are accepted`,
    });
  }
}

const tooMany = (what: string, most: number) =>
  new DataError(400, {
    code: 'PGRST100',
    message: `The request has too many ${what}`,
    details: most === 1 ? 'At most 1 is allowed' : `At most ${most} are allowed`,
  });

function costOf({ target, method, preferences }: ParsedRequest, size: RequestSize): number {
  const base = target.kind === 'root' ? 10 : target.kind === 'function' || method !== 'GET' ? 2 : 1;
  return (
    base +
    size.embeds +
    size.filters / 5 +
    size.listMembers / 50 +
    size.orders / 5 +
    size.searchWords +
    size.patternStates / 20 +
    size.rows / 10 +
    (preferences.count ? 1 : 0)
  );
}

function sizeOf({ target, query, payload, range, method }: ParsedRequest, limits: SizeLimits): RequestSize {
  const size: RequestSize = {
    selected: 0,
    embeds: 0,
    filters: 0,
    listMembers: 0,
    orders: sum(query.orders, ({ terms }) => terms.length),
    offset: Math.max(range?.offset ?? 0, ...query.offsets.map(({ offset }) => offset)),
    searchLength: 0,
    searchWords: 0,
    patternStates: 0,
    rows: target.kind === 'relation' && method !== 'PATCH' ? (payload?.rowCount ?? 0) : 0,
    keys: Math.max(payload?.keys.length ?? 0, query.columns?.length ?? 0, query.arguments.length),
  };
  addSelected(query.select, size);
  addConditions(query, size, limits);
  return size;
}

function addSelected(items: readonly SelectItem[], size: RequestSize): void {
  for (const item of items) {
    if (item.kind === 'embed') {
      size.embeds += 1;
      addSelected(item.items, size);
    } else size.selected += 1;
  }
}

function addConditions({ conditions }: Query, size: RequestSize, limits: SizeLimits): void {
  const add = (condition: Condition) => {
    if (condition.kind === 'group') condition.conditions.forEach(add);
    else addOperation(condition.operation, size, limits);
  };
  for (const { condition } of conditions) add(condition);
}

function addOperation(operation: Operation, size: RequestSize, limits: SizeLimits): void {
  size.filters += 1;
  if (operation.kind === 'in') size.listMembers += operation.values.length;
  if (operation.kind === 'search') {
    size.searchLength = Math.max(size.searchLength, operation.value.length);
    if (operation.value.length <= limits.maxSearchLength) size.searchWords += wordsIn(operation.value);
  }
  if (operation.kind !== 'comparison') return;
  const { operator, quantifier, value } = operation;
  const members = quantifier ? value.split(',').length : 1;
  size.filters += members - 1;
  const isPattern = operator === 'match' || operator === 'imatch';
  if (isPattern && limits.maxPatternStates < Number.POSITIVE_INFINITY) {
    size.patternStates += patternCost(value);
  }
}

/** Upper bound of the words PostgreSQL's parser counts: it splits compound words. */
function wordsIn(text: string): number {
  return text.match(/[\p{L}\p{N}]+/gu)?.length ?? 0;
}

function sum<T>(items: readonly T[], count: (item: T) => number): number {
  return items.reduce((total, item) => total + count(item), 0);
}
