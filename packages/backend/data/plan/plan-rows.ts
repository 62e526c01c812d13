// Plans rows and their embedded resources: fields, conditions, orders, relationships.

import type {
  Condition,
  Field,
  IsValue,
  OrderTerm,
  Query,
  SelectedEmbed,
  SelectItem,
} from '../parse/query-tree.ts';
import { DataError } from '../respond/data-error.ts';
import type { Column, Relation, SchemaCache } from '../schema/schema-types.ts';
import { mostSimilar } from '../schema/similar-name.ts';
import { findRelationship } from './plan-relationship.ts';
import type {
  PlanLimits,
  PlannedCondition,
  PlannedEmbed,
  PlannedField,
  PlannedItem,
  PlannedOrder,
  ReadNode,
} from './plan-types.ts';

/** Steps of a JSON path: each is an operator within another, and PostgreSQL's own depth is limited. */
const maxPathSteps = 100;

/**
 * Finds an exposed table or view.
 * @throws DataError PGRST205 when there is none of that name
 */
export function findRelation(cache: SchemaCache, schema: string, name: string): Relation {
  const relations = cache.relations.get(schema);
  const relation = relations?.get(name);
  if (relation) return relation;
  const similar = mostSimilar(name, relations?.keys() ?? [], 0.75);
  throw new DataError(404, {
    code: 'PGRST205',
    message: `Could not find the table '${schema}.${name}' in the schema cache`,
    hint: similar ? `Perhaps you meant the table '${schema}.${similar}'` : null,
  });
}

/** The error of an invalid limit or range. */
export const unsatisfiable = (details: string) =>
  new DataError(416, { code: 'PGRST103', message: 'Requested range not satisfiable', details });

interface NodeContext {
  query: Query;
  cache: SchemaCache;
  limits: PlanLimits;
}

/**
 * Plans the rows of a query with their embedded resources.
 * @param relation the relation the rows are of, null for a function's own row type
 * @param name of the rows in messages
 * @param columns the columns the rows have
 * @throws DataError when a column, a relationship or a path is unknown, ambiguous or misused
 */
export function planNode(
  query: Query,
  relation: Relation | null,
  name: string,
  columns: ReadonlyMap<string, Column>,
  cache: SchemaCache,
  limits: PlanLimits,
): ReadNode {
  return planLevel(
    { query: withEmbeddedPaths(query), cache, limits },
    { relation, name, label: name, columns },
    query.select,
    {
      path: [],
      above: [],
    },
  );
}

/** Every path with filters or orders must be embedded; an embed with an alias has both names. */
function withEmbeddedPaths(query: Query): Query {
  const resolve = <T extends { path: readonly string[] }>(entry: T): T => {
    if (entry.path.length === 0) return entry;
    let items = query.select;
    const path = entry.path.map((step) => {
      const embeds = items.filter((item): item is SelectedEmbed => item.kind === 'embed');
      const embed =
        embeds.find((each) => outputNameOf(each) === step) ?? embeds.find(({ name }) => name === step);
      if (!embed) throw notEmbedded(step);
      items = embed.items;
      return outputNameOf(embed);
    });
    return { ...entry, path };
  };
  return {
    ...query,
    conditions: query.conditions.map(resolve),
    orders: query.orders.map(resolve),
    limits: query.limits.map(resolve),
    offsets: query.offsets.map(resolve),
  };
}

const notEmbedded = (name: string) =>
  new DataError(400, {
    code: 'PGRST108',
    message: `'${name}' is not an embedded resource in this request`,
    hint: `Verify that '${name}' is included in the 'select' query parameter.`,
  });

const outputNameOf = (item: SelectedEmbed) => item.alias ?? item.name;

const isAt = (path: readonly string[]) => (entry: { path: readonly string[] }) =>
  entry.path.length === path.length && entry.path.every((step, index) => step === path[index]);

/** Position of a level: the path of names, and the relations above its own. */
interface Place {
  path: readonly string[];
  above: readonly (Relation | null)[];
}

type Rows = Pick<ReadNode, 'relation' | 'name' | 'label' | 'columns'>;

function planLevel(context: NodeContext, rows: Rows, select: readonly SelectItem[], place: Place): ReadNode {
  const { query } = context;
  const embeds: PlannedEmbed[] = [];
  // Relationships come first: their errors take precedence over those of columns.
  for (const item of select) if (item.kind === 'embed') embeds.push(planEmbed(context, rows, item, place));
  checkNames(rows, embeds, place);
  if (!context.limits.allowsRepeats) checkRepeats(rows, select, embeds);
  let embedded = 0;
  const items = select.flatMap((item): PlannedItem[] => {
    if (item.kind === 'star') return wholeRow(rows);
    if (item.kind === 'field') return [planField(context, rows, item)];
    const embed = embeds[embedded++];
    return embed ? [{ kind: 'embed', embed }] : [];
  });
  const here = isAt(place.path);
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

/** Duplicate embeds would have one name: the error is PostgREST's, which is PostgreSQL's. */
function checkNames({ name }: Rows, embeds: readonly PlannedEmbed[], { path }: Place): void {
  const names = new Set<string>();
  for (const { outputName } of embeds) {
    if (names.has(outputName)) {
      throw new DataError(400, {
        code: '42712',
        message: `table name "${name}_${outputName}_${path.length + 1}" specified more than once`,
      });
    }
    names.add(outputName);
  }
}

/**
 * Refuses a level that selects a value several times, because each repetition makes the answer larger without saying more.
 * Different names, casts and JSON paths of one column are the same column, and a star selects them all.
 */
function checkRepeats(rows: Rows, select: readonly SelectItem[], embeds: readonly PlannedEmbed[]): void {
  const refuse = (what: string) => {
    throw new DataError(400, {
      code: 'PGRST100',
      message: `The request selects ${what} more than once`,
      details: 'Each is selected once per level',
    });
  };
  const selected = new Set<string>();
  const add = (key: string, what: string) => {
    if (selected.has(key)) refuse(what);
    selected.add(key);
  };
  for (const item of select) {
    if (item.kind === 'star') for (const name of rows.columns.keys()) add(name, `the column "${name}"`);
    if (item.kind !== 'field') continue;
    const name = item.field?.name ?? '';
    if (item.aggregate || !item.field) add(`${item.aggregate ?? 'count'}(${name})`, 'an aggregate');
    else add(name, `the column "${name}"`);
  }
  const relationships = new Set<PlannedEmbed['relationship']>();
  for (const { relationship, node } of embeds) {
    if (relationships.has(relationship)) refuse(`"${node.name}"`);
    relationships.add(relationship);
  }
}

/** Every column; listed individually where some have representations. */
function wholeRow({ columns }: Pick<ReadNode, 'columns'>): PlannedItem[] {
  let isPlain = true;
  for (const { representation } of columns.values()) if (representation?.toJson) isPlain = false;
  if (isPlain) return [{ kind: 'star' }];
  return Array.from(columns.values(), (column) => ({
    kind: 'field',
    field: { column, computed: null, path: [] },
    cast: null,
    outputName: column.name,
  }));
}

function limitAt({ limits }: Query, here: (entry: { path: readonly string[] }) => boolean): number | null {
  const limit = limits.find(here)?.limit ?? null;
  if (limit !== null && limit < 0) {
    throw unsatisfiable('Limit should be greater than or equal to zero.');
  }
  return limit;
}

function planField(context: NodeContext, rows: Rows, item: SelectItem & { kind: 'field' }): PlannedItem {
  const castOf = (name: string | null) => (name === null ? null : castType(context.cache, name));
  const { field, aggregate } = item;
  if (aggregate || !field) {
    if (!context.limits.allowsAggregates) {
      throw new DataError(400, { code: 'PGRST123', message: 'Use of aggregate functions is not allowed' });
    }
    return {
      kind: 'aggregate',
      aggregate: aggregate ?? 'count',
      field: field && resolveField(rows, field),
      cast: castOf(item.cast),
      aggregateCast: castOf(item.aggregateCast),
      outputName: item.alias ?? aggregate ?? 'count',
    };
  }
  // PostgreSQL reads `relation.count`, without such a column, as count(relation).
  if (field.name === 'count' && field.path.length === 0 && !item.cast && !rows.columns.has('count')) {
    const outputName = item.alias ?? 'count';
    return {
      kind: 'aggregate',
      aggregate: 'count',
      field: null,
      cast: null,
      aggregateCast: null,
      outputName,
    };
  }
  return {
    kind: 'field',
    field: resolveField(rows, field),
    cast: castOf(item.cast),
    outputName: item.alias ?? lastKey(field),
  };
}

function lastKey({ name, path }: Field): string {
  const step = path.findLast((each) => 'key' in each);
  return step && 'key' in step ? step.key : name;
}

function castType({ types }: SchemaCache, name: string): string {
  const type = types.get(name) ?? types.get(name.toLowerCase());
  if (!type) throw new DataError(400, { code: '42704', message: `type "${name}" does not exist` });
  return type;
}

function resolveField(rows: Rows, field: Field): PlannedField {
  if (field.path.length > maxPathSteps) {
    throw new DataError(400, {
      code: 'PGRST100',
      message: `The JSON path into ${field.name} is too long`,
      details: `At most ${maxPathSteps} steps are allowed`,
    });
  }
  const column = rows.columns.get(field.name) ?? null;
  const computed = column ? null : (rows.relation?.computedColumns.get(field.name) ?? null);
  if (!column && !computed) {
    throw new DataError(400, { code: '42703', message: `column ${rows.label}.${field.name} does not exist` });
  }
  return { column, computed, path: field.path };
}

function planEmbed(
  context: NodeContext,
  rows: Pick<ReadNode, 'relation' | 'name'>,
  item: SelectedEmbed,
  { path, above }: Place,
): PlannedEmbed {
  if (path.length >= context.limits.maxEmbedDepth) {
    throw new DataError(400, {
      code: 'PGRST100',
      message: 'The embedded resources are nested too deeply',
      details: `At most ${context.limits.maxEmbedDepth} levels are allowed`,
    });
  }
  const relationship = findRelationship(rows, item, context.cache);
  const relation = findRelation(context.cache, relationship.foreign.schema, relationship.foreign.name);
  const outputName = outputNameOf(item);
  const isToOne = relationship.cardinality === 'many-to-one' || relationship.cardinality === 'one-to-one';
  const ways = [...above, rows.relation];
  if (!context.limits.allowsCircles && !isToOne && ways.includes(relation)) {
    throw new DataError(400, {
      code: 'PGRST100',
      message: 'The embedded resources lead back to where they come from',
      details: `'${relation.name}' would be embedded in itself through '${rows.name}'`,
    });
  }
  // PostgREST numbers them by their depth, except those behind a junction.
  const label = relationship.junction ? relation.name : `${relation.name}_${path.length + 1}`;
  const rowsOf = { relation, name: relation.name, label, columns: relation.columns };
  const node = planLevel(context, rowsOf, item.items, {
    path: [...path, outputName],
    above: ways,
  });
  if (item.isSpread && !isToOne && aggregatesAny(node)) {
    throw new DataError(400, {
      code: 'PGRST127',
      message: 'Feature not implemented',
      details: 'Aggregates are not implemented for one-to-many or many-to-many spreads.',
    });
  }
  const limit = Math.min(node.limit ?? Number.POSITIVE_INFINITY, context.limits.maxRows);
  return {
    node: isToOne || limit === Number.POSITIVE_INFINITY ? node : { ...node, limit },
    relationship,
    isToOne,
    isInner: item.isInner,
    isSpread: item.isSpread,
    outputName,
  };
}

/** Whether a node, or a node spread into it, aggregates. */
function aggregatesAny({ items }: ReadNode): boolean {
  return items.some(
    (item) =>
      item.kind === 'aggregate' ||
      (item.kind === 'embed' && item.embed.isSpread && item.embed.isToOne && aggregatesAny(item.embed.node)),
  );
}

interface Scope extends Rows {
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
    // An embed may have the name of its foreign key column; every other filter refers to the column.
    if (!scope.columns.has(field.name)) {
      throw new DataError(400, {
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
    throw new DataError(400, {
      code: 'PGRST118',
      message: `A related order on '${name}' is not possible`,
      details: `'${scope.name}' and '${name}' do not form a many-to-one or one-to-one relationship`,
    });
  }
  const renamed = embed.node.items.find(
    (item) => item.kind === 'field' && item.outputName === field.name && field.path.length === 0,
  );
  const isRenamed = renamed?.kind === 'field' && !embed.node.columns.has(field.name);
  const target = isRenamed ? renamed.field : resolveField(embed.node, field);
  return { embed, field: target, direction, nulls };
}
