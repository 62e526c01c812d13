// The grammar of the query string: select, filters, logic, order, limits and columns.
import { DataError } from '../respond/data-error.ts';
import type {
  Aggregate,
  Comparison,
  Condition,
  Field,
  Filter,
  IsValue,
  JsonStep,
  Operation,
  OrderTerm,
  Query,
  SelectItem,
  TextSearch,
} from './query-tree.ts';

const quantified = new Set(['eq', 'gt', 'gte', 'lt', 'lte', 'like', 'ilike', 'match', 'imatch']);
const comparisons = new Set([
  ...quantified,
  ...['neq', 'cs', 'cd', 'ov', 'sl', 'sr', 'nxr', 'nxl', 'adj', 'isdistinct'],
]);
const searches = new Set(['fts', 'plfts', 'phfts', 'wfts']);

const wholeStar: readonly SelectItem[] = [{ kind: 'star' }];

/**
 * Parses the query part of a URL.
 * @param search the part after `?`, still percent-encoded
 * @param takesArguments whether a value without an operator is an argument of the called function
 * @returns the query; without `select` every column
 * @throws DataError PGRST100 naming the text and the column where parsing stopped
 */
export function parseQueryString(search: string, takesArguments = false): Query {
  let select: readonly SelectItem[] | null = null;
  let columns: string[] | null = null;
  let onConflict: string[] | null = null;
  const conditions: Array<Query['conditions'][number]> = [];
  const orders: Array<Query['orders'][number]> = [];
  const limits: Array<Query['limits'][number]> = [];
  const offsets: Array<Query['offsets'][number]> = [];
  const functionArguments: Array<Query['arguments'][number]> = [];

  for (const [key, value] of pairsOf(search)) {
    if (key === 'select') {
      // The first of repeated parameters counts, except for limit and offset.
      select ??= parseSelect(value);
      continue;
    }
    if (key === 'columns') {
      columns ??= parseNames(value, 'columns parameter');
      continue;
    }
    if (key === 'on_conflict') {
      onConflict ??= parseNames(value, 'on_conflict parameter');
      continue;
    }
    const lastDot = key.lastIndexOf('.');
    const lastSegment = key.slice(lastDot + 1);
    const rest = lastDot < 0 ? '' : key.slice(0, lastDot);
    switch (lastSegment) {
      case 'order':
        addOnce(orders, { path: parsePath(rest), terms: parseOrder(value) });
        break;
      case 'limit':
      case 'offset': {
        if (!/^-?\d{1,15}$/.test(value)) break;
        const path = parsePath(rest);
        // The last limit and the last offset count.
        if (lastSegment === 'limit') limits.unshift({ path, limit: Number(value) });
        else offsets.unshift({ path, offset: Number(value) });
        break;
      }
      case 'and':
      case 'or': {
        const isNegated = rest === 'not' || rest.endsWith('.not');
        const path = parsePath(isNegated ? rest.slice(0, -'.not'.length) : rest);
        conditions.push({ path, condition: parseLogic(lastSegment, isNegated, value) });
        break;
      }
      default: {
        if (takesArguments && !looksLikeOperation(value)) {
          functionArguments.push([key, value]);
          break;
        }
        const { path, field } = parseKey(key);
        conditions.push({ path, condition: parseFilter(field, value) });
      }
    }
  }
  return {
    ...{ select: select ?? wholeStar, conditions, orders, limits, offsets },
    ...{ columns, onConflict, arguments: functionArguments },
  };
}

/** Adds a value for a path that must not have one yet. */
function addOnce<T extends { path: readonly string[] }>(entries: T[], entry: T): void {
  const isSame = ({ path }: T) =>
    path.length === entry.path.length && path.every((step, at) => step === entry.path[at]);
  if (!entries.some(isSame)) entries.push(entry);
}

/** The pairs of a query string or form body, decoded; keys without `=` are left out. */
export function* pairsOf(search: string): Generator<[string, string]> {
  if (search === '') return;
  for (const pair of search.split('&')) {
    const equals = pair.indexOf('=');
    if (equals > 0) yield [decode(pair.slice(0, equals)), decode(pair.slice(equals + 1))];
  }
}

/** Decodes a part of a query string or form body. */
export function decode(text: string): string {
  const spaced = text.includes('+') ? text.replaceAll('+', ' ') : text;
  if (!spaced.includes('%')) return spaced;
  try {
    return decodeURIComponent(spaced);
  } catch {
    // Bytes that are no UTF-8 become replacement characters, as everywhere on the web.
    return new URLSearchParams(`v=${text}`).get('v') ?? '';
  }
}

const nameAt = /[\p{L}\p{N}_$ ]+(?:-(?!>)[\p{L}\p{N}_$ ]+)*/uy;
const quotedAt = /"((?:[^"\\]|\\.)*)"/suy;
const jsonKeyAt = /[^-:.,>()]+(?:-(?!>)[^-:.,>()]+)*/uy;
const indexAt = /-?\d{1,9}(?=->|::|[.,)]|$)/y;
const castAt = /[^,.():]+/y;
const wordAt = /[a-z]+/y;
const parenthesisedAt = /\(([^()]*)\)/y;
const bareElementAt = /[^,)]*/y;
const arrayLiteralAt = /\{[^{}]*\}/y;
const anythingAt = /.*/sy;
const moreOrEnd = '"," or end of input';
const fieldName = 'field name (* or [a..z0..9_$])';

class Cursor {
  readonly text: string;
  readonly #what: string;
  readonly #shown: string;
  position = 0;

  constructor(text: string, what: string, shown = text) {
    this.text = text;
    this.#what = what;
    this.#shown = shown;
    // A name with this character would terminate the quoted identifier.
    const nul = text.indexOf('\0');
    if (nul >= 0) {
      this.position = nul;
      this.fail('text without NUL');
    }
  }

  get isAtEnd(): boolean {
    return this.position >= this.text.length;
  }

  at(literal: string): boolean {
    return this.text.startsWith(literal, this.position);
  }

  take(literal: string): boolean {
    if (!this.at(literal)) return false;
    this.position += literal.length;
    return true;
  }

  expect(literal: string, expecting = `"${literal}"`): void {
    if (!this.take(literal)) this.fail(expecting);
  }

  match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.position;
    const found = pattern.exec(this.text);
    if (found) this.position = pattern.lastIndex;
    return found;
  }

  name(expecting = fieldName): string {
    const start = this.position;
    const quoted = this.match(quotedAt);
    const name = quoted ? unescaped(quoted[1] ?? '') : this.match(nameAt)?.[0].trim();
    if (!name) {
      this.position = start;
      this.fail(expecting);
    }
    return name;
  }

  skipSpaces(): void {
    while (this.text[this.position] === ' ') this.position++;
  }

  finish(expecting: string): void {
    if (!this.isAtEnd) this.fail(expecting);
  }

  fail(expecting: string): never {
    const character = String.fromCodePoint(this.text.codePointAt(this.position) ?? 0);
    const expected = expecting === moreOrEnd ? `'${character}'` : JSON.stringify(character);
    const unexpected = this.isAtEnd ? 'end of input' : expected;
    throw new DataError(400, {
      code: 'PGRST100',
      message: `"failed to parse ${this.#what} (${this.#shown})" (line 1, column ${this.position + 1})`,
      details: `unexpected ${unexpected} expecting ${expecting}`,
    });
  }
}

const unescaped = (text: string) => (text.includes('\\') ? text.replace(/\\(.)/gsu, '$1') : text);

function parseSelect(text: string): SelectItem[] {
  // Text after a complete list is ignored, as in PostgREST.
  const items = parseItems(new Cursor(text, 'select parameter'), 0);
  return items.length > 0 ? items : [...wholeStar];
}

const maximumNesting = 64;

function parseItems(cursor: Cursor, depth: number): SelectItem[] {
  if (depth > maximumNesting) cursor.fail('fewer nested parentheses');
  const items: SelectItem[] = [];
  cursor.skipSpaces();
  if (cursor.isAtEnd || cursor.at(')')) return items;
  do {
    cursor.skipSpaces();
    items.push(parseItem(cursor, depth));
    cursor.skipSpaces();
  } while (cursor.take(','));
  return items;
}

function parseItem(cursor: Cursor, depth: number): SelectItem {
  if (cursor.take('...')) return parseEmbed(cursor, cursor.name(), null, true, depth);
  if (cursor.take('*')) return { kind: 'star' };
  let name = cursor.name();
  let alias: string | null = null;
  if (cursor.at(':') && !cursor.at('::')) {
    cursor.take(':');
    alias = name;
    name = cursor.name();
  }
  if (name === 'count' && cursor.take('()')) {
    const aggregateCast = parseCast(cursor);
    return { kind: 'field', field: null, alias, cast: null, aggregate: 'count', aggregateCast };
  }
  if (cursor.at('(') || cursor.at('!')) return parseEmbed(cursor, name, alias, false, depth);
  const field = { name, path: parseJsonPath(cursor) };
  const cast = parseCast(cursor);
  let aggregate: Aggregate | null = null;
  if (cursor.take('.')) {
    aggregate = (['sum', 'avg', 'count', 'max', 'min'] as const).find((each) => cursor.take(each)) ?? null;
    if (!aggregate) cursor.fail('"sum", "avg", "count", "max" or "min"');
    cursor.expect('()');
  }
  const aggregateCast = aggregate ? parseCast(cursor) : null;
  return { kind: 'field', field, alias, cast, aggregate, aggregateCast };
}

function parseEmbed(
  cursor: Cursor,
  name: string,
  alias: string | null,
  isSpread: boolean,
  depth: number,
): SelectItem {
  let hint: string | null = null;
  let isInner = false;
  while (cursor.take('!')) {
    const word = cursor.name();
    if (word === 'inner') isInner = true;
    else if (word !== 'left') hint = word;
  }
  cursor.expect('(', '"!" or "("');
  const items = parseItems(cursor, depth + 1);
  cursor.expect(')', '"," or ")"');
  return { kind: 'embed', name, alias, hint, isInner, isSpread, items };
}

function parseCast(cursor: Cursor): string | null {
  if (!cursor.take('::')) return null;
  return cursor.match(castAt)?.[0].trim() ?? cursor.fail('a type name');
}

function parseJsonPath(cursor: Cursor): JsonStep[] {
  const path: JsonStep[] = [];
  while (cursor.take('->')) {
    const isText = cursor.take('>');
    const index = cursor.match(indexAt);
    if (index) path.push({ isText, index: Number(index[0]) });
    else path.push({ isText, key: parseJsonKey(cursor) });
  }
  return path;
}

function parseJsonKey(cursor: Cursor): string {
  const quoted = cursor.match(quotedAt);
  if (quoted) return unescaped(quoted[1] ?? '');
  const key = cursor.match(jsonKeyAt)?.[0].trim();
  if (key) return key;
  if (!cursor.take('-')) {
    return cursor.fail('"-", digit or any non reserved character different from: .,>()');
  }
  return cursor.fail('digit');
}

function parseNames(text: string, what: string): string[] {
  const cursor = new Cursor(text, what);
  const names: string[] = [];
  do {
    names.push(cursor.name());
  } while (cursor.take(','));
  cursor.finish('"," or end of input');
  return names;
}

function parsePath(text: string): string[] {
  const path: string[] = [];
  if (text === '') return path;
  const cursor = new Cursor(text, 'tree path');
  do {
    path.push(cursor.name());
  } while (cursor.take('.'));
  cursor.finish('"." or end of input');
  return path;
}

function parseKey(key: string): { path: string[]; field: Field } {
  const cursor = new Cursor(key, 'tree path');
  const path: string[] = [];
  let name = cursor.name();
  while (cursor.take('.')) {
    path.push(name);
    name = cursor.name();
  }
  const field = { name, path: parseJsonPath(cursor) };
  cursor.finish('"." or "->" or end of input');
  return { path, field };
}

function parseOrder(text: string): OrderTerm[] {
  const cursor = new Cursor(text, 'order');
  const terms: OrderTerm[] = [];
  do {
    cursor.skipSpaces();
    let embed: string | null = null;
    let name = cursor.name();
    let path: JsonStep[];
    if (cursor.take('(')) {
      embed = name;
      name = cursor.name();
      path = parseJsonPath(cursor);
      cursor.expect(')');
    } else path = parseJsonPath(cursor);
    const direction = cursor.take('.asc') ? 'asc' : cursor.take('.desc') ? 'desc' : null;
    const nulls = cursor.take('.nullsfirst') ? 'first' : cursor.take('.nullslast') ? 'last' : null;
    terms.push({ embed, field: { name, path }, direction, nulls });
    if (!cursor.isAtEnd && !cursor.at(',')) {
      cursor.fail(nulls ? moreOrEnd : direction ? '"nullsfirst" or "nullslast"' : '"asc" or "desc"');
    }
  } while (cursor.take(','));
  return terms;
}

function parseFilter(field: Field, value: string): Filter {
  const cursor = new Cursor(value, 'filter');
  return parseOperation(cursor, field, false);
}

function looksLikeOperation(value: string): boolean {
  if (!/^(?:not\.)?[a-z]+(?:\([^()]*\))?\./.test(value)) return false;
  try {
    parseFilter({ name: '', path: [] }, value);
    return true;
  } catch {
    return false;
  }
}

function parseLogic(joiner: 'and' | 'or', isNegated: boolean, value: string): Condition {
  const cursor = new Cursor(joiner + value, 'logic tree', value);
  cursor.take(joiner);
  // Text after the closing parenthesis is ignored, as in PostgREST.
  return parseGroup(cursor, joiner, isNegated, 0);
}

function parseGroup(cursor: Cursor, joiner: 'and' | 'or', isNegated: boolean, depth: number): Condition {
  if (depth > maximumNesting) cursor.fail('fewer nested parentheses');
  cursor.expect('(');
  const conditions: Condition[] = [];
  do {
    cursor.skipSpaces();
    conditions.push(parseElement(cursor, depth));
    cursor.skipSpaces();
  } while (cursor.take(','));
  cursor.expect(')', '"," or ")"');
  return { kind: 'group', joiner, isNegated, conditions };
}

function parseElement(cursor: Cursor, depth: number): Condition {
  const start = cursor.position;
  const isNegated = cursor.take('not.');
  for (const joiner of ['and', 'or'] as const) {
    const afterName = cursor.position;
    if (cursor.take(joiner)) {
      cursor.skipSpaces();
      if (!cursor.at('(')) {
        cursor.position = afterName;
        continue;
      }
      return parseGroup(cursor, joiner, isNegated, depth + 1);
    }
  }
  cursor.position = start;
  const field = {
    name: cursor.name(`${fieldName}, negation operator (not) or logic operator (and, or)`),
    path: parseJsonPath(cursor),
  };
  cursor.expect('.');
  return parseOperation(cursor, field, true);
}

function parseOperation(cursor: Cursor, field: Field, isInLogic: boolean): Filter {
  const isNegated = cursor.take('not.');
  const start = cursor.position;
  const operator = cursor.match(wordAt)?.[0] ?? '';
  const operation = operationNamed(cursor, operator, isInLogic);
  if (!operation) {
    cursor.position = start;
    cursor.fail(isNegated ? 'operator (eq, gt, ...)' : '"not" or operator (eq, gt, ...)');
  }
  return { kind: 'filter', field, isNegated, operation };
}

function operationNamed(cursor: Cursor, operator: string, isInLogic: boolean): Operation | null {
  if (comparisons.has(operator)) {
    let quantifier: 'any' | 'all' | null = null;
    if (cursor.at('(') && quantified.has(operator)) {
      const word = cursor.match(parenthesisedAt)?.[1];
      if (word !== 'any' && word !== 'all') return null;
      quantifier = word;
    }
    if (!cursor.take('.')) return null;
    return {
      kind: 'comparison',
      operator: operator as Comparison,
      quantifier,
      value: parseValue(cursor, isInLogic),
    };
  }
  if (searches.has(operator)) {
    const language = cursor.match(parenthesisedAt)?.[1] ?? null;
    if (!cursor.take('.')) return null;
    return {
      kind: 'search',
      operator: operator as TextSearch,
      language,
      value: parseValue(cursor, isInLogic),
    };
  }
  if (operator === 'in' && cursor.take('.')) {
    const values = parseList(cursor);
    if (!isInLogic) cursor.finish('end of input');
    return { kind: 'in', values };
  }
  if (operator === 'is' && cursor.take('.')) {
    const word = cursor.match(/[a-z_]+/iy)?.[0].toLowerCase() ?? '';
    if (!['null', 'not_null', 'true', 'false', 'unknown'].includes(word)) {
      cursor.fail('isVal: (null, not_null, true, false, unknown)');
    }
    if (!isInLogic) cursor.finish('end of input');
    return { kind: 'is', value: word as IsValue };
  }
  return null;
}

function parseList(cursor: Cursor): string[] {
  cursor.expect('(');
  cursor.skipSpaces();
  const values: string[] = [];
  do {
    values.push(parseDelimited(cursor));
  } while (cursor.take(','));
  cursor.expect(')', '"," or ")"');
  return values.length === 1 && values[0] === '' ? [] : values;
}

function parseValue(cursor: Cursor, isInLogic: boolean): string {
  if (!isInLogic) return cursor.match(anythingAt)?.[0] ?? '';
  const start = cursor.position;
  const array = cursor.match(arrayLiteralAt);
  if (array && (cursor.at(',') || cursor.at(')'))) return array[0];
  cursor.position = start;
  return parseDelimited(cursor);
}

function parseDelimited(cursor: Cursor): string {
  const start = cursor.position;
  const quoted = cursor.match(quotedAt);
  if (quoted && (cursor.at(',') || cursor.at(')') || cursor.isAtEnd)) return unescaped(quoted[1] ?? '');
  cursor.position = start;
  return cursor.match(bareElementAt)?.[0] ?? '';
}
