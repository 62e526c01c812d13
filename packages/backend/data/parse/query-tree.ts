// The query tree of a parsed request: names are not resolved yet.

/** One step into a JSON value: an object key or an array index; `isText` for `->>`. */
export type JsonStep = { isText: boolean } & ({ key: string } | { index: number });

/** A column, or a place inside its JSON value. */
export interface Field {
  name: string;
  path: readonly JsonStep[];
}

export type Aggregate = 'sum' | 'avg' | 'count' | 'max' | 'min';

interface SelectedField {
  kind: 'field';
  /** Null for `count()`, which counts rows. */
  field: Field | null;
  alias: string | null;
  cast: string | null;
  aggregate: Aggregate | null;
  aggregateCast: string | null;
}

export interface SelectedEmbed {
  kind: 'embed';
  name: string;
  alias: string | null;
  hint: string | null;
  isInner: boolean;
  isSpread: boolean;
  items: readonly SelectItem[];
}

export type SelectItem = { kind: 'star' } | SelectedField | SelectedEmbed;

export type Comparison =
  | 'eq'
  | 'neq'
  | 'gt'
  | 'gte'
  | 'lt'
  | 'lte'
  | 'like'
  | 'ilike'
  | 'match'
  | 'imatch'
  | 'cs'
  | 'cd'
  | 'ov'
  | 'sl'
  | 'sr'
  | 'nxr'
  | 'nxl'
  | 'adj'
  | 'isdistinct';
export type TextSearch = 'fts' | 'plfts' | 'phfts' | 'wfts';
export type IsValue = 'null' | 'not_null' | 'true' | 'false' | 'unknown';

export type Operation =
  | { kind: 'comparison'; operator: Comparison; quantifier: 'any' | 'all' | null; value: string }
  | { kind: 'in'; values: readonly string[] }
  | { kind: 'is'; value: IsValue }
  | { kind: 'search'; operator: TextSearch; language: string | null; value: string };

export interface Filter {
  kind: 'filter';
  field: Field;
  isNegated: boolean;
  operation: Operation;
}

interface ConditionGroup {
  kind: 'group';
  joiner: 'and' | 'or';
  isNegated: boolean;
  conditions: readonly Condition[];
}

export type Condition = Filter | ConditionGroup;

export interface OrderTerm {
  /** The embed whose field is meant; null for the rows' own. */
  embed: string | null;
  field: Field;
  direction: 'asc' | 'desc' | null;
  nulls: 'first' | 'last' | null;
}

/** A clause for the rows at `path`, which names embeds from the outside in; empty for the request's own rows. */
type At<T> = { path: readonly string[] } & T;

/** A parsed query string. */
export interface Query {
  select: readonly SelectItem[];
  conditions: readonly At<{ condition: Condition }>[];
  orders: readonly At<{ terms: readonly OrderTerm[] }>[];
  limits: readonly At<{ limit: number }>[];
  offsets: readonly At<{ offset: number }>[];
  columns: readonly string[] | null;
  onConflict: readonly string[] | null;
  /** Arguments of a function called by GET, in order, names repeated for variadic ones. */
  arguments: readonly (readonly [name: string, value: string])[];
}
