// Second stage: names become relations, columns, relationships and functions of the schema cache, or a fault.
import { Fault } from './fault.ts';
import type { MediaType } from './media-type.ts';
import type { ParsedRequest } from './parse.ts';
import { chooseFunction } from './plan-call.ts';
import { findRelationship } from './plan-relationship.ts';
import type {
  Condition,
  Field,
  IsValue,
  JsonStep,
  Operation,
  OrderTerm,
  Query,
  SelectedEmbed,
  SelectItem,
} from './query-tree.ts';
import type {
  Column,
  ComputedColumn,
  DatabaseFunction,
  Parameter,
  Relation,
  Relationship,
  SchemaCache,
} from './schema-cache.ts';
import { mostSimilar } from './similar-name.ts';

/** A column of a read node's rows, found in the schema cache. */
export interface PlannedField {
  column: Column | null;
  computed: ComputedColumn | null;
  path: readonly JsonStep[];
}

export type PlannedItem =
  | { kind: 'star' }
  | { kind: 'field'; field: PlannedField; cast: string | null; outputName: string }
  | { kind: 'row count'; outputName: string }
  | { kind: 'embed'; embed: PlannedEmbed };

export type PlannedCondition =
  | { kind: 'filter'; field: PlannedField; isNegated: boolean; operation: Operation }
  | { kind: 'embed is null'; embed: PlannedEmbed; isNegated: boolean }
  | {
      kind: 'group';
      joiner: 'and' | 'or';
      isNegated: boolean;
      conditions: readonly PlannedCondition[];
    };

export interface PlannedOrder {
  /** The to-one embed whose field orders, or null. */
  embed: PlannedEmbed | null;
  field: PlannedField;
  direction: 'asc' | 'desc' | null;
  nulls: 'first' | 'last' | null;
}

/** Rows of one relation with what is embedded in them. */
export interface ReadNode {
  /** Name of the relation for messages. */
  name: string;
  /** The relation, when the rows are of an exposed one; relationships start here. */
  relation: Relation | null;
  columns: ReadonlyMap<string, Column>;
  items: readonly PlannedItem[];
  embeds: readonly PlannedEmbed[];
  conditions: readonly PlannedCondition[];
  orders: readonly PlannedOrder[];
  limit: number | null;
  offset: number;
}

export interface PlannedEmbed {
  node: ReadNode;
  relationship: Relationship;
  isToOne: boolean;
  isInner: boolean;
  isSpread: boolean;
  outputName: string;
}

export type Count = 'exact' | 'planned' | 'estimated';

interface PlanBase {
  media: MediaType;
  isReadOnly: boolean;
}

export interface ReadPlan extends PlanBase {
  kind: 'read';
  relation: Relation;
  node: ReadNode;
  count: Count | null;
  /** Up to how many rows an estimated count is exact. */
  exactCountUpTo: number;
  hasBody: boolean;
}

export interface ConflictTarget {
  columns: readonly Column[];
  resolution: 'merge-duplicates' | 'ignore-duplicates';
}

export type Mutation =
  | {
      kind: 'insert';
      columns: readonly Column[];
      conflict: ConflictTarget | null;
      /** PUT: the row must also satisfy these. */
      conditions: readonly PlannedCondition[];
    }
  | { kind: 'update'; columns: readonly Column[]; conditions: readonly PlannedCondition[] }
  | { kind: 'delete'; conditions: readonly PlannedCondition[] };

export interface MutationPlan extends PlanBase {
  kind: 'mutation';
  relation: Relation;
  mutation: Mutation;
  isPut: boolean;
  /** JSON rows and how many; null for delete. */
  rows: { text: string; count: number; takesDefaults: boolean } | null;
  returning: 'minimal' | 'headers-only' | 'representation';
  node: ReadNode;
  isCounted: boolean;
  maxAffected: number | null;
}

export type CallArguments =
  /** One JSON object whose keys are the parameters given. */
  | { kind: 'json'; text: string; parameters: readonly Parameter[] }
  /** Values in text form; several for a variadic parameter. */
  | { kind: 'text'; values: readonly (readonly [Parameter, readonly string[]])[] }
  /** The whole body. */
  | { kind: 'whole'; text: string; parameter: Parameter };

export interface CallPlan extends PlanBase {
  kind: 'call';
  called: DatabaseFunction;
  callArguments: CallArguments;
  node: ReadNode;
  isCounted: boolean;
  hasBody: boolean;
  maxAffected: number | null;
}

export interface OptionsPlan {
  kind: 'options';
  allow: string;
}

export type Plan = ReadPlan | MutationPlan | CallPlan | OptionsPlan;

/** What bounds every plan. */
export interface PlanLimits {
  /** Most rows a read or call returns. */
  maxRows: number;
  /** How deep embeds may nest. */
  maxEmbedDepth: number;
}

/**
 * Plans a parsed request.
 * @throws Fault when a name is unknown or ambiguous, or something is asked that cannot be
 */
export function planRequest(request: ParsedRequest, cache: SchemaCache, limits: PlanLimits): Plan {
  if (request.target.kind === 'function') return planCall(request, cache, limits);
  const relation = findRelation(cache, request.schema, request.target.name);
  switch (request.method) {
    case 'OPTIONS':
      return { kind: 'options', allow: allowedOn(relation) };
    case 'GET':
    case 'HEAD':
      return planRead(request, relation, cache, limits);
    default:
      return planMutation(request, relation, cache, limits);
  }
}

function findRelation(cache: SchemaCache, schema: string, name: string): Relation {
  const relations = cache.relations.get(schema);
  const relation = relations?.get(name);
  if (relation) return relation;
  const similar = mostSimilar(name, relations?.keys() ?? [], 0.75);
  throw new Fault(404, {
    code: 'PGRST205',
    message: `Could not find the table '${schema}.${name}' in the schema cache`,
    hint: similar ? `Perhaps you meant the table '${schema}.${similar}'` : null,
  });
}

function allowedOn(relation: Relation): string {
  const methods = ['OPTIONS', 'GET', 'HEAD'];
  if (relation.isInsertable) methods.push('POST');
  if (relation.isInsertable && relation.isUpdatable && relation.primaryKey.length > 0) methods.push('PUT');
  if (relation.isUpdatable) methods.push('PATCH');
  if (relation.isDeletable) methods.push('DELETE');
  return methods.join(',');
}

function planRead(
  request: ParsedRequest,
  relation: Relation,
  cache: SchemaCache,
  limits: PlanLimits,
): ReadPlan {
  const node = planNode(request.query, relation, relation.name, relation.columns, cache, limits);
  return {
    kind: 'read',
    relation,
    node: { ...node, ...pageOf(request, limits) },
    count: request.preferences.count,
    exactCountUpTo: limits.maxRows,
    hasBody: request.method !== 'HEAD',
    media: request.media,
    isReadOnly: true,
  };
}

const unsatisfiable = (details: string) =>
  new Fault(416, { code: 'PGRST103', message: 'Requested range not satisfiable', details });

/** Limit and offset of the request's own rows: query string, Range header and the service's maximum together. */
function pageOf(request: ParsedRequest, { maxRows }: PlanLimits): { limit: number; offset: number } {
  const { limits, offsets } = request.query;
  const asked = limits.find(({ path }) => path.length === 0)?.limit ?? null;
  if (asked !== null && asked < 0) {
    throw unsatisfiable('Limit should be greater than or equal to zero.');
  }
  const offset = Math.max(offsets.find(({ path }) => path.length === 0)?.offset ?? 0, 0);
  const { range } = request;
  if (!range) return { limit: Math.min(asked ?? maxRows, maxRows), offset };
  const start = Math.max(offset, range.offset);
  const end = Math.min(
    asked === null ? Number.POSITIVE_INFINITY : offset + asked,
    range.limit === null ? Number.POSITIVE_INFINITY : range.offset + range.limit,
  );
  if (end < start) {
    throw unsatisfiable(
      'The lower boundary must be lower than or equal to the upper boundary in the Range header.',
    );
  }
  return { limit: Math.min(end - start, maxRows), offset: start };
}

// ── Reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────

interface NodeContext {
  query: Query;
  cache: SchemaCache;
  limits: PlanLimits;
}

function planNode(
  query: Query,
  relation: Relation | null,
  name: string,
  columns: ReadonlyMap<string, Column>,
  cache: SchemaCache,
  limits: PlanLimits,
): ReadNode {
  checkPaths(query);
  return planLevel({ query, cache, limits }, { relation, name, columns }, query.select, []);
}

/** Every path that something is said about must be embedded. */
function checkPaths({ select, conditions, orders, limits, offsets }: Query): void {
  for (const { path } of [...conditions, ...orders, ...limits, ...offsets]) {
    let items = select;
    for (const step of path) {
      const embed = items.find(
        (item): item is SelectedEmbed => item.kind === 'embed' && outputNameOf(item) === step,
      );
      if (!embed) throw notEmbedded(step);
      items = embed.items;
    }
  }
}

const notEmbedded = (name: string) =>
  new Fault(400, {
    code: 'PGRST108',
    message: `'${name}' is not an embedded resource in this request`,
    hint: `Verify that '${name}' is included in the 'select' query parameter.`,
  });

const outputNameOf = (item: SelectedEmbed) => item.alias ?? item.name;

const isAt = (path: readonly string[]) => (entry: { path: readonly string[] }) =>
  entry.path.length === path.length && entry.path.every((step, index) => step === path[index]);

function planLevel(
  context: NodeContext,
  rows: Pick<ReadNode, 'relation' | 'name' | 'columns'>,
  select: readonly SelectItem[],
  path: readonly string[],
): ReadNode {
  const { query } = context;
  const embeds: PlannedEmbed[] = [];
  const items = select.map((item): PlannedItem => {
    if (item.kind === 'star') return item;
    if (item.kind === 'field') return planField(context, rows, item);
    const embed = planEmbed(context, rows, item, path);
    embeds.push(embed);
    return { kind: 'embed', embed };
  });
  const here = isAt(path);
  const scope: Scope = { ...rows, embeds };
  return {
    ...rows,
    items,
    embeds,
    conditions: query.conditions.filter(here).map(({ condition }) => planCondition(scope, condition)),
    orders: query.orders
      .filter(here)
      .flatMap(({ terms }) => terms)
      .map((term) => planOrder(scope, term)),
    limit: limitAt(query, here),
    offset: Math.max(query.offsets.find(here)?.offset ?? 0, 0),
  };
}

function limitAt({ limits }: Query, here: (entry: { path: readonly string[] }) => boolean): number | null {
  const limit = limits.find(here)?.limit ?? null;
  if (limit !== null && limit < 0) {
    throw unsatisfiable('Limit should be greater than or equal to zero.');
  }
  return limit;
}

function planField(
  context: NodeContext,
  rows: Pick<ReadNode, 'relation' | 'name' | 'columns'>,
  item: SelectItem & { kind: 'field' },
): PlannedItem {
  if (item.aggregate || !item.field) {
    throw new Fault(400, { code: 'PGRST123', message: 'Use of aggregate functions is not allowed' });
  }
  const { field } = item;
  // PostgreSQL reads `relation.count`, where there is no such column, as count(relation).
  if (field.name === 'count' && field.path.length === 0 && !item.cast && !rows.columns.has('count')) {
    return { kind: 'row count', outputName: item.alias ?? 'count' };
  }
  return {
    kind: 'field',
    field: resolveField(rows, field),
    cast: item.cast === null ? null : castType(context.cache, item.cast),
    outputName: item.alias ?? lastKey(field),
  };
}

function lastKey({ name, path }: Field): string {
  const step = path.findLast((each) => 'key' in each);
  return step && 'key' in step ? step.key : name;
}

function castType({ types }: SchemaCache, name: string): string {
  const type = types.get(name) ?? types.get(name.toLowerCase());
  if (!type) throw new Fault(400, { code: '42704', message: `type "${name}" does not exist` });
  return type;
}

function resolveField(rows: Pick<ReadNode, 'relation' | 'name' | 'columns'>, field: Field): PlannedField {
  const column = rows.columns.get(field.name) ?? null;
  const computed = column ? null : (rows.relation?.computedColumns.get(field.name) ?? null);
  if (!column && !computed) {
    throw new Fault(400, { code: '42703', message: `column ${rows.name}.${field.name} does not exist` });
  }
  return { column, computed, path: field.path };
}

function planEmbed(
  context: NodeContext,
  rows: Pick<ReadNode, 'relation' | 'name'>,
  item: SelectedEmbed,
  path: readonly string[],
): PlannedEmbed {
  if (path.length >= context.limits.maxEmbedDepth) {
    throw new Fault(400, {
      code: 'PGRST100',
      message: 'The embedded resources are nested too deeply',
      details: `At most ${context.limits.maxEmbedDepth} levels are allowed`,
    });
  }
  const relationship = findRelationship(rows, item, context.cache);
  const relation = findRelation(context.cache, relationship.foreign.schema, relationship.foreign.name);
  const outputName = outputNameOf(item);
  return {
    node: planLevel(context, { relation, name: relation.name, columns: relation.columns }, item.items, [
      ...path,
      outputName,
    ]),
    relationship,
    isToOne: relationship.cardinality === 'many-to-one' || relationship.cardinality === 'one-to-one',
    isInner: item.isInner,
    isSpread: item.isSpread,
    outputName,
  };
}

interface Scope extends Pick<ReadNode, 'relation' | 'name' | 'columns'> {
  embeds: readonly PlannedEmbed[];
}

function planCondition(scope: Scope, condition: Condition): PlannedCondition {
  if (condition.kind === 'group') {
    return { ...condition, conditions: condition.conditions.map((each) => planCondition(scope, each)) };
  }
  const { field, operation, isNegated } = condition;
  const embed = field.path.length === 0 && scope.embeds.find(({ outputName }) => outputName === field.name);
  if (embed) {
    const nullness = operation.kind === 'is' ? nullnessOf(operation.value) : null;
    if (nullness !== null) {
      return { kind: 'embed is null', embed, isNegated: isNegated !== (nullness === 'not null') };
    }
    // An embed may be named like the column that leads to it; every other filter can only mean the column.
    if (!scope.columns.has(field.name)) {
      throw new Fault(400, {
        code: 'PGRST120',
        message: `Bad operator on the '${field.name}' embedded resource`,
        details: 'Only is null or not is null filters are allowed on embedded resources',
      });
    }
  }
  return { kind: 'filter', field: resolveField(scope, field), isNegated, operation };
}

const nullnessOf = (value: IsValue) => (value === 'null' ? 'null' : value === 'not_null' ? 'not null' : null);

function planOrder(scope: Scope, { embed: name, field, direction, nulls }: OrderTerm): PlannedOrder {
  if (name === null) return { embed: null, field: resolveField(scope, field), direction, nulls };
  const embed = scope.embeds.find(({ outputName }) => outputName === name);
  if (!embed) throw notEmbedded(name);
  if (!embed.isToOne) {
    throw new Fault(400, {
      code: 'PGRST118',
      message: `A related order on '${name}' is not possible`,
      details: `'${scope.name}' and '${name}' do not form a many-to-one or one-to-one relationship`,
    });
  }
  return { embed, field: resolveField(embed.node, field), direction, nulls };
}

// ── Changing ─────────────────────────────────────────────────────────────────────────────────────────────────────────

function planMutation(
  request: ParsedRequest,
  relation: Relation,
  cache: SchemaCache,
  limits: PlanLimits,
): MutationPlan {
  const { preferences, payload, query, method } = request;
  const planned = planNode(query, relation, relation.name, relation.columns, cache, limits);
  const columns = (payload?.keys ?? []).map((key) => payloadColumn(relation, key));
  // Filters of the rows themselves choose what is changed; those on embeds only shape what is shown of it.
  const isShown = ({ kind }: PlannedCondition) => kind === 'embed is null';
  const conditions = planned.conditions.filter((condition) => !isShown(condition));
  const isPut = method === 'PUT';
  if (isPut) checkPut(request, relation);
  const mutation: Mutation =
    method === 'DELETE'
      ? { kind: 'delete', conditions }
      : method === 'PATCH'
        ? { kind: 'update', columns, conditions }
        : {
            kind: 'insert',
            columns,
            conflict: isPut
              ? { columns: primaryKeyColumns(relation), resolution: 'merge-duplicates' }
              : conflictTarget(request, relation),
            conditions: isPut ? conditions : [],
          };
  return {
    kind: 'mutation',
    relation,
    mutation,
    isPut,
    rows: payload && {
      text: payload.isArray ? payload.text : `[${payload.text}]`,
      count: payload.rowCount,
      takesDefaults: preferences.missing === 'default',
    },
    returning: preferences.return ?? 'minimal',
    node: {
      ...planned,
      conditions: planned.conditions.filter(isShown),
      orders: planned.orders,
      limit: null,
      offset: 0,
    },
    isCounted: preferences.count === 'exact' || preferences.count === 'estimated',
    maxAffected: method === 'PATCH' || method === 'DELETE' ? preferences.maxAffected : null,
    media: request.media,
    isReadOnly: false,
  };
}

function payloadColumn(relation: Relation, name: string): Column {
  const column = relation.columns.get(name);
  if (column) return column;
  throw new Fault(400, {
    code: 'PGRST204',
    message: `Could not find the '${name}' column of '${relation.name}' in the schema cache`,
  });
}

function primaryKeyColumns(relation: Relation): Column[] {
  return relation.primaryKey.map((name) => payloadColumn(relation, name));
}

function conflictTarget({ preferences, query }: ParsedRequest, relation: Relation): ConflictTarget | null {
  if (!preferences.resolution) return null;
  const columns =
    query.onConflict?.map((name) => payloadColumn(relation, name)) ?? primaryKeyColumns(relation);
  return columns.length > 0 ? { columns, resolution: preferences.resolution } : null;
}

function checkPut({ query, payload }: ParsedRequest, relation: Relation): void {
  if (query.limits.length > 0 || query.offsets.length > 0) {
    throw new Fault(400, {
      code: 'PGRST114',
      message: 'limit/offset querystring parameters are not allowed for PUT',
    });
  }
  const filtered = query.conditions.map(({ path, condition }) =>
    path.length === 0 &&
    condition.kind === 'filter' &&
    condition.field.path.length === 0 &&
    !condition.isNegated &&
    condition.operation.kind === 'comparison' &&
    condition.operation.operator === 'eq' &&
    condition.operation.quantifier === null
      ? condition.field.name
      : null,
  );
  const isExact =
    relation.primaryKey.length > 0 &&
    filtered.length === relation.primaryKey.length &&
    relation.primaryKey.every((name) => filtered.includes(name));
  if (!isExact) {
    throw new Fault(405, {
      code: 'PGRST105',
      message: "Filters must include all and only primary key columns with 'eq' operators",
    });
  }
  if (payload?.rowCount !== 1) throw putMismatch();
}

/** The fault of a PUT whose row is not the one its URL names. */
export const putMismatch = () =>
  new Fault(400, {
    code: 'PGRST115',
    message: 'Payload values do not match URL in primary key column(s)',
  });

// ── Calling ──────────────────────────────────────────────────────────────────────────────────────────────────────────

function planCall(request: ParsedRequest, cache: SchemaCache, limits: PlanLimits): CallPlan | OptionsPlan {
  const { method, schema, target, preferences } = request;
  if (method === 'OPTIONS') {
    const overloads = cache.functions.get(schema)?.get(target.name) ?? [];
    const isVolatile = overloads.some((overload) => overload.isVolatile);
    return { kind: 'options', allow: isVolatile ? 'OPTIONS,POST' : 'OPTIONS,GET,HEAD,POST' };
  }
  const { called, callArguments } = chooseFunction(request, cache);
  const { returns } = called;
  if (preferences.maxAffected !== null && !called.isSet) {
    throw new Fault(400, {
      code: 'PGRST128',
      message:
        'Function must return SETOF or TABLE when max-affected preference is used with handling=strict',
    });
  }
  const isRead = method === 'GET' || method === 'HEAD';
  const shared = {
    kind: 'call' as const,
    called,
    callArguments,
    isCounted: preferences.count !== null,
    hasBody: method !== 'HEAD',
    maxAffected: preferences.maxAffected,
    media: request.media,
    isReadOnly: isRead || !called.isVolatile,
  };
  const page = pageOf(request, limits);
  if (returns.kind !== 'composite') {
    const node: ReadNode = {
      name: called.name,
      relation: null,
      columns: new Map(),
      items: [{ kind: 'star' }],
      embeds: [],
      conditions: [],
      orders: [],
      ...page,
    };
    return { ...shared, node };
  }
  const node = planNode(request.query, returns.relation, called.name, returns.columns, cache, limits);
  return { ...shared, node: { ...node, ...page } };
}
